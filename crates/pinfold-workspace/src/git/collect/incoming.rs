//! Storing the objects that a scratch sandbox checked.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use data_encoding::HEXLOWER;
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, owner_at};
use ring::digest::{Context, SHA256};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::super::import::CHECKED;
use super::Collect;

/// Bytes of one file of objects.
const LARGEST: u64 = 8 << 30;

impl Collect<'_> {
    /// Copies packs and loose objects from the scratch sandbox's directory into the host's. An
    /// object that the host has already is never replaced.
    pub(super) fn store_incoming(&self) -> Result<(), Refusal> {
        let incoming = self.out.join(CHECKED).join("incoming");
        if fs::symlink_metadata(&incoming).is_err() {
            return Ok(());
        }
        let failed = |error: io::Error| Refusal::new("its objects cannot be stored").because(error);
        let objects = self.copied.host.open_below(Path::new("objects")).map_err(failed)?;
        for entry in fs::read_dir(&incoming).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_loose = name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_loose || name == "pack" {
                store(&incoming.join(name), &objects, name).map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl Collect<'_> {
    /// Copies files of Git LFS that the session made to the host, each only if its content has the
    /// hash that is its name (git-lfs, docs/spec.md).
    pub(super) fn store_large_files(&self) -> Result<(), Refusal> {
        let failed =
            |error: io::Error| Refusal::new("files of Git LFS cannot be stored").because(error);
        let Ok(own) = open_directory(&self.copied.private.join("lfs/objects")) else {
            return Ok(());
        };
        let mut left = MOST_LARGE_FILES;
        for first in list(&own).map_err(failed)?.iter().filter(|name| is_pair(name)) {
            let Ok(first_directory) = open_below(&own, first) else { continue };
            for second in
                list(&first_directory).map_err(failed)?.iter().filter(|name| is_pair(name))
            {
                let Ok(directory) = open_below(&first_directory, second) else { continue };
                for name in list(&directory).map_err(failed)? {
                    let is_place = name.starts_with(&format!("{first}{second}"));
                    left = left.checked_sub(1).ok_or("there are too many files of Git LFS")?;
                    if is_place && is_digest(&name) {
                        self.store_large_file(&directory, &name).map_err(failed)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn store_large_file(&self, from: &OwnedFd, name: &str) -> io::Result<()> {
        let mut to = self.copied.host.open()?;
        for part in ["lfs", "objects", &name[..2], &name[2..4]] {
            to = directory_in(&to, part)?;
        }
        let is_there = rustix::fs::statat(&to, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if is_there { Ok(()) } else { copy_if(from, &to, name, Some(name)) }
    }
}

/// Files of Git LFS that one session may bring.
const MOST_LARGE_FILES: usize = 100_000;

fn is_pair(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn open_below(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

/// Opens a directory, which is made if it is not there.
fn directory_in(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let made = match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.into()),
    };
    if made {
        give(above, name)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        share(above, openat(above, name, flags, Mode::empty())?, 0o2777)?;
    }
    open_below(above, name)
}

/// Lets a group have what is new in a repository that it shares (`core.sharedRepository`, git-config(1)), whatever the
/// caller's umask is: where the group may write to the directory above, the rights are those of that one.
fn share(above: &OwnedFd, new: impl AsFd, most: u32) -> io::Result<()> {
    let mode = rustix::fs::fstat(above)?.st_mode;
    if mode & 0o020 != 0 {
        rustix::fs::fchmod(new, Mode::from_raw_mode(mode & most))?;
    }
    Ok(())
}

fn store(from: &Path, objects: &OwnedFd, name: &str) -> io::Result<()> {
    let to = directory_in(objects, name)?;
    let from = open_directory(from)?;
    let mut names: Vec<String> =
        list(&from)?.into_iter().filter(|file| is_object(name, file)).collect();
    // git takes a pack for whole once its index is there.
    names.sort_by_key(|file| file.ends_with(".idx"));
    names.iter().try_for_each(|file| copy(&from, &to, file))
}

fn list(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory));
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Returns whether a file in a directory of objects is one (gitrepository-layout(5)).
fn is_object(directory: &str, file: &str) -> bool {
    let is_hex = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if directory != "pack" {
        return is_hex(file, &[38, 62]);
    }
    let base = file.strip_prefix("pack-").and_then(|name| name.split_once('.'));
    base.is_some_and(|(hash, end)| is_hex(hash, &[40, 64]) && ["pack", "idx", "rev"].contains(&end))
}

/// Copies a file into a new inode, unless one of this name is there.
fn copy(from: &OwnedFd, to: &OwnedFd, name: &str) -> io::Result<()> {
    copy_if(from, to, name, None)
}

/// Does the same, only if the content has this digest (SHA-256).
fn copy_if(from: &OwnedFd, to: &OwnedFd, name: &str, digest: Option<&str>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(from, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("a scratch sandbox left something else than a file"));
    }
    let temporary = format!("tmp_pinfold_{}_{name}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut new = File::from(openat(to, &temporary, flags, Mode::from_raw_mode(0o444))?);
    let mut hashed = Hashed { file: &mut new, context: Context::new(&SHA256) };
    let copied = io::copy(&mut io::Read::take(file, LARGEST), &mut hashed)
        .and_then(|_| {
            let found = HEXLOWER.encode(hashed.context.finish().as_ref());
            if digest.is_none_or(|digest| digest == found) {
                share(to, &*hashed.file, 0o444)?;
                give(to, &temporary)
            } else {
                Err(io::Error::other(format!("{name} is not what its name says")))
            }
        })
        .and_then(|()| match renameat_with(to, &temporary, to, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Ok(unlinkat(to, &temporary, AtFlags::empty())?),
            renamed => Ok(renamed?),
        });
    if copied.is_err() {
        let _ = unlinkat(to, &temporary, AtFlags::empty());
    }
    copied
}

/// A file that is written, with the digest of what was.
struct Hashed<'a> {
    file: &'a mut File,
    context: Context,
}

impl io::Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.context.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Gives a new entry to the owner of its directory, where that is not the caller.
fn give(directory: &OwnedFd, name: &str) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Some((uid, gid)) = owner_at(directory, ".") else { return Ok(()) };
    let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    Ok(rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_large_file_is_stored_under_its_digest_alone() {
        let dir = tempfile::tempdir().unwrap();
        for directory in ["in", "out"] {
            fs::create_dir(dir.path().join(directory)).unwrap();
        }
        let open =
            |name: &str| open_directory(&dir.path().canonicalize().unwrap().join(name)).unwrap();
        let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        fs::write(dir.path().join("in").join(digest), "hello").unwrap();
        copy_if(&open("in"), &open("out"), digest, Some(digest)).unwrap();
        fs::remove_file(dir.path().join("out").join(digest)).unwrap();
        fs::write(dir.path().join("in").join(digest), "other").unwrap();
        copy_if(&open("in"), &open("out"), digest, Some(digest)).unwrap_err();
        assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 0);
    }

    #[test]
    fn group_that_shares_a_repository_can_add_to_what_a_session_stored() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().canonicalize().unwrap().join(name);
        let object = "b".repeat(38);
        fs::create_dir_all(path("in/ab")).unwrap();
        fs::write(path(&format!("in/ab/{object}")), "new").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        rustix::process::umask(Mode::from_raw_mode(0o077));
        for (of_objects, of_directory, of_file) in
            [(0o2775, 0o2775, 0o444), (0o2770, 0o2770, 0o440), (0o755, 0o700, 0o400)]
        {
            let objects = path(&format!("{of_objects:o}"));
            fs::create_dir(&objects).unwrap();
            fs::set_permissions(&objects, fs::Permissions::from_mode(of_objects)).unwrap();
            store(&path("in/ab"), &open_directory(&objects).unwrap(), "ab").unwrap();
            assert_eq!(mode(&objects.join("ab")), of_directory);
            assert_eq!(mode(&objects.join("ab").join(&object)), of_file);
        }
    }

    #[test]
    fn only_objects_are_stored() {
        let hash = "a".repeat(40);
        assert!(is_object("pack", &format!("pack-{hash}.pack")) && is_object("ab", &hash[..38]));
        for (directory, file) in
            [("pack", "../x"), ("pack", "pack-x.pack"), ("ab", "x"), ("pack", "pack-")]
        {
            assert!(!is_object(directory, file), "{file}");
        }
        assert!(!is_object("pack", &format!("pack-{hash}.keep")));
    }

    #[test]
    fn an_object_that_is_there_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let object = "b".repeat(38);
        for directory in ["in/ab", "objects/ab"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path(&format!("in/ab/{object}")), "new").unwrap();
        fs::write(path(&format!("objects/ab/{object}")), "old").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path(&format!("in/ab/{}", "c".repeat(38))))
            .unwrap();
        let objects = open_directory(&path("objects").canonicalize().unwrap()).unwrap();
        let from = path("in/ab").canonicalize().unwrap();
        store(&from, &objects, "ab").unwrap_err();
        fs::remove_file(path(&format!("in/ab/{}", "c".repeat(38)))).unwrap();
        store(&from, &objects, "ab").unwrap();
        assert_eq!(fs::read(path(&format!("objects/ab/{object}"))).unwrap(), b"old");
        assert_eq!(fs::read_dir(path("objects/ab")).unwrap().count(), 1);
    }
}
