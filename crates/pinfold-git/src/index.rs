//! Reading and putting in place git's index (gitformat-index(5), versions 2 to 4), and making a copy of it in
//! which git skips some files.
//!
//! An index is data that a repository or an agent may have written: what does not read as one
//! counts as missing, and nothing here allocates more than the file is long.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinfold_host::beneath::{open_directory, owner_at, read_beneath, read_bounded};
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use crate::config::Config;
use crate::layout::CONFIGS;
use crate::pointer::{line, normal};

/// An index of more bytes is not read; a million files take some hundred million.
pub const LARGEST: u64 = 256 << 20;
/// What precedes the object id in an entry: times, device, inode, mode, owner and size.
const STAT: usize = 40;
/// Where the mode is in an entry.
const MODE: usize = 24;
/// The mode of a submodule.
const SUBMODULE: u32 = 0o160_000;
/// A path is at most this long (`PATH_MAX` in Linux).
const LONGEST: usize = 4096;
/// Bits of an entry's flags: there are more flags; the number of its side in a conflict.
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
/// The bit of the further flags that tells git that the file is not checked out.
const SKIP_WORKTREE: u16 = 0x4000;
/// The bit of the further flags for a file of which only the name is staged (`git add -N`).
const INTENT_TO_ADD: u16 = 0x2000;

