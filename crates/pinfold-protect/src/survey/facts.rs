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
//!
//! Most entries of most directories are regular files whose names mean nothing to any rule
//! ([`is_notable`]). They lie in a part of the file of their own, which is read only if a walk asks for
//! all entries. The rule that separates them is part of the program, so the facts of another executable
//! are not used.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pinfold_host::owned;
use pinfold_names::misleading::has_controls;
use pinfold_names::{Folded, Protection, may_be_on_build};
use rustix::fs::{
    AtFlags, CWD, FileType, Statx, StatxAttributes, StatxFlags, fstatfs, fstatvfs, statx,
};
use rustix::io::Errno;

use super::listing::{Entry, Listing};
use crate::set_aside::is_set_aside;

mod store;

const FORMAT: &[u8] = b"pinfold: entries of directories, 2\n";
/// The types of ext4, XFS, Btrfs, F2FS and tmpfs (`f_type`, statfs(2)).
const FILE_SYSTEMS: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
/// How long a directory must not have changed.
const SETTLED: Duration = Duration::from_secs(2);
/// Bytes of one file, and of what is remembered of one root.
const LARGEST: usize = 16 << 20;
/// What precedes the entries of a directory in its record: length, [`Identity`], whether a walk has to
/// open it, the number of its notable entries, and where its other entries are: offset, bytes, number.
const HEAD: usize = 4 + IDENTITY + 1 + 4 + 8 + 4 + 4;
/// Inode, change time and birth time.
const IDENTITY: usize = 8 + 12 + 12;
type Identity = [u8; IDENTITY];

/// Which entries of a remembered directory a walk asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Entries {
    /// All entries.
    #[default]
    All,
    /// Those that some rule may know by name or kind. Directories that are read are shown with all their entries.
    Notable,
}

/// Returns whether an entry is more than a regular file whose name means nothing: what is not a regular file, and each
/// name that some rule knows by itself.
pub(super) fn is_notable(name: &[u8], kind: FileType) -> bool {
    /// What identifies a git directory (`is_git_directory` in git's setup.c).
    const OF_GIT: [&[u8]; 5] = [b".git", b"HEAD", b"commondir", b"objects", b"refs"];
    if kind != FileType::RegularFile || OF_GIT.contains(&name) {
        return true;
    }
    let folded = Folded::of(name);
    Protection::may_match(&folded)
        || may_be_on_build(&folded)
        || has_controls(name)
        || is_set_aside(name)
}

/// Facts about the directories beneath one root.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Where they are kept; none if nothing is remembered of this file system.
    path: Option<PathBuf>,
    key: Vec<u8>,
    device: (u32, u32),
    now: Duration,
    entries: Entries,
    /// What an earlier start has written, if it can be used.
    file: Option<File>,
    /// Its records, one for each directory.
    known: Vec<u8>,
    /// All other entries, if they were asked for.
    rest: Vec<u8>,
    /// Where in the file they begin.
    rest_at: u64,
    /// Where the record of each inode begins.
    index: HashMap<u64, usize>,
    used: Vec<usize>,
    new: Vec<u8>,
    new_rest: Vec<u8>,
    read: usize,
}

