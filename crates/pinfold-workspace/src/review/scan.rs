//! Comparing what a session's layer holds with the workspace.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_trees::tree::{Node, Tree, attributes, directory_at, is_opaque, names, node_at};
use rustix::fs::FileType;
use rustix::io::{Errno, retry_on_intr};

use super::changes::{Change, Left, What};
use super::record::Judge;

/// Two descriptors are held for each level on the way down.
const DEEPEST: usize = 256;
/// Somewhat less than the kernel takes of a path at once (`PATH_MAX`).
const LONGEST: usize = 3800;

const SPECIAL: &str = "it is not a file, directory or symbolic link";
const UNREADABLE: &str = "it cannot be read";
const TOO_DEEP: &str = "it is too deep to be scanned";

/// Compares a layer with what it lies over, parents first.
///
/// # Errors
/// Returns the error of reading either.
pub(crate) fn scan(upper: &Tree, lower: &Tree, judge: &Judge) -> io::Result<Vec<Change>> {
    let mut scan = Scan { judge, changes: Vec::new(), depth: 0 };
    let (upper, lower) = (upper.directory(Path::new(""))?, lower.directory(Path::new(""))?);
    let entries = names(&upper)?;
    scan.directory(upper, Some(lower), &entries, Path::new(""), None)?;
    Ok(scan.changes)
}

struct Scan<'a> {
    judge: &'a Judge,
    changes: Vec<Change>,
    depth: usize,
}

impl Scan<'_> {
    /// Scans one directory of the layer, and what it lies over, if that is a directory, too.
    fn directory(
        &mut self,
        upper: OwnedFd,
        lower: Option<OwnedFd>,
        entries: &[OsString],
        path: &Path,
        left: Option<&Left>,
    ) -> io::Result<()> {
        for name in entries {
            let child = path.join(name);
            let Some(after) = node_at(&upper, name)? else { continue };
            let before = match &lower {
                Some(lower) => node_at(lower, name)?,
                None => None,
            };
            let own = left
                .cloned()
                .or_else(|| self.judge.judge(&child))
                .or_else(|| self.judge.name(name).filter(|_| before.is_none()));
            let lower = lower.as_ref();
            self.entry(&upper, lower, Entry { name, path: child, before, after, left: own })?;
        }
        if let Some(lower) = lower.filter(|_| is_opaque(&upper).unwrap_or(false)) {
            for name in names(&lower)? {
                if entries.binary_search(&name).is_err() {
                    self.deleted(&lower, &name, path.join(&name), left)?;
                }
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        entry: Entry<'_>,
    ) -> io::Result<()> {
        let Entry { name, path, before, after, left } = entry;
        match (after.kind, lower) {
            _ if after.is_whiteout() => match (before, lower) {
                (Some(_), Some(lower)) => self.deleted(lower, name, path, left.as_ref()),
                _ => Ok(()),
            },
            (FileType::Directory, _) => {
                self.subdirectory(upper, lower, Entry { name, path, before, after, left })
            }
            (FileType::RegularFile, _) if !is_readable(&after) => {
                self.never(path, before, after, UNREADABLE)
            }
            (FileType::RegularFile | FileType::Symlink, _) => {
                let what = match (&before, lower) {
                    (Some(before), Some(lower)) if before.kind == after.kind => {
                        compare(upper, lower, name, before, &after)?
                    }
                    (Some(before), Some(lower)) => {
                        if before.is_directory() {
                            self.below_deleted(lower, name, &path, left.as_ref())?;
                        }
                        Some(What::Replaced)
                    }
                    _ => Some(What::Added),
                };
                if let Some(what) = what {
                    let left = left.or_else(|| self.judge.content(upper, name, &path, &after));
                    self.changes.push(Change::new(path, what, before, Some(after), left));
                }
                Ok(())
            }
            _ => self.never(path, before, after, SPECIAL),
        }
    }

    fn subdirectory(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        entry: Entry<'_>,
    ) -> io::Result<()> {
        let Entry { name, path, before, after, left } = entry;
        if self.depth == DEEPEST || path.as_os_str().len() > LONGEST {
            return self.never(path, before, after, TOO_DEEP);
        }
        let opened = match directory_at(upper, name) {
            Err(Errno::ACCESS) => return self.never(path, before, after, UNREADABLE),
            opened => opened?,
        };
        let is_over = before.as_ref().is_some_and(Node::is_directory);
        let below = match lower.filter(|_| is_over) {
            Some(lower) => match directory_at(lower, name) {
                Err(Errno::ACCESS) => return self.never(path, before, after, UNREADABLE),
                opened => Some(opened?),
            },
            None => None,
        };
        let entries = names(&opened)?;
        let left = left.or_else(|| self.judge.bare_repository(&entries));
        let what = match (&before, &below) {
            (None, _) => Some(What::Added),
            (Some(_), None) => Some(What::Replaced),
            (Some(before), Some(below)) => {
                differs_in_mode(before, &after, &opened, below)?.then_some(What::Mode)
            }
        };
        if let Some(what) = what {
            self.changes.push(Change::new(path.clone(), what, before, Some(after), left.clone()));
        }
        self.depth += 1;
        let walked = self.directory(opened, below, &entries, &path, left.as_ref());
        self.depth -= 1;
        walked
    }

    fn never(
        &mut self,
        path: PathBuf,
        before: Option<Node>,
        after: Node,
        why: &'static str,
    ) -> io::Result<()> {
        let what = if before.is_some() { What::Replaced } else { What::Added };
        self.changes.push(Change::new(path, what, before, Some(after), Some(Left::Never(why))));
        Ok(())
    }

    /// Notes that what lay at a name is gone, with everything in it.
    fn deleted(
        &mut self,
        lower: &OwnedFd,
        name: &OsStr,
        path: PathBuf,
        left: Option<&Left>,
    ) -> io::Result<()> {
        let Some(before) = node_at(lower, name)? else { return Ok(()) };
        let left = left.cloned().or_else(|| self.judge.judge(&path));
        let change = Change::new(path.clone(), What::Deleted, Some(before), None, left.clone());
        self.changes.push(change);
        if before.is_directory() {
            self.below_deleted(lower, name, &path, left.as_ref())
        } else {
            Ok(())
        }
    }

    fn below_deleted(
        &mut self,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
        left: Option<&Left>,
    ) -> io::Result<()> {
        let directory = match directory_at(lower, name) {
            // What the user may not read, the sandbox could not have deleted.
            Err(Errno::ACCESS) => return Ok(()),
            opened => opened?,
        };
        for name in names(&directory)? {
            self.deleted(&directory, &name, path.join(&name), left)?;
        }
        Ok(())
    }
}

/// Returns whether the owner, who this process is, may read a file.
fn is_readable(node: &Node) -> bool {
    node.mode & 0o400 != 0 || rustix::process::geteuid().is_root()
}

/// One entry of a directory of the layer.
struct Entry<'e> {
    name: &'e OsString,
    path: PathBuf,
    before: Option<Node>,
    after: Node,
    left: Option<Left>,
}

