//! Moving one directory: what is in it is renamed into a new one, which the kernel does file by file
//! (a file of a lower layer is copied up). What goes wrong on the way is taken back; a session that
//! ends on the way leaves each file in one place or the other. Others may see it half done.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{AtFlags, Dir, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::call::Name;

/// How deep directories may lie in each other; three descriptors are held for each level.
const DEEPEST: u32 = 256;
/// What the owner of a directory needs to move what is in it.
const OWNER: u32 = 0o700;

/// Renames a directory of a view.
///
/// # Errors
/// Returns why it could not be; then everything is as it was.
pub(super) fn rename(old: &Name, new: &Name) -> Result<(), Errno> {
    match keep(&old.above, &old.last, &new.above, &new.last) {
        Err(Errno::EXIST) => replace(old, new),
        Err(Errno::XDEV) if in_one_view(&old.above, &new.above)? => {
            carry(Entry::of(old), Entry::of(new), 0)
        }
        renamed => renamed,
    }
}

/// Replaces the directory of the new name, which must be empty.
fn replace(old: &Name, new: &Name) -> Result<(), Errno> {
    if !in_one_view(&old.above, &new.above)? {
        return Err(Errno::XDEV);
    }
    let node = |name: &Name| rustix::fs::statat(&name.above, &name.last, AtFlags::SYMLINK_NOFOLLOW);
    let (itself, before) = (node(old)?, node(new)?);
    if (itself.st_dev, itself.st_ino) == (before.st_dev, before.st_ino) {
        // To rename something to itself is to do nothing (rename(2)).
        return Ok(());
    }
    rustix::fs::unlinkat(&new.above, &new.last, AtFlags::REMOVEDIR)?;
    rename(old, new).inspect_err(|_| {
        // What was empty is as good as itself.
        let _ = rustix::fs::mkdirat(&new.above, &new.last, mode(&before));
    })
}

/// File systems that a view is: a machine's kernel has those of its host by virtiofs.
const VIEWS: [i64; 2] = [libc::OVERLAYFS_SUPER_MAGIC, libc::FUSE_SUPER_MAGIC];

/// Returns whether these are directories of the same mount of one view.
fn in_one_view(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Errno> {
    use rustix::fs::StatxFlags;
    let mount = |place: &OwnedFd| {
        rustix::fs::statx(place, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
            .map(|it| it.stx_mnt_id)
    };
    let kind = rustix::fs::fstatfs(one)?.f_type;
    Ok(VIEWS.contains(&kind) && mount(one)? == mount(other)?)
}

/// A name in an open directory.
#[derive(Clone, Copy)]
struct Entry<'a> {
    above: &'a OwnedFd,
    name: &'a OsStr,
}

impl<'a> Entry<'a> {
    fn of(name: &'a Name) -> Self {
        Self { above: &name.above, name: &name.last }
    }
}

/// Moves a directory to a name that nothing has.
fn carry(old: Entry<'_>, new: Entry<'_>, depth: u32) -> Result<(), Errno> {
    let Entry { above, name } = old;
    if depth == DEEPEST {
        return Err(Errno::XDEV);
    }
    let before = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if before.st_mode & OWNER != OWNER {
        let opened = Mode::from_raw_mode(before.st_mode & 0o7777 | OWNER);
        rustix::fs::chmodat(above, name, opened, AtFlags::empty())?;
    }
    let made = rustix::fs::mkdirat(new.above, new.name, Mode::from_raw_mode(OWNER));
    let carried = made.and_then(|()| {
        let mut moved = Vec::new();
        let filled = fill(old, new, &before, &mut moved, depth);
        filled.inspect_err(|_| bring_back(old, new, &moved))
    });
    carried.inspect_err(|_| {
        let _ = rustix::fs::chmodat(above, name, mode(&before), AtFlags::empty());
    })
}

/// Moves what is in a directory to a new one, and then removes it.
fn fill(
    old: Entry<'_>,
    new: Entry<'_>,
    before: &Stat,
    moved: &mut Vec<OsString>,
    depth: u32,
) -> Result<(), Errno> {
    let (from, to) = (open(old)?, open(new)?);
    for name in entries(&from)? {
        let there = Entry { above: &to, name: &name };
        match keep(&from, &name, &to, &name) {
            Err(Errno::XDEV) => carry(Entry { above: &from, name: &name }, there, depth + 1),
            renamed => renamed,
        }?;
        moved.push(name);
    }
    become_like(&to, &from, before)?;
    rustix::fs::unlinkat(old.above, old.name, AtFlags::REMOVEDIR)?;
    // Nothing goes wrong with a time, and there is no way back from here.
    let _ = rustix::fs::futimens(&to, &times(before));
    Ok(())
}

/// Brings back what was moved: it lies in the upper layer by now, so the kernel renames it.
fn bring_back(old: Entry<'_>, new: Entry<'_>, moved: &[OsString]) {
    let _ = rustix::fs::chmodat(new.above, new.name, Mode::from_raw_mode(OWNER), AtFlags::empty());
    let Ok(from) = open(old) else { return };
    let Ok(to) = open(new) else { return };
    for entry in moved.iter().rev() {
        let _ = keep(&to, entry, &from, entry);
    }
    let _ = rustix::fs::unlinkat(new.above, new.name, AtFlags::REMOVEDIR);
}

/// Renames, but over nothing. The filter passes this by.
fn keep(from: impl AsFd, name: &OsStr, to: impl AsFd, new_name: &OsStr) -> Result<(), Errno> {
    rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE)
}

fn open(entry: Entry<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(entry.above, entry.name, flags, Mode::empty())
}

fn entries(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Gives a new directory owner, attributes and mode of another. What it inherited from the one above
/// and the other lacks is taken away (acl(5), default ACL).
fn become_like(to: &OwnedFd, from: &OwnedFd, before: &Stat) -> Result<(), Errno> {
    use rustix::fs::{XattrFlags, fchmod, fchown, fgetxattr, fremovexattr, fsetxattr};
    let now = rustix::fs::fstat(to)?;
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid) {
        fchown(to, Some(Uid::from_raw(before.st_uid)), Some(Gid::from_raw(before.st_gid)))?;
    }
    let wanted = attributes(from)?;
    for name in attributes(to)?.iter().filter(|name| !wanted.contains(name)) {
        fremovexattr(to, name.as_slice())?;
    }
    let mut value = vec![0_u8; LARGEST];
    for name in &wanted {
        let length = fgetxattr(from, name.as_slice(), &mut value[..])?;
        fsetxattr(to, name.as_slice(), &value[..length], XattrFlags::empty())?;
    }
    fchmod(to, mode(before))
}

/// What the kernel takes for the value and the list of extended attributes (`XATTR_SIZE_MAX`).
const LARGEST: usize = 64 * 1024;

/// Names of the extended attributes that are not the system's own affair.
fn attributes(place: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut list = vec![0_u8; LARGEST];
    let length = match rustix::fs::flistxattr(place, &mut list[..]) {
        Err(Errno::NOTSUP) => 0,
        length => length?,
    };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let ours = |name: &&[u8]| !name.starts_with(b"security.") && !name.starts_with(b"trusted.");
    Ok(names.filter(ours).map(<[u8]>::to_vec).collect())
}

fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    Timestamps {
        last_access: time(stat.st_atime as _, stat.st_atime_nsec as _),
        last_modification: time(stat.st_mtime as _, stat.st_mtime_nsec as _),
    }
}