/// Puts an index that git wrote in the place of a git directory's own. `mark` identifies the file that it
/// is written to before from others'.
///
/// # Errors
/// Returns the file system's error.
pub fn install(git: &OwnedFd, bytes: &[u8], mark: &str) -> io::Result<()> {
    let new = format!("index.pinfold-{mark}");
    // What an interrupted attempt left.
    let _ = unlinkat(git, &new, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(openat(git, &new, flags, Mode::from_raw_mode(0o666))?);
    file.write_all(bytes)?;
    if let Some((uid, gid)) = owner_at(git, "HEAD") {
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    Ok(renameat(git, &new, git, "index")?)
}

/// An index as it was read.
pub struct Index {
    bytes: Vec<u8>,
    hash: &'static Algorithm,
}

/// One entry, by places in the index.
struct Entry {
    start: usize,
    /// Where the flags are.
    flags_at: usize,
    flags: u16,
    /// Further flags.
    more: u16,
    /// Where the path is, as the version writes it, without the NUL byte after it.
    path: Range<usize>,
}

impl Index {
    /// Returns the index in a git directory; `None` where it cannot be read.
    pub fn open(git: &Path) -> Option<Self> {
        let hash = hash_of(git)?;
        let content =
            read_bounded(open_directory(git).ok()?, Path::new("index"), LARGEST).ok()??;
        Some(Self { bytes: content.bytes, hash })
    }

    /// Returns an index that git wrote for the repository of this git directory.
    pub fn of(git: &Path, bytes: Vec<u8>) -> Option<Self> {
        Some(Self { bytes, hash: hash_of(git)? })
    }

    /// Says of each of these paths, relative to the top, whether it is tracked, and if so whether
    /// what `content` reads is what git has of it, byte for byte.
    pub fn compare<'p>(
        &self,
        paths: impl Iterator<Item = &'p Path>,
        content: impl Fn(&Path) -> Option<Vec<u8>>,
    ) -> HashMap<&'p Path, bool> {
        let wanted: HashMap<&[u8], &Path> =
            paths.map(|path| (path.as_os_str().as_bytes(), path)).collect();
        let mut found = HashMap::new();
        self.each(&mut |name, entry| {
            let Some(path) = wanted.get(name) else { return };
            let object = &self.bytes[entry.start + STAT..entry.flags_at];
            // A path in conflict has several entries and no one content.
            let is_same = entry.flags & STAGE == 0
                && content(path).is_some_and(|bytes| self.is_blob(object, &bytes));
            found.insert(*path, is_same);
        });
        found
    }

    /// Returns whether it tracks anything in this directory, relative to the top, the directory itself,
    /// or a directory above it: as a submodule, or in a sparse index. `None` where that cannot be read, or some of it is in another file (`core.splitIndex`).
    pub fn holds(&self, directory: &Path) -> Option<bool> {
        let directory = directory.as_os_str().as_bytes();
        let mut found = false;
        let end = self.each(&mut |name, _| {
            // A sparse index has whole directories as entries that end in a slash; a submodule's entry
            // has none.
            let above = directory.strip_prefix(name.strip_suffix(b"/").unwrap_or(name));
            let is_above = above.is_some_and(|rest| rest.first() == Some(&b'/'));
            let below = name.strip_prefix(directory);
            found |= is_above || below.is_some_and(|rest| rest.first().is_none_or(|b| *b == b'/'));
        })?;
        self.extensions(end, &mut Vec::new())?;
        Some(found)
    }

    /// Returns the index in which these paths, and what lies in them, are marked as not checked out, so
    /// that git neither looks at them nor writes them. `None` where none is tracked, or where the rest
    /// of the index is in another file (`core.splitIndex`).
    pub fn without<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Option<Vec<u8>> {
        let paths: HashSet<&[u8]> = paths.map(|path| path.as_os_str().as_bytes()).collect();
        let is_one = |name: &[u8]| {
            let above = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            paths.contains(name) || above.into_iter().any(|(at, _)| paths.contains(&name[..at]))
        };
        let version = self.number(4)?.max(3);
        let mut new = [b"DIRC", &version.to_be_bytes()[..], self.at(8, 4)?].concat();
        let mut any = false;
        let end = self.each(&mut |name, entry| {
            let is_one = is_one(name);
            any |= is_one;
            let more = entry.more | if is_one { SKIP_WORKTREE } else { 0 };
            let flags = entry.flags & !EXTENDED | if more == 0 { 0 } else { EXTENDED };
            let start = new.len();
            new.extend_from_slice(&self.bytes[entry.start..entry.flags_at]);
            new.extend_from_slice(&flags.to_be_bytes());
            if more != 0 {
                new.extend_from_slice(&more.to_be_bytes());
            }
            new.extend_from_slice(&self.bytes[entry.path.clone()]);
            let length = new.len() - start;
            new.resize(start + padded(length, version), 0);
        })?;
        self.extensions(end, &mut new)?;
        let sum = digest(self.hash, &[&new]);
        new.extend_from_slice(&sum);
        any.then_some(new)
    }

    /// Returns whether it has a submodule. `None` where that cannot be read.
    pub fn has_submodules(&self) -> Option<bool> {
        let mut found = false;
        self.each(&mut |_, entry| {
            found |= self.number(entry.start + MODE) == Some(SUBMODULE);
        })?;
        Some(found)
    }

    /// Returns how many entries it says that it has.
    pub fn count(&self) -> Option<u32> {
        self.number(8)
    }

    /// Returns a digest (SHA-256) of what it holds: of each entry its path, mode, object and side in
    /// a conflict, and whether only the intent to add it is staged. `None` where that cannot be
    /// read, or some of it is in another file (`core.splitIndex`).
    pub fn entries(&self) -> Option<Vec<u8>> {
        let mut context = Context::new(&SHA256);
        let end = self.each(&mut |name, entry| {
            context.update(&name.len().to_be_bytes());
            context.update(name);
            context.update(&self.bytes[entry.start + MODE..entry.start + MODE + 4]);
            context.update(&self.bytes[entry.start + STAT..entry.flags_at]);
            context.update(&(entry.flags & STAGE).to_be_bytes());
            context.update(&(entry.more & INTENT_TO_ADD).to_be_bytes());
        })?;
        let mut more = Vec::new();
        self.extensions(end, &mut more)?;
        context.update(&more);
        Some(context.finish().as_ref().to_vec())
    }

    /// Copies the extensions without which the index would mean something else; the others save
    /// git work, and some hold places in the file.
    fn extensions(&self, mut at: usize, new: &mut Vec<u8>) -> Option<()> {
        let end = self.bytes.len().checked_sub(self.hash.output_len())?;
        while at < end {
            let name = self.at(at, 4)?;
            let whole = self.at(at, usize::try_from(self.number(at + 4)?).ok()?.checked_add(8)?)?;
            match name {
                // Directories that stand for what is not checked out (sparse index).
                b"sdir" => new.extend_from_slice(whole),
                [b'A'..=b'Z', ..] => {}
                _ => return None,
            }
            at += whole.len();
        }
        Some(())
    }

    fn is_blob(&self, object: &[u8], content: &[u8]) -> bool {
        let header = format!("blob {}\0", content.len());
        digest(self.hash, &[header.as_bytes(), content]) == object
    }

    /// Shows each entry with its path; returns where the entries end, or `None` where they cannot
    /// be read.
    fn each(&self, visit: &mut dyn FnMut(&[u8], Entry)) -> Option<usize> {
        let (version, count) = (self.number(4)?, self.number(8)?);
        if self.at(0, 4)? != b"DIRC" || !(2..=4).contains(&version) {
            return None;
        }
        let (mut start, mut name) = (12, Vec::new());
        for _ in 0..count {
            let flags_at = start + STAT + self.hash.output_len();
            let flags = self.short(flags_at)?;
            let has_more = version >= 3 && flags & EXTENDED != 0;
            let more = if has_more { self.short(flags_at + 2)? } else { 0 };
            let path = flags_at + if has_more { 4 } else { 2 };
            let (strip, own) = match version {
                4 => self.varint(path)?,
                _ => (name.len(), path),
            };
            name.truncate(name.len().checked_sub(strip)?);
            let rest = self.bytes.get(own..)?;
            let rest = &rest[..rest.iter().take(LONGEST).position(|byte| *byte == 0)?];
            name.extend_from_slice(rest);
            if name.len() > LONGEST {
                return None;
            }
            let end = own + rest.len();
            visit(&name, Entry { start, flags_at, flags, more, path: path..end });
            start += padded(end - start, version);
        }
        Some(start)
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(self.at(at, 4)?.try_into().ok()?))
    }

    fn short(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(self.at(at, 2)?.try_into().ok()?))
    }

    fn at(&self, at: usize, length: usize) -> Option<&[u8]> {
        self.bytes.get(at..at.checked_add(length)?)
    }

    /// Returns the variable-width number at a place, as of an offset in a pack, and where it ends.
    fn varint(&self, mut at: usize) -> Option<(usize, usize)> {
        let mut byte = *self.bytes.get(at)?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            at += 1;
            byte = *self.bytes.get(at)?;
            value =
                value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        }
        Some((value, at + 1))
    }
}

/// Returns the length of an entry with the NUL bytes after it: one, or up to version 3 as many as make
/// it a multiple of eight.
fn padded(length: usize, version: u32) -> usize {
    if version == 4 { length + 1 } else { (length + 8) / 8 * 8 }
}

/// Returns the hash that a repository uses (`extensions.objectFormat`, git-config(1)).
fn hash_of(git: &Path) -> Option<&'static Algorithm> {
    let common = match line(&git.join("commondir"), b"") {
        Some(common) => normal(&git.join(common)),
        None => git.to_owned(),
    };
    let directory = open_directory(&common).ok()?;
    let content = read_beneath(&directory, Path::new(CONFIGS[0])).ok()??;
    let format: Option<OsString> =
        Config::parse_last(content.bytes).last("extensions.objectformat");
    match format.as_ref().map(|format| format.as_bytes()) {
        None | Some(b"sha1") => Some(&SHA1_FOR_LEGACY_USE_ONLY),
        Some(b"sha256") => Some(&SHA256),
        Some(_) => None,
    }
}

fn digest(hash: &'static Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(hash);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests;