impl Facts {
    /// Returns the facts about a root that were kept below this directory, which is pinfold's own cache.
    pub(crate) fn load(cache: &Path, root: impl AsFd, entries: Entries) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::at(cache, root, now, entries).unwrap_or_default()
    }

    fn at(cache: &Path, root: impl AsFd, now: Duration, entries: Entries) -> Option<Self> {
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
        let key = [FORMAT, &boot, &this_executable()?, &numbers].concat();
        let name = format!("{:x}-{:x}-{:x}", device.0, device.1, found.stx_ino);
        let path = Some(cache.join("directories").join(name));
        let mut facts = Self { path, key, device, now, entries, ..Self::default() };
        facts.read_known();
        Some(facts)
    }

    /// Takes what is in the file. A file that is not whole holds nothing.
    fn read_known(&mut self) -> Option<()> {
        let file = owned::open(self.path.as_deref()?).ok()??;
        let mut start = vec![0; self.key.len() + 16];
        file.read_exact_at(&mut start, 0).ok()?;
        let numbers = start.strip_prefix(self.key.as_slice())?;
        // The clock was set back: a change time may come a second time.
        if Duration::from_nanos(number(numbers, 0)?) > self.now {
            return None;
        }
        let length = usize::try_from(number(numbers, 8)?).ok().filter(|it| *it <= LARGEST)?;
        let mut known = vec![0; length];
        file.read_exact_at(&mut known, start.len() as u64).ok()?;
        let (mut index, mut rest) = (HashMap::new(), known.as_slice());
        while let Some(length) = rest.first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let record = rest.get(..length).filter(|_| length >= HEAD)?;
            index.insert(number(record, 4)?, known.len() - rest.len());
            rest = &rest[length..];
        }
        (self.index, self.known) = (index, known);
        self.rest_at = (start.len() + length) as u64;
        self.file = Some(file);
        if self.entries == Entries::All {
            self.read_rest();
        }
        Some(())
    }

    /// Returns whether anything is known.
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns whether a directory of this inode number may be known, and has none in it, so that
    /// nothing is opened by a descriptor on it.
    pub(super) fn is_leaf(&self, inode: u64) -> bool {
        let record = self.index.get(&inode).and_then(|start| self.known.get(*start..));
        record.and_then(|record| record.get(4 + IDENTITY)) == Some(&0)
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
        let record = Record::at(&self.known, start)?;
        if record.identity != self.identity(directory)? {
            return None;
        }
        listing.names.clear();
        listing.entries.clear();
        record.notable().fill(listing)?;
        match self.entries {
            Entries::Notable => Some(()),
            Entries::All => record.others(&self.rest)?.fill(listing),
        }
    }

    /// Remembers a directory as it was read, if it was the same before and after.
    pub(super) fn note(&mut self, before: &Statx, after: &Statx, listing: &Listing) {
        self.read += 1;
        let Some(identity) = self.identity(before) else { return };
        let is_same = self.identity(after).is_some_and(|after| after == identity);
        let changed = u64::try_from(before.stx_ctime.tv_sec).map(Duration::from_secs);
        let is_settled = changed.is_ok_and(|at| at + Duration::from_secs(1) + SETTLED <= self.now);
        let is_full = self.new.len() + self.new_rest.len() > LARGEST;
        if self.path.is_none() || !is_same || !is_settled || is_full {
            return;
        }
        let starts = (self.new.len(), self.new_rest.len());
        if self.add(identity, listing).is_none() {
            self.new.truncate(starts.0);
            self.new_rest.truncate(starts.1);
        }
    }

    /// Adds a record.
    fn add(&mut self, identity: Identity, listing: &Listing) -> Option<()> {
        let (start, rest) = (self.new.len(), self.new_rest.len());
        self.new.extend_from_slice(&[0; HEAD]);
        let (mut notable, mut others, mut is_opened) = (0_u32, 0_u32, false);
        for (name, kind, inode) in listing.inodes() {
            let (to, count) = if is_notable(name, kind) {
                (&mut self.new, &mut notable)
            } else {
                (&mut self.new_rest, &mut others)
            };
            is_opened |= kind == FileType::Directory;
            *count += 1;
            to.push(byte_of(kind)?);
            to.extend_from_slice(&inode.to_le_bytes());
            to.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
            to.extend_from_slice(name);
        }
        let length = u32::try_from(self.new.len() - start).ok()?;
        let others_length = u32::try_from(self.new_rest.len() - rest).ok()?;
        let head = [
            &length.to_le_bytes()[..],
            &identity,
            &[u8::from(is_opened)],
            &notable.to_le_bytes(),
            &(rest as u64).to_le_bytes(),
            &others_length.to_le_bytes(),
            &others.to_le_bytes(),
        ];
        self.new[start..start + HEAD].copy_from_slice(&head.concat());
        Some(())
    }

    /// Returns what identifies the state of a directory, for one on the root's device whose birth is known.
    /// One that is encrypted has other names while its key is away, though it does not change.
    fn identity(&self, found: &Statx) -> Option<Identity> {
        let mask = StatxFlags::from_bits_retain(found.stx_mask);
        let needed = StatxFlags::INO | StatxFlags::CTIME | StatxFlags::BTIME;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let is_encrypted = found.stx_attributes.contains(StatxAttributes::ENCRYPTED);
        if !mask.contains(needed) || device != self.device || is_encrypted {
            return None;
        }
        let mut bytes = [0; IDENTITY];
        bytes[..8].copy_from_slice(&found.stx_ino.to_le_bytes());
        for (at, time) in [(8, &found.stx_ctime), (20, &found.stx_btime)] {
            bytes[at..at + 8].copy_from_slice(&time.tv_sec.to_le_bytes());
            bytes[at + 8..at + 12].copy_from_slice(&time.tv_nsec.to_le_bytes());
        }
        Some(bytes)
    }
}

