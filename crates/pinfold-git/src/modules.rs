//! Git directories of submodules in a git directory that may hold anything.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use pinfold_host::beneath::{kind_at, list_beneath, open_directory};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::opened::held;

/// Git directories that are found in one at most.
const MOST: usize = 64;
/// Directories that are looked at.
const MOST_DIRECTORIES: usize = 4096;
/// Levels of a name.
const DEEPEST: usize = 16;

/// Lists the names of submodules in the git directory at `git`, which may hold anything.
#[must_use]
pub fn names(git: &Path) -> Vec<PathBuf> {
    let Ok(top) = open_directory(git) else { return Vec::new() };
    let (mut names, mut left) = (Vec::new(), MOST_DIRECTORIES);
    collect(&top, Path::new("modules"), DEEPEST, &mut left, &mut names);
    names.sort();
    names.truncate(MOST);
    names
}

fn collect(top: &OwnedFd, at: &Path, deepest: usize, left: &mut usize, names: &mut Vec<PathBuf>) {
    let Some(deepest) = deepest.checked_sub(1) else { return };
    for entry in list_beneath(top, at).into_iter().flatten().flatten() {
        if *left == 0 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        *left -= 1;
        let path = at.join(entry.file_name());
        let Ok(opened) = below(top, &path) else { continue };
        if is_git(&opened) {
            names.extend(path.strip_prefix("modules").map(Path::to_owned));
        } else {
            collect(top, &path, deepest, left, names);
        }
    }
}

/// Returns whether git takes a directory for a git directory (gitrepository-layout(5)).
fn is_git(directory: &OwnedFd) -> bool {
    let is = |name| kind_at(directory, name) == Some(FileType::Directory);
    kind_at(directory, "HEAD").is_some() && is("objects") && is("refs")
}

/// Returns whether anything lies here that belongs to a git directory: another one in it would be mixed up with it.
fn is_part_of_git(directory: &OwnedFd) -> bool {
    ["HEAD", "config", "objects", "refs"].iter().any(|name| kind_at(directory, name).is_some())
}

/// Opens a directory beneath another one, through no link.
///
/// # Errors
/// Returns the error of `openat2(2)`.
pub fn below(top: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(top, path, flags, Mode::empty(), how)
}

/// What lies on the host under a submodule's name.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing.
    Free,
    /// A git directory.
    There,
    /// Something that the name cannot lie next to or in.
    Conflict,
}

/// Looks what lies under a submodule's name in the host's git directory.
#[must_use]
pub fn taken(git: &OwnedFd, name: &Path) -> Taken {
    let Ok(mut at) = below(git, Path::new("modules")) else {
        return match kind_at(git, "modules") {
            None => Taken::Free,
            Some(_) => Taken::Conflict,
        };
    };
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        if has_other_case(&at, part.as_os_str().to_owned()) {
            return Taken::Conflict;
        }
        let part = Path::new(part.as_os_str());
        match below(&at, part) {
            Ok(opened) if parts.peek().is_none() => {
                let is_whole = is_git(&opened);
                return if is_whole { Taken::There } else { Taken::Conflict };
            }
            Ok(opened) if is_part_of_git(&opened) => return Taken::Conflict,
            Ok(opened) => at = opened,
            Err(Errno::NOENT) => return Taken::Free,
            Err(_) => return Taken::Conflict,
        }
    }
    Taken::Conflict
}

/// Returns whether a directory has a name that is the same where case does not count.
fn has_other_case(directory: &OwnedFd, name: OsString) -> bool {
    let listed = fs::read_dir(held(directory));
    let names = listed.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|other| other != name && other.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn make(git: &Path) {
        for directory in ["objects", "refs"] {
            fs::create_dir_all(git.join(directory)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn names_do_not_lead_through_links_or_into_a_module() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().canonicalize().unwrap().join("git");
        for name in ["a", "b/c", "a/b", "a/modules/d"] {
            make(&git.join("modules").join(name));
        }
        symlink("a", git.join("modules/link")).unwrap();
        fs::create_dir(git.join("modules/empty")).unwrap();
        assert_eq!(names(&git), [Path::new("a"), Path::new("b/c")]);
        symlink(git.join("modules"), dir.path().join("modules")).unwrap();
        assert!(names(&dir.path().canonicalize().unwrap()).is_empty());
    }

    #[test]
    fn name_next_to_or_in_another_module_is_a_conflict() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().canonicalize().unwrap();
        let opened = below(rustix::fs::CWD, &git);
        assert!(opened.is_err(), "an absolute path is not beneath");
        let opened = open_directory(&git).unwrap();
        assert_eq!(taken(&opened, Path::new("a")), Taken::Free);
        make(&git.join("modules/a"));
        make(&git.join("modules/x/y"));
        symlink("/", git.join("modules/root")).unwrap();
        fs::write(git.join("modules/file"), "").unwrap();
        let is = |name: &str| taken(&opened, Path::new(name));
        assert_eq!(is("a"), Taken::There);
        assert_eq!(is("x/y"), Taken::There);
        for free in ["b", "x/z", "b/c/d"] {
            assert_eq!(is(free), Taken::Free, "{free}");
        }
        for name in
            ["A", "a/b", "a/modules", "a/hooks", "x", "X/z", "root", "root/tmp", "file", "file/b"]
        {
            assert_eq!(is(name), Taken::Conflict, "{name}");
        }
    }
}
