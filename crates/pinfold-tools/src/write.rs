//! Writing files so that nobody sees half of one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{Access, AtFlags, FallocateFlags, Mode, OFlags, RawMode, Stat, XattrFlags};
use rustix::io::Errno;

use crate::Bytes;
use crate::error::{ErrorKind, ToolError};
use crate::operation::{Write, WriteDone};
use crate::roots::{Roots, Spot, There, link_of};

/// Permission bits that a file keeps when its content is replaced.
const KEPT: RawMode = 0o777;
/// The extended attribute that holds an access list (xattr(7)).
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Puts content into a file.
///
/// # Errors
/// Returns what keeps it from being written. The file is then as it was.
pub(crate) fn write(roots: &Roots, write: &Write, content: &[u8]) -> Result<WriteDone, ToolError> {
    let spot = roots.spot(&write.path, write.parents)?;
    if write.new && spot.there.is_some() {
        return Err(ToolError::system(&write.path)(Errno::EXIST));
    }
    let created = spot.there.is_none();
    let atomic = replace(&spot, &write.path, content)?;
    Ok(WriteDone { size: content.len() as u64, created, atomic })
}

/// Puts content in the place of a file's, or makes the file. Tells whether that was done at once.
///
/// # Errors
/// Returns the errors of [`write`]; [`ErrorKind::Changed`] if it is not what it was when the spot was
/// found.
pub(crate) fn replace(spot: &Spot, path: &Bytes, content: &[u8]) -> Result<bool, ToolError> {
    if let Some(There { file, about, .. }) = &spot.there {
        // To rename over a file is a matter of its directory; it is to be one of the file as well.
        // It is asked without opening it for writing, which would make another file of it in a view
        // (overlayfs copies up).
        rustix::fs::access(link_of(file), Access::WRITE_OK).map_err(ToolError::system(path))?;
        return match put(spot, file, about, path, content) {
            Ok(()) => Ok(true),
            // A mount point, or in a directory that cannot be written: there is no other way.
            Err(Put::Refused) => in_place(spot, path, content).map(|()| false),
            Err(Put::Failed(error)) => Err(error),
        };
    }
    let (file, named) = temporary(spot).map_err(ToolError::system(path))?;
    let made = fill(file, content).and_then(|file| match &named {
        None => link(&file, spot, &spot.name),
        Some(name) => {
            let directory = &spot.directory.file;
            let linked =
                rustix::fs::linkat(directory, name, directory, &spot.name, AtFlags::empty());
            forget(spot, name);
            linked
        }
    });
    made.map(|()| true).map_err(ToolError::system(path))
}

/// Why content could not be put in place at once.
enum Put {
    Refused,
    Failed(ToolError),
}

fn put(spot: &Spot, old: &File, before: &Stat, path: &Bytes, content: &[u8]) -> Result<(), Put> {
    let failed = |errno| match errno {
        Errno::BUSY | Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::ROFS => Put::Refused,
        errno => Put::Failed(ToolError::system(path)(errno)),
    };
    let list = access_list(old).map_err(failed)?;
    let (file, named) = temporary(spot).map_err(failed)?;
    let mode = Mode::from_raw_mode(before.st_mode & KEPT);
    // The group's bits of a file that has a list are the list's mask: with them alone its group would have more.
    let listed = rustix::fs::fchmod(&file, mode).and_then(|()| match &list {
        // One that names users whom the sandbox does not have cannot be set there: then it is kept in
        // place.
        Some(list) => rustix::fs::fsetxattr(&file, ACCESS_LIST, list, XattrFlags::empty())
            .map_err(|_| Errno::PERM),
        None => Ok(()),
    });
    let filled = listed.and_then(|()| fill(file, content));
    let name = match (filled, named) {
        (Ok(_), Some(name)) => name,
        (Ok(file), None) => {
            let name = fresh_name(&spot.name);
            link(&file, spot, &name).map_err(failed)?;
            name
        }
        (Err(errno), named) => {
            named.iter().for_each(|name| forget(spot, name));
            return Err(failed(errno));
        }
    };
    let directory = &spot.directory.file;
    let is_as_before = rustix::fs::statat(directory, &spot.name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|now| version(&now) == version(before));
    if !is_as_before {
        forget(spot, &name);
        let what = "was changed in the meantime; read it again";
        return Err(Put::Failed(ToolError::about(ErrorKind::Changed, what, path)));
    }
    rustix::fs::renameat(directory, &name, directory, &spot.name).map_err(|errno| {
        forget(spot, &name);
        failed(errno)
    })
}