/// One directory in the file.
#[derive(Clone, Copy)]
struct Record<'a> {
    identity: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn at(known: &'a [u8], start: usize) -> Option<Self> {
        let bytes = known.get(start..)?;
        let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        let bytes = bytes.get(..length)?;
        Some(Self { identity: bytes.get(4..4 + IDENTITY)?, bytes })
    }

    /// Returns a number of the head, behind so many bytes of it.
    fn head(&self, at: usize) -> usize {
        let number = self.bytes.get(4 + IDENTITY + 1 + at..).and_then(<[u8]>::first_chunk);
        number.map_or(usize::MAX, |number| u32::from_le_bytes(*number) as usize)
    }

    fn notable(&self) -> Packed<'a> {
        Packed { count: self.head(0), bytes: self.bytes.get(HEAD..).unwrap_or_default() }
    }

    /// Returns where the other entries begin among those of all directories.
    fn others_at(&self) -> Option<usize> {
        usize::try_from(number(self.bytes, 4 + IDENTITY + 5)?).ok()
    }

    /// Returns the other entries, of which `rest` has those of all directories.
    fn others(&self, rest: &'a [u8]) -> Option<Packed<'a>> {
        let bytes = rest.get(self.others_at()?..)?.get(..self.head(12))?;
        Some(Packed { count: self.head(16), bytes })
    }
}

/// Entries as they lie in the file.
struct Packed<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl Packed<'_> {
    /// Adds them to a listing.
    fn fill(&self, listing: &mut Listing) -> Option<()> {
        let Listing { names, entries, .. } = listing;
        let (bytes, mut at) = (self.bytes, 0);
        for _ in 0..self.count {
            let kind = kind_of(*bytes.get(at)?)?;
            let inode = number(bytes, at + 1)?;
            let length = usize::from(u16::from_le_bytes(*bytes.get(at + 9..)?.first_chunk()?));
            let start = names.len();
            names.extend_from_slice(bytes.get(at + 11..at + 11 + length)?);
            entries.push(Entry { start, end: names.len(), kind, inode });
            at += 11 + length;
        }
        (at == bytes.len()).then_some(())
    }
}

/// Returns which executable this is, and when it last changed.
fn this_executable() -> Option<Vec<u8>> {
    let wanted = StatxFlags::BASIC_STATS;
    let found = statx(CWD, "/proc/self/exe", AtFlags::empty(), wanted).ok()?;
    let (device, time) = ((found.stx_dev_major, found.stx_dev_minor), found.stx_ctime);
    let numbers = [u64::from(device.0), device.1.into(), found.stx_ino, time.tv_nsec.into()];
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    Some(numbers.chain(time.tv_sec.to_le_bytes()).collect())
}

/// Looks at a directory that is open.
///
/// # Errors
/// Returns the error of `statx(2)`.
pub(super) fn look(directory: impl AsFd) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(directory, "", AtFlags::EMPTY_PATH, wanted)
}

/// Looks at what lies at a name of a directory, a link itself and not where it leads.
///
/// # Errors
/// Returns the error of `statx(2)`.
pub(super) fn look_at(directory: impl AsFd, name: &[u8]) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted)
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