/// Returns what is different between two files or two links, if anything is.
fn compare(
    upper: &OwnedFd,
    lower: &OwnedFd,
    name: &OsStr,
    before: &Node,
    after: &Node,
) -> Result<Option<What>, Errno> {
    if after.kind == FileType::Symlink {
        let link = |directory| rustix::fs::readlinkat(directory, name, Vec::new());
        return Ok((link(upper)? != link(lower)?).then_some(What::Modified));
    }
    if before.size != after.size {
        return Ok(Some(What::Modified));
    }
    let old = match file_at(lower, name) {
        // The user may not read it; the session made its own readable.
        Err(Errno::ACCESS) => return Ok(Some(What::Modified)),
        opened => opened?,
    };
    let new = file_at(upper, name)?;
    if !is_same(&new, &old, before.size)? {
        return Ok(Some(What::Modified));
    }
    Ok(differs_in_mode(before, after, &new, &old)?.then_some(What::Mode))
}

/// Opens a file to look at it, which is no use of it: its time of access stays, which also saves writing each inode.
fn file_at(directory: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::openat(directory, name, flags, Mode::empty());
    match open(flags | OFlags::NOATIME) {
        // Only its owner may ask for that (open(2)).
        Err(Errno::PERM) => Ok(open(flags)?.into()),
        opened => Ok(opened?.into()),
    }
}

fn differs_in_mode(
    before: &Node,
    after: &Node,
    new: impl AsFd,
    old: impl AsFd,
) -> Result<bool, Errno> {
    Ok((before.mode ^ after.mode) & 0o777 != 0 || attributes(new)? != attributes(old)?)
}

/// Returns whether two files of the same size hold the same bytes.
///
/// # Errors
/// Returns the error of reading.
pub(crate) fn is_same(one: &File, other: &File, size: u64) -> Result<bool, Errno> {
    const CHUNK: u64 = 64 * 1024;
    // No more is asked for than there is: most files are small, and each call counts.
    let longest = size.min(CHUNK) as usize;
    let (mut here, mut there) = (vec![0; longest], vec![0; longest]);
    let mut at = 0;
    while at < size {
        let length = (size - at).min(CHUNK) as usize;
        let (here, there) = (&mut here[..length], &mut there[..length]);
        if !fill(one, here, at)? || !fill(other, there, at)? || here != there {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(true)
}

/// Reads from an offset until the buffer is full; false where the file ends before.
fn fill(file: &File, buffer: &mut [u8], offset: u64) -> Result<bool, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        match retry_on_intr(|| rustix::io::pread(file, &mut buffer[filled..], at))? {
            0 => return Ok(false),
            read => filled += read,
        }
    }
    Ok(true)
}

/// Returns whether the name of a path's last component is this.
pub(super) fn is_named(path: &Path, name: &[u8]) -> bool {
    path.file_name().is_some_and(|last| last.as_bytes() == name)
}
