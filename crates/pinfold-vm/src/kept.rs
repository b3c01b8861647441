//! Files of the cache that are made again when they are missing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// How many are kept of a directory: for some kernels, and executables before an update.
pub(crate) const KEPT: usize = 4;
/// What an unfinished file's name begins with. The rest is random: two containers have the same process ids.
pub(crate) const UNFINISHED: &str = ".new-";
/// What the name of a file ends with that says that there will be none for a while.
pub(crate) const NONE: &str = ".none";
/// Digits of a hash, by which a name ends.
const DIGITS: usize = 16;
/// How long a mark counts.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a file that is being made may stay as it is. It is written in seconds; one that a process has left, which was
/// killed, has 160 MiB.
const LONGEST: Duration = Duration::from_secs(600);

/// Makes a directory of `machines` in the cache, closed to others, if it is missing.
///
/// # Errors
/// Returns the error of mkdir(2), and those of [`check`].
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    check(path)
}

/// Checks a directory of `machines`, and that one. The cache above it was checked when it was found.
///
/// # Errors
/// Returns the error of lstat(2), or that one of them is no directory of the caller's that others cannot write to.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    for directory in path.parent().into_iter().chain([path]) {
        let about = fs::symlink_metadata(directory)?;
        let is_own = about.is_dir()
            && about.uid() == rustix::process::geteuid().as_raw()
            && about.mode() & 0o022 == 0;
        if !is_own {
            return Err(io::Error::other(format!(
                "{} is no directory of yours that others cannot write to: remove it",
                directory.display()
            )));
        }
    }
    Ok(())
}

/// Removes what was not used for longest, apart from this one, of a directory that was checked, and what is of no use any
/// more. A machine that runs keeps its files, and what has another name than such files is somebody else's.
pub(crate) fn forget_old(directory: &Path, place: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut others = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path() != place) {
        let modified = entry.metadata().and_then(|about| about.modified());
        let (Some(made), Ok(modified)) = (Made::of(&entry.file_name()), modified) else { continue };
        match made {
            Made::Whole => others.push((modified, entry.path())),
            Made::Mark if is_within(modified, DAY) => {}
            Made::Unfinished if is_within(modified, LONGEST) => {}
            Made::Mark | Made::Unfinished => remove(&entry.path()),
        }
    }
    others.sort_unstable();
    let many = others.len().saturating_sub(KEPT - 1);
    others[..many].iter().for_each(|(_, path)| remove(path));
}

/// Removes a file, or a directory with all that is in it.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
}

/// Has something count as used just now.
pub(crate) fn mark_used(path: &Path) {
    let now = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    let _ = rustix::fs::utimensat(CWD, path, &now, AtFlags::SYMLINK_NOFOLLOW);
}

/// Returns whether something has changed within so long, and not after now.
pub(crate) fn is_within(modified: SystemTime, period: Duration) -> bool {
    modified.elapsed().is_ok_and(|age| age < period)
}

/// What is made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// `HASH` or `RELEASE-HASH`.
    Whole,
    /// `HASH.none`.
    Mark,
    /// What a process is making, or was when it was killed.
    Unfinished,
}

impl Made {
    /// Returns which one has this name, or nothing for somebody else's.
    fn of(name: &OsStr) -> Option<Self> {
        let name = name.as_bytes();
        if name.starts_with(UNFINISHED.as_bytes()) {
            return Some(Self::Unfinished);
        }
        let (name, made) = match name.strip_suffix(NONE.as_bytes()) {
            Some(name) => (name, Self::Mark),
            None => (name, Self::Whole),
        };
        let (above, hash) = name.split_last_chunk::<DIGITS>()?;
        let is_hash = hash.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (is_hash && (above.is_empty() || above.ends_with(b"-"))).then_some(made)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_others_could_change_is_no_directory_of_the_cache() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        make_directory(&at("a/new")).unwrap();
        assert_eq!(fs::metadata(at("a/new")).unwrap().mode() & 0o777, 0o700);
        symlink(at("a/new"), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        for (name, mode) in [("group", 0o770), ("all", 0o1777)] {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for name in ["link", "file", "group", "all"] {
            make_directory(&at(name)).unwrap_err();
        }
        make_directory(&at("a/new")).unwrap();
        // Nor what lies in such a one.
        for name in ["link/new", "group/new", "all/new"] {
            make_directory(&at(name)).unwrap_err();
        }
    }

    #[test]
    fn only_whole_ones_take_room_from_each_other() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            fs::write(root.path().join(name), "").unwrap();
            root.path().join(name)
        };
        let age = |path: &Path, age: Duration| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        let minute = Duration::from_secs(60);
        let whole: Vec<_> = (0..KEPT).map(|number| make(&format!("{number:016x}"))).collect();
        whole.iter().for_each(|path| age(path, minute));
        let others: Vec<_> = (0..2 * KEPT)
            .flat_map(|number| {
                [make(&format!("{number:016x}.none")), make(&format!("{UNFINISHED}{number}"))]
            })
            .collect();
        forget_old(root.path(), &whole[0]);
        assert!(whole.iter().chain(&others).all(|path| path.exists()));
        // What was left by a process that was killed goes, and so does a mark that counts no more.
        let (mark, unfinished) = (&others[0], &others[1]);
        age(mark, DAY + minute);
        age(unfinished, LONGEST + minute);
        forget_old(root.path(), &whole[0]);
        assert!(whole.iter().chain(&others[2..]).all(|path| path.exists()));
        assert!(!mark.exists() && !unfinished.exists());
    }

    #[test]
    fn only_what_was_made_is_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(root.path().join(name), "").unwrap();
        let mine =
            ["letters", "notes-2026", "0123456789abcdeg", "x0123456789abcdef", "kernel.none"];
        mine.into_iter().for_each(make);
        for number in 0..10 {
            make(&format!("{number:016x}"));
            make(&format!("6.1.0-{number:016x}"));
        }
        forget_old(root.path(), &root.path().join("0000000000000000"));
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), mine.len() + KEPT);
        for name in mine {
            assert!(root.path().join(name).exists(), "{name}");
        }
    }
}
