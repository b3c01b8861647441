//! What directories held at an earlier start: the names, types and inode numbers of their entries.
//!
//! Only facts are remembered, never a judgement, and each is used only for the very directory that
//! it was read from (device, inode and birth time) while its change time is the same: the kernel
//! sets that itself whenever an entry is added, removed or replaced, and nobody can set it back.
//! The directory is opened at each start, one name at a time and through no link, so a fact says
//! exactly what a listing at that moment would say.
//!
//! A change time is only as fine as the kernel's clock, so a directory is remembered only if it was
//! the same before and after it was read, and had last changed more than two seconds before. Facts
//! of another boot, of another file system, or from a time that is still to come are not used. Only
//! file systems of this kernel that keep these times themselves are trusted with it. Encrypted
//! directories are not remembered: what they show depends on whether their key is there.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pinfold_host::directories::Places;
use pinfold_host::owned;
use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags, fstatfs, fstatvfs, statx};
use rustix::io::Errno;

use super::{Entry, Listing};

const FORMAT: &[u8] = b"pinfold: entries of directories, 1\n";
/// The types of ext4, XFS, Btrfs, F2FS and tmpfs (`f_type`, statfs(2)).
const FILE_SYSTEMS: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
/// How long a directory must not have changed.
const SETTLED: Duration = Duration::from_secs(2);
/// Fewer directories are read again as fast.
const FEWEST: usize = 256;
/// Bytes of one file, as many as are read of a file of pinfold's own.
const LARGEST: usize = 16 << 20;
/// Files that are kept.
const MOST: usize = 64;
/// What precedes the entries of a directory: length, inode, change time, birth time, their number.
const HEAD: usize = 4 + 8 + 12 + 12 + 4;

/// Facts about the directories beneath one root.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Where they are kept; none if nothing is remembered of this file system.
    file: Option<PathBuf>,
    key: Vec<u8>,
    device: (u32, u32),
    now: Duration,
    /// What was written by an earlier start.
    known: Vec<u8>,
    /// Where in it the facts of each inode begin.
    index: HashMap<u64, usize>,
    used: Vec<usize>,
    new: Vec<u8>,
    read: usize,
}

