//! Which file or directory lies at a path, so that another one in its place is noticed.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// A file or directory: its device, inode and birth time (statx(2)). An inode number is given
/// again to another file; together with the birth time it is not, where the file system keeps one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    device: (u32, u32),
    inode: u64,
    born: Option<(i64, u32)>,
}

impl FileId {
    /// Returns what lies at a path; a link is a link.
    ///
    /// # Errors
    /// Returns the error of `statx(2)`.
    pub fn of(path: &Path) -> Result<Self, Errno> {
        Self::at(CWD, path.as_os_str().as_bytes())
    }

    /// Returns what lies at a path, seen from a directory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub fn at(directory: impl AsFd, path: &[u8]) -> Result<Self, Errno> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(directory, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        Ok(Self::from(&found))
    }
}

impl From<&Statx> for FileId {
    fn from(found: &Statx) -> Self {
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let StatxTimestamp { tv_sec, tv_nsec, .. } = found.stx_btime;
        Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: has_birth.then_some((tv_sec, tv_nsec)),
        }
    }
}

/// A file as it was at one moment: another one at its path, or any change of it, is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    id: FileId,
    changed: (i64, u32),
}

impl Moment {
    /// Returns what lies at a path; a link is a link.
    ///
    /// # Errors
    /// Returns the error of `statx(2)`.
    pub fn of(path: &Path) -> Result<Self, Errno> {
        Self::at(CWD, path.as_os_str())
    }

    /// Returns what lies at a path, seen from a directory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub fn at(directory: impl AsFd, path: &OsStr) -> Result<Self, Errno> {
        Self::found(directory, path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns what is held open.
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub fn held(file: impl AsFd) -> Result<Self, Errno> {
        Self::found(file, b"", AtFlags::EMPTY_PATH)
    }

    fn found(directory: impl AsFd, path: &[u8], how: AtFlags) -> Result<Self, Errno> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME | StatxFlags::CTIME;
        let found = rustix::fs::statx(directory, path, how, wanted)?;
        let StatxTimestamp { tv_sec, tv_nsec, .. } = found.stx_ctime;
        Ok(Self { id: FileId::from(&found), changed: (tv_sec, tv_nsec) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn another_file_at_the_same_path_has_another_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "a").unwrap();
        let before = FileId::of(&path).unwrap();
        fs::write(&path, "b").unwrap();
        assert_eq!(FileId::of(&path).unwrap(), before);
        fs::write(dir.path().join("new"), "c").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert_ne!(FileId::of(&path).unwrap(), before);
    }

    #[test]
    fn a_link_is_not_what_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&path, "a").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_ne!(FileId::of(&path).unwrap(), FileId::of(&link).unwrap());
    }
}
