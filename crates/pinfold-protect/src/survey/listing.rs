//! What one directory holds.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::FileType;

/// The entries of one directory.
#[derive(Debug, Default)]
pub struct Listing {
    pub(super) path: Vec<u8>,
    pub(super) names: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// Where an entry's name begins and ends, its kind, and its inode number.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: FileType,
    pub(super) inode: u64,
}

impl Listing {
    /// Describes a directory of which nothing but these names is known.
    pub(crate) fn of<'n>(path: &Path, names: impl Iterator<Item = (&'n [u8], FileType)>) -> Self {
        let mut listing = Self { path: path.as_os_str().as_bytes().to_vec(), ..Self::default() };
        for (name, kind) in names {
            let start = listing.names.len();
            listing.names.extend_from_slice(name);
            listing.entries.push(Entry { start, end: listing.names.len(), kind, inode: 0 });
        }
        listing
    }

    /// Returns the directory's path relative to the walk's root; empty for the root.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Returns name and kind of each entry; a link is a link.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.entries.iter().map(|entry| (&self.names[entry.start..entry.end], entry.kind))
    }

    /// Returns name, kind and inode number of each entry, as the directory has them (`d_ino`, readdir(3)).
    pub fn inodes(&self) -> impl Iterator<Item = (&[u8], FileType, u64)> {
        let name = |entry: &Entry| &self.names[entry.start..entry.end];
        self.entries.iter().map(move |entry| (name(entry), entry.kind, entry.inode))
    }

    /// Returns what lies at a name, if anything does.
    pub fn kind(&self, name: &[u8]) -> Option<FileType> {
        self.entries().find(|(found, _)| *found == name).map(|(_, kind)| kind)
    }
}
