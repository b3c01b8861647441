//! The one view the authority has of a file system: what a name is, and where a link points.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;

use crate::path::HostPath;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link.
    Symlink,
    Socket,
    /// A FIFO.
    Fifo,
    /// A character or block device.
    Device,
}

/// What lstat(2) says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// How many names the file has.
    pub links: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A file system as the authority needs it. Neither method follows a link in the last component.
pub trait Tree {
    /// Returns what the name is; none when it does not exist.
    ///
    /// # Errors
    /// Returns an error when the name cannot be examined, for another reason than not existing.
    fn entry(&self, path: &HostPath) -> io::Result<Option<Entry>>;

    /// Returns where a symbolic link points, as written in it.
    ///
    /// # Errors
    /// Returns an error when the name is not a link that can be read.
    fn read_link(&self, path: &HostPath) -> io::Result<PathBuf>;
}

/// The host's own file system, by lstat(2) and readlink(2) alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostTree;

impl Tree for HostTree {
    fn entry(&self, path: &HostPath) -> io::Result<Option<Entry>> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let file_type = metadata.file_type();
        let kind = if file_type.is_dir() {
            Kind::Directory
        } else if file_type.is_symlink() {
            Kind::Symlink
        } else if file_type.is_socket() {
            Kind::Socket
        } else if file_type.is_fifo() {
            Kind::Fifo
        } else if file_type.is_file() {
            Kind::File
        } else {
            Kind::Device
        };
        Ok(Some(Entry { kind, links: metadata.nlink(), size: metadata.len() }))
    }

    fn read_link(&self, path: &HostPath) -> io::Result<PathBuf> {
        fs::read_link(path)
    }
}