/// Returns the access list of a file, if it has one (acl(5)).
fn access_list(file: &File) -> Result<Option<Vec<u8>>, Errno> {
    // Some five hundred entries; what has more is written in place.
    let mut list = vec![0; 4096];
    match rustix::fs::getxattr(link_of(file), ACCESS_LIST, &mut list[..]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(Errno::RANGE) => Err(Errno::PERM),
        length => {
            list.truncate(length?);
            Ok(Some(list))
        }
    }
}

/// Returns what distinguishes one version of a file from another.
fn version(stat: &Stat) -> (u64, u64, i64, i64, u64) {
    let nanoseconds = stat.st_ctime_nsec;
    (stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime, nanoseconds)
}

fn in_place(spot: &Spot, path: &Bytes, content: &[u8]) -> Result<(), ToolError> {
    let calm = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open =
        |flags| rustix::fs::openat(&spot.directory.file, &spot.name, flags | calm, Mode::empty());
    // One that cannot be read can be written all the same; then nothing can be put back.
    let file = match open(OFlags::RDWR) {
        Err(Errno::ACCESS) => open(OFlags::WRONLY),
        file => file,
    };
    file.and_then(|file| overwrite(&file.into(), content)).map_err(ToolError::system(path))
}

/// Puts content over a file's own. Room is made before anything of that goes, and what was written
/// over is put back if something fails after all.
pub(crate) fn overwrite(file: &File, content: &[u8]) -> Result<(), Errno> {
    let written = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let before = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or_default();
    let after = content.len() as u64;
    if after > 0 {
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, after) {
            // Not every file system can promise room.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
    }
    // No more than the new content covers, which is bounded, goes before all of that is there.
    let mut old = vec![0; usize::try_from(before.min(after)).unwrap_or(content.len())];
    let is_kept = file.read_exact_at(&mut old, 0).is_ok();
    let done = file
        .write_all_at(content, 0)
        .map_err(written)
        .and_then(|()| rustix::fs::ftruncate(file, after));
    if done.is_err() && is_kept {
        // What fails here, too, was reported by the first error.
        let _ = file.write_all_at(&old, 0);
        let _ = rustix::fs::ftruncate(file, before);
    }
    done
}

/// Returns a file without a name, which a kill leaves nothing of (`O_TMPFILE`, open(2)), or with one
/// where the file system has no such.
fn temporary(spot: &Spot) -> Result<(OwnedFd, Option<OsString>), Errno> {
    let mode = Mode::from_raw_mode(0o666);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(&spot.directory.file, ".", flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok((file, None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let name = fresh_name(&spot.name);
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(&spot.directory.file, &name, flags, mode)?;
    Ok((file, Some(name)))
}

fn fill(file: OwnedFd, content: &[u8]) -> Result<File, Errno> {
    let mut file = File::from(file);
    let write = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all(content).map_err(write)?;
    Ok(file)
}

fn link(file: &File, spot: &Spot, name: &OsStr) -> Result<(), Errno> {
    let (to, follow) = (&spot.directory.file, AtFlags::SYMLINK_FOLLOW);
    rustix::fs::linkat(rustix::fs::CWD, link_of(file), to, name, follow)
}

/// Returns a name that nobody has, in the same directory.
fn fresh_name(name: &OsStr) -> OsString {
    // A name has at most 255 bytes (NAME_MAX).
    const MOST: usize = 200;
    let mut random = [0; 8];
    // Without random bytes the name is no less one that must not be there.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let bytes = name.as_bytes();
    let mut fresh = OsString::from(".");
    fresh.push(OsStr::from_bytes(&bytes[..bytes.len().min(MOST)]));
    fresh.push(format!(".pinfold-{:016x}", u64::from_ne_bytes(random)));
    fresh
}

fn forget(spot: &Spot, name: &OsStr) {
    let _ = rustix::fs::unlinkat(&spot.directory.file, name, AtFlags::empty());
}
