//! Directories, and what there is at a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{Access, AtFlags, Dir, FileType, OFlags};
use rustix::io::Errno;

use crate::Bytes;
use crate::error::{ErrorKind, ToolError};
use crate::operation::{Entry, EntryKind, List, ListDone, Stat, StatDone};
use crate::roots::{Roots, link_of};

/// Entries of a directory that are listed unless another number is asked for.
const ENTRIES: u64 = 10_000;

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// Lists a directory.
///
/// # Errors
/// Returns what keeps it from being read.
pub(crate) fn list(roots: &Roots, list: &List) -> Result<ListDone, ToolError> {
    let opened = roots.open(&list.path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let system = |errno| ToolError::system(&list.path)(errno);
    let directory = Dir::read_from(&opened.file).map_err(system)?;
    let mut names = Vec::new();
    for entry in directory {
        let name = entry.map_err(system)?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    let limit = list.limit.unwrap_or(ENTRIES);
    let mut entries = Vec::new();
    let mut truncated = false;
    for name in names {
        if entries.len() as u64 >= limit {
            truncated = true;
            break;
        }
        let at = OsStr::from_bytes(&name);
        match rustix::fs::statat(&opened.file, at, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entries.push(entry_of(name.into(), &stat)),
            // It has gone since.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(ToolError::system(&name.into())(errno)),
        }
    }
    Ok(ListDone { entries, truncated })
}

pub(crate) fn entry_of(name: Bytes, stat: &rustix::fs::Stat) -> Entry {
    let kind = FileType::from_raw_mode(stat.st_mode).into();
    let is_file = kind == EntryKind::File;
    Entry { name, kind, size: is_file.then(|| stat.st_size.try_into().unwrap_or_default()) }
}

/// Tells what there is at a path.
///
/// # Errors
/// Returns what keeps it from being looked at.
pub(crate) fn stat(roots: &Roots, stat: &Stat) -> Result<StatDone, ToolError> {
    let nofollow = if stat.link { OFlags::NOFOLLOW } else { OFlags::empty() };
    let opened = roots.open(&stat.path, OFlags::PATH | nofollow)?;
    let about = rustix::fs::fstat(&opened.file).map_err(ToolError::system(&stat.path))?;
    let kind: EntryKind = FileType::from_raw_mode(about.st_mode).into();
    let target = match kind {
        EntryKind::Link => {
            let read = rustix::fs::readlinkat(&opened.file, "", Vec::new());
            Some(read.map_err(ToolError::system(&stat.path))?.into_bytes().into())
        }
        _ => None,
    };
    let nanoseconds = i64::try_from(about.st_mtime_nsec).unwrap_or_default();
    Ok(StatDone {
        path: opened.real.as_path().into(),
        kind,
        size: u64::try_from(about.st_size).unwrap_or_default(),
        mode: about.st_mode & 0o7777,
        modified: about.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
        writable: kind != EntryKind::Link
            && rustix::fs::access(link_of(&opened.file), Access::WRITE_OK).is_ok(),
        target,
    })
}

/// Returns the directory in which something is looked for, or the one file.
pub(crate) fn start(
    roots: &Roots,
    path: &Bytes,
) -> Result<(std::path::PathBuf, EntryKind), ToolError> {
    let opened = roots.open(path, OFlags::PATH)?;
    let about = rustix::fs::fstat(&opened.file).map_err(ToolError::system(path))?;
    match FileType::from_raw_mode(about.st_mode).into() {
        kind @ (EntryKind::File | EntryKind::Directory) => Ok((opened.real, kind)),
        _ => Err(ToolError::about(ErrorKind::Special, "neither a file nor a directory", path)),
    }
}
