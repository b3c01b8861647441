//! Copying a protected directory at the start.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::file_id::Moment;
use pinfold_policy::path::Escaped;
use pinfold_trees::tree::{Node, Tree, names, node_at};
use ring::digest::{SHA256, digest};
use rustix::fs::FileType;

use super::{Content, Entry};

/// Bytes that are copied for one session at most, so that a start stays short.
const MOST_BYTES: u64 = 16 << 20;
/// Files, links and directories that are copied for one session at most. One takes about 50 µs, and ext4
/// ten times that while it has many inodes that were freed in the last 35 s (`recently_deleted`): with 1000
/// entries the second of two starts took 2 s, and with 4000 8 s.
const MOST_ENTRIES: usize = 256;
/// Levels of directories.
const DEEPEST: usize = 64;

/// What may still be copied for a session.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    entries: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: MOST_BYTES, entries: MOST_ENTRIES }
    }
}

/// Copies a directory. Files, directories and links are copied, nothing else is.
///
/// # Errors
/// Returns that it is too large, or what cannot be read. Part of the copy may be there then.
pub(super) fn copy(
    host: &Anchor,
    to: &Path,
    hidden: &[PathBuf],
    budget: &mut Budget,
) -> Result<BTreeMap<PathBuf, Entry>, Refusal> {
    let tree = Tree::of(host.open()?);
    let node = tree.node_of_root()?;
    let mut found = Vec::new();
    let mut left = Budget { ..*budget };
    list(&tree, Path::new(""), hidden, &mut left, DEEPEST, &mut found)?;
    make_directory(to, &node)?;
    let mut entries = BTreeMap::new();
    for (path, node) in found {
        let copied = one(&tree, &path, &node, &to.join(&path));
        let entry = copied.map_err(Refusal::about(Escaped(&path)))?;
        entries.insert(path, entry);
    }
    *budget = left;
    Ok(entries)
}

/// Lists what is to be copied, directories before what lies in them.
fn list(
    tree: &Tree,
    path: &Path,
    hidden: &[PathBuf],
    left: &mut Budget,
    depth: usize,
    found: &mut Vec<(PathBuf, Node)>,
) -> Result<(), Refusal> {
    let too_large = || {
        let bytes = MOST_BYTES >> 20;
        format!(
            "protected directories of more than {bytes} MiB or {MOST_ENTRIES} entries are not copied"
        )
    };
    let depth = depth.checked_sub(1).ok_or_else(too_large)?;
    let failed = |errno| Refusal::new(Escaped(path)).because(errno);
    let directory = tree.directory(path).map_err(failed)?;
    for name in names(&directory).map_err(failed)? {
        let path = path.join(&name);
        let Some(node) = node_at(&directory, &name).map_err(failed)? else { continue };
        let is_copied =
            matches!(node.kind, FileType::RegularFile | FileType::Directory | FileType::Symlink);
        if !is_copied || hidden.contains(&path) {
            continue;
        }
        left.entries = left.entries.checked_sub(1).ok_or_else(too_large)?;
        if node.kind == FileType::RegularFile {
            left.bytes = left.bytes.checked_sub(node.size).ok_or_else(too_large)?;
        }
        found.push((path.clone(), node));
        if node.kind == FileType::Directory {
            self::list(tree, &path, hidden, left, depth, found)?;
        }
    }
    Ok(())
}

fn make_directory(to: &Path, node: &Node) -> io::Result<()> {
    fs::create_dir(to)?;
    // Its owner must be able to work in it, as in any directory that git made.
    fs::set_permissions(to, fs::Permissions::from_mode(node.mode & 0o777 | 0o700))
}

fn one(tree: &Tree, path: &Path, node: &Node, to: &Path) -> io::Result<Entry> {
    // The number is filled in once the copy belongs to the sandbox.
    let (host, content) = match node.kind {
        FileType::Directory => {
            make_directory(to, node)?;
            (Moment::held(tree.directory(path)?)?, Content::Directory)
        }
        FileType::Symlink => {
            let (above, name) = tree.above(path)?;
            let host = Moment::at(&above, name)?;
            let target = tree.link(path)?;
            symlink(&target, to)?;
            (host, Content::link(&target))
        }
        _ => {
            let file = tree.file(path)?;
            let host = Moment::held(&file)?;
            (host, file_content(file, node, to)?)
        }
    };
    Ok(Entry { own: host, host, content })
}

fn file_content(file: File, node: &Node, to: &Path) -> io::Result<Content> {
    let mut bytes = Vec::with_capacity(node.size as usize + 1);
    file.take(node.size + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != node.size {
        return Err(io::Error::other("it changed while it was read"));
    }
    let mut copy = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    copy.write_all(&bytes)?;
    copy.set_permissions(fs::Permissions::from_mode(node.mode & 0o777))?;
    Ok(Content::file(&bytes, node.mode))
}

impl Content {
    /// Returns a file with this content and these permission bits.
    pub(crate) fn file(bytes: &[u8], mode: u32) -> Self {
        let digest = digest(&SHA256, bytes).as_ref().to_vec();
        Self::File { size: bytes.len() as u64, digest, is_executable: mode & 0o100 != 0 }
    }

    /// Returns a symbolic link with this target.
    pub(crate) fn link(target: &Path) -> Self {
        let target = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
        Self::Link { digest: digest(&SHA256, target).as_ref().to_vec() }
    }
}