impl Facts {
    /// The facts about a root that were kept below this directory, which is pinfold's own cache.
    pub(crate) fn load(cache: &Path, root: impl AsFd) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::at(cache, root, now).unwrap_or_default()
    }

    fn at(cache: &Path, root: impl AsFd, now: Duration) -> Option<Self> {
        let kind = fstatfs(&root).ok()?.f_type as u64;
        if !FILE_SYSTEMS.contains(&kind) {
            return None;
        }
        let found = look(&root).ok()?;
        let boot = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let system = fstatvfs(&root).ok()?.f_fsid;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let numbers = [kind, system, device.0.into(), device.1.into(), found.stx_ino];
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        let key = [FORMAT, &boot, &numbers].concat();
        let name = format!("{:x}-{:x}-{:x}", device.0, device.1, found.stx_ino);
        let file = Some(cache.join("directories").join(name));
        let mut facts = Self { file, key, device, now, ..Self::default() };
        facts.read_known();
        Some(facts)
    }

    /// Takes what is in the file. A file that is not whole holds nothing.
    fn read_known(&mut self) {
        let Some(Ok(Some(bytes))) = self.file.as_deref().map(owned::read) else { return };
        let Some(rest) = bytes.strip_prefix(self.key.as_slice()) else { return };
        let Some((written, mut rest)) = rest.split_first_chunk::<8>() else { return };
        // The clock was set back: a change time may come a second time.
        if Duration::from_nanos(u64::from_le_bytes(*written)) > self.now {
            return;
        }
        let mut index = HashMap::new();
        while let Some(length) = rest.first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (Some(record), true) = (rest.get(..length), length >= HEAD) else { return };
            let Some(inode) = number(record, 4) else { return };
            index.insert(inode, bytes.len() - rest.len());
            rest = &rest[length..];
        }
        self.index = index;
        self.known = bytes;
    }

    /// Whether anything is known.
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Puts the entries of a directory into a listing; false if they are not known as it is now.
    pub(super) fn fill(&mut self, directory: &Statx, listing: &mut Listing) -> bool {
        let Some(start) = self.index.get(&directory.stx_ino).copied() else { return false };
        let is_filled = self.fill_from(start, directory, listing).is_some();
        if is_filled {
            self.used.push(start);
        }
        is_filled
    }

    fn fill_from(&self, start: usize, directory: &Statx, listing: &mut Listing) -> Option<()> {
        let record = self.known.get(start..)?;
        let length = u32::from_le_bytes(*record.first_chunk()?) as usize;
        let record = record.get(..length)?;
        if record.get(4..HEAD - 4)? != self.identity(directory)? {
            return None;
        }
        let count = u32::from_le_bytes(*record.get(HEAD - 4..)?.first_chunk()?);
        let Listing { names, entries, .. } = listing;
        names.clear();
        entries.clear();
        let mut at = HEAD;
        for _ in 0..count {
            let kind = kind_of(*record.get(at)?)?;
            let inode = number(record, at + 1)?;
            let length = usize::from(u16::from_le_bytes(*record.get(at + 9..)?.first_chunk()?));
            let start = names.len();
            names.extend_from_slice(record.get(at + 11..at + 11 + length)?);
            entries.push(Entry { start, end: names.len(), kind, inode });
            at += 11 + length;
        }
        (at == record.len()).then_some(())
    }

    /// Remembers a directory as it was read, if it was the same before and after.
    pub(super) fn note(&mut self, before: &Statx, after: &Statx, listing: &Listing) {
        self.read += 1;
        let Some(identity) = self.identity(before) else { return };
        let is_same = self.identity(after).is_some_and(|after| after == identity);
        let changed = u64::try_from(before.stx_ctime.tv_sec).map(Duration::from_secs);
        let is_settled = changed.is_ok_and(|at| at + Duration::from_secs(1) + SETTLED <= self.now);
        if self.file.is_none() || !is_same || !is_settled || self.new.len() > LARGEST {
            return;
        }
        let start = self.new.len();
        self.new.extend_from_slice(&[0; 4]);
        self.new.extend_from_slice(&identity);
        self.new.extend_from_slice(&(listing.entries.len() as u32).to_le_bytes());
        for (name, kind, inode) in listing.inodes() {
            let (Some(kind), Ok(length)) = (byte_of(kind), u16::try_from(name.len())) else {
                self.new.truncate(start);
                return;
            };
            self.new.push(kind);
            self.new.extend_from_slice(&inode.to_le_bytes());
            self.new.extend_from_slice(&length.to_le_bytes());
            self.new.extend_from_slice(name);
        }
        let length = (self.new.len() - start) as u32;
        self.new[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// What tells the state of a directory, for one on the root's device whose birth is known. One
    /// that is encrypted has other names while its key is away, though it does not change.
    fn identity(&self, found: &Statx) -> Option<[u8; 32]> {
        let mask = StatxFlags::from_bits_retain(found.stx_mask);
        let needed = StatxFlags::INO | StatxFlags::CTIME | StatxFlags::BTIME;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let is_encrypted = found.stx_attributes.contains(StatxAttributes::ENCRYPTED);
        if !mask.contains(needed) || device != self.device || is_encrypted {
            return None;
        }
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&found.stx_ino.to_le_bytes());
        for (at, time) in [(8, &found.stx_ctime), (20, &found.stx_btime)] {
            bytes[at..at + 8].copy_from_slice(&time.tv_sec.to_le_bytes());
            bytes[at + 8..at + 12].copy_from_slice(&time.tv_nsec.to_le_bytes());
        }
        Some(bytes)
    }

    /// Writes down what is known now, if much of it had to be read. What cannot be written is read
    /// again at the next start.
    pub(crate) fn store(&self) {
        let total = self.used.len() + self.read;
        if total < FEWEST || self.read < total / 16 {
            return;
        }
        if let Some(file) = &self.file {
            let _ = self.write(file);
        }
    }

    fn write(&self, file: &Path) -> std::io::Result<()> {
        let directory = file.parent().unwrap_or(file);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        owned::check_directory(directory).map_err(std::io::Error::other)?;
        forget_old(directory)?;
        let now = u64::try_from(self.now.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [&self.key[..], &now.to_le_bytes()].concat();
        for start in &self.used {
            let record = &self.known[*start..];
            let length = record.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
            bytes.extend_from_slice(&record[..length as usize]);
        }
        bytes.extend_from_slice(&self.new);
        if bytes.len() > LARGEST {
            return Ok(());
        }
        // Of another start at the same moment, the one that is finished last stays.
        let new = file.with_extension(format!("new-{}", std::process::id()));
        Places::write_private(&new, &bytes)?;
        fs::rename(&new, file)
    }
}

/// Makes room for one more file: those go first that were written first.
fn forget_old(directory: &Path) -> std::io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(MOST);
    files.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
}

/// Looks at a directory that is open.
///
/// # Errors
/// Returns the error of `statx(2)`.
pub(super) fn look(directory: impl AsFd) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(directory, "", AtFlags::EMPTY_PATH, wanted)
}

fn number(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*record.get(at..)?.first_chunk()?))
}

const KINDS: [FileType; 7] = [
    FileType::RegularFile,
    FileType::Directory,
    FileType::Symlink,
    FileType::Fifo,
    FileType::Socket,
    FileType::CharacterDevice,
    FileType::BlockDevice,
];

fn byte_of(kind: FileType) -> Option<u8> {
    let at = KINDS.iter().position(|known| *known == kind)?;
    u8::try_from(at).ok()
}

fn kind_of(byte: u8) -> Option<FileType> {
    KINDS.get(usize::from(byte)).copied()
}

#[cfg(test)]
mod tests;
