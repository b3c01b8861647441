//! What a sandbox made of a directory that nothing writes to any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::file_id::Moment;
use pinfold_trees::tree::{Tree, node_at};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Content, Entry};
use crate::git::committed::{Committed, Kind, LARGEST};

/// Files, links and directories that are looked at one by one.
const MOST_ENTRIES: usize = 20_000;
/// Levels of directories.
const DEEPEST: usize = 64;

/// What lies in a directory now.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files and links.
    pub(super) files: BTreeSet<PathBuf>,
    pub(super) directories: BTreeSet<PathBuf>,
    /// What is neither, cannot be looked into or lies too deep: it is no file of git's.
    pub(super) other: BTreeSet<PathBuf>,
    /// Whether there is more than is looked at.
    pub(super) is_too_much: bool,
}

impl Found {
    /// Looks at what lies below `path`, or at `path` itself.
    pub(super) fn below(tree: &Tree, path: &Path) -> Self {
        let mut found = Self::default();
        if found.directory(tree, path, DEEPEST).is_err() {
            found.other.insert(path.to_owned());
        }
        found
    }

    fn directory(&mut self, tree: &Tree, path: &Path, depth: usize) -> Result<(), Errno> {
        let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        let directory = opened(tree, path)?;
        for entry in Dir::read_from(&directory)? {
            if self.is_too_much {
                return Ok(());
            }
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                self.entry(tree, &directory, path, OsStr::from_bytes(name), depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        tree: &Tree,
        directory: &OwnedFd,
        path: &Path,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), Errno> {
        let path = path.join(name);
        let count = self.files.len() + self.directories.len() + self.other.len();
        self.is_too_much |= count >= MOST_ENTRIES;
        let Some(node) = node_at(directory, name)? else { return Ok(()) };
        match node.kind {
            FileType::RegularFile | FileType::Symlink => self.files.insert(path),
            FileType::Directory => {
                let is_open = self.directory(tree, &path, depth).is_ok();
                let set = if is_open { &mut self.directories } else { &mut self.other };
                set.insert(path)
            }
            _ => self.other.insert(path),
        };
        Ok(())
    }

    /// Returns the files and links that are not what was copied at the start.
    pub(super) fn changed(&self, tree: &Tree, start: &BTreeMap<PathBuf, Entry>) -> Vec<PathBuf> {
        let is_same = |path: &Path| {
            let Some(entry) = start.get(path) else { return false };
            // What has the same change time has the same content: nobody can set it back.
            let own = tree.above(path).and_then(|(above, name)| Moment::at(above, name));
            own == Ok(entry.own)
                || is_as_large(tree, path, &entry.content)
                    && File::read(tree, path).is_some_and(|file| file.content() == entry.content)
        };
        self.files.iter().filter(|path| !is_same(path)).cloned().collect()
    }

    /// Returns the files and links that were copied at the start and are gone.
    pub(super) fn deleted(&self, start: &BTreeMap<PathBuf, Entry>) -> Vec<PathBuf> {
        let is_unseen = |path: &Path| path.ancestors().any(|above| self.other.contains(above));
        let files = start.iter().filter(|(_, entry)| entry.content != Content::Directory);
        let gone = files.filter(|(path, _)| !self.files.contains(*path) && !is_unseen(path));
        gone.map(|(path, _)| path.clone()).collect()
    }
}

/// Returns whether a file has the size that it had at the start, so that it is worth reading.
fn is_as_large(tree: &Tree, path: &Path, content: &Content) -> bool {
    match content {
        Content::File { size, .. } => {
            tree.node(path).is_ok_and(|node| node.is_some_and(|node| node.size == *size))
        }
        Content::Link { .. } => true,
        Content::Directory => false,
    }
}

/// Opens a directory. Its owner may have taken all permissions from itself.
fn opened(tree: &Tree, path: &Path) -> Result<OwnedFd, Errno> {
    match tree.directory(path) {
        Err(Errno::ACCESS) => {}
        opened => return opened,
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let held = rustix::fs::openat2(tree.root(), name, flags, Mode::empty(), how)?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::RWXU)?;
    tree.directory(path)
}

/// A file or link as it was read.
#[derive(Debug)]
pub(super) struct File {
    pub(super) kind: Kind,
    /// The content, or where a link leads.
    pub(super) bytes: Vec<u8>,
}

impl File {
    /// Reads a regular file or a link; `None` if it is neither, or cannot be read.
    pub(super) fn read(tree: &Tree, path: &Path) -> Option<Self> {
        let node = tree.node(path).ok()??;
        match node.kind {
            FileType::Symlink => {
                let target = tree.link(path).ok()?.into_os_string();
                Some(Self {
                    kind: Kind::Link,
                    bytes: std::os::unix::ffi::OsStringExt::into_vec(target),
                })
            }
            FileType::RegularFile if node.size <= LARGEST => {
                let file = tree.file(path).ok()?;
                let mut bytes = Vec::new();
                file.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
                let kind = if node.mode & 0o100 == 0 { Kind::File } else { Kind::Executable };
                (bytes.len() as u64 <= LARGEST).then_some(Self { kind, bytes })
            }
            _ => None,
        }
    }

    /// Reads a file or link of the sandbox's if a commit of the start has it at `host`. Nothing is read
    /// that cannot be one of git's: the sandbox can make any number of files, of any size.
    pub(super) fn committed(
        tree: &Tree,
        path: &Path,
        committed: &Committed,
        host: &Path,
    ) -> Option<Self> {
        let size = tree.node(path).ok()??.size;
        let file = committed.has_size(host, size).then(|| Self::read(tree, path))??;
        committed.has(host, file.kind, &file.bytes).then_some(file)
    }

    /// Returns what is compared with the start.
    pub(super) fn content(&self) -> Content {
        match self.kind {
            Kind::File => Content::file(&self.bytes, 0o644),
            Kind::Executable => Content::file(&self.bytes, 0o755),
            Kind::Link => {
                let target: &OsStr = OsStr::from_bytes(&self.bytes);
                Content::link(Path::new(target))
            }
        }
    }
}
