//! The files of a repository that its commands name.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::content::directory;
use crate::error::RepositoryError;
use crate::words::{ANY, Words};

const ANY_BYTE: u8 = ANY as u8;

/// The most directories that the words of one command may name.
const MOST_DIRECTORIES: usize = 1024;
/// The most names that are read from directories for all commands.
const MOST_NAMES: usize = 50_000;
/// The most paths that are looked up for all commands, which takes about half a second.
const MOST_LOOKUPS: usize = 300_000;
/// A path without links costs so many lookups.
const REAL: usize = 16;

/// The commands name more than is read at a start.
#[derive(Debug)]
pub(super) struct TooWide;

/// Returns the regular files of the repository that the words of the commands name, relative to its
/// root, programs or not.
///
/// A word names what it names relative to the root or to a directory that another word names
/// (`cd web`, `PATH=tools`). So does what is left of it without leading directories, which may be
/// another spelling of the root (`$(pwd)/`, `../repository/`, `/proc/self/cwd/`). A pattern names
/// what it matches, and an expansion within a path matches anything. The variables of the settings
/// file are words of every command. Where a program picks the files that it executes (`xargs`), each
/// directory that a word names counts as a whole.
///
/// What a file runs in turn is not followed, nor a name that a command computes.
///
/// # Errors
/// Returns an error if the root cannot be opened, or the commands name too much.
pub(super) fn named_files<'a>(
    commands: impl Iterator<Item = &'a str>,
    variables: &[&str],
    root: &Path,
) -> Result<Vec<PathBuf>, RepositoryError> {
    let mut search = None;
    for command in commands {
        let search = match &mut search {
            Some(search) => search,
            None => search.insert(Search::new(root)?),
        };
        let mut words = Words::default();
        let mut texts = variables.iter().chain([&command]);
        let found = texts.try_for_each(|text| words.add(text)).and_then(|()| search.run(&words));
        found.map_err(|TooWide| RepositoryError::TooWide { command: command.to_owned() })?;
    }
    Ok(search.map_or_else(Vec::new, |search| search.files.into_iter().collect()))
}

/// A path with the device and inode of what it names, and its kind.
type Found = (PathBuf, (u64, u64), FileType);

/// A search for what words name.
struct Search {
    top: OwnedFd,
    /// The root without links.
    root: PathBuf,
    /// Names read from directories.
    names: usize,
    lookups: usize,
    files: BTreeSet<PathBuf>,
}

/// A directory that a word names.
struct Named {
    path: PathBuf,
    /// The words that led there, one after the other. None counts twice: `*` would name all that is
    /// below.
    words: Vec<usize>,
}

impl Search {
    fn new(root: &Path) -> Result<Self, RepositoryError> {
        let failed = |cause| RepositoryError::Read { path: root.to_owned(), cause };
        let top = directory(root).map_err(|errno| failed(errno.into()))?;
        let root = fs::canonicalize(root).map_err(failed)?;
        Ok(Self { top, root, names: 0, lookups: 0, files: BTreeSet::new() })
    }

    fn run(&mut self, words: &Words) -> Result<(), TooWide> {
        let root = self.resolve(Path::new("."))?;
        let Some((_, root, _)) = root else { return Ok(()) };
        // By device and inode: a directory may have many names.
        let mut known = HashSet::from([root]);
        let mut bases = vec![Named { path: PathBuf::new(), words: Vec::new() }];
        let mut at = 0;
        while at < bases.len() {
            for (word, number) in &words.all {
                if bases[at].words.contains(number) {
                    continue;
                }
                let mut found = Vec::new();
                self.look_up(&bases[at].path.clone(), word, &mut found)?;
                for path in found {
                    let Some((path, id, kind)) = self.resolve(&path)? else { continue };
                    if kind == FileType::RegularFile {
                        self.files.insert(path);
                    } else if kind == FileType::Directory && known.insert(id) {
                        let words = [&bases[at].words[..], &[*number]].concat();
                        bases.push(Named { path, words });
                    }
                }
                if bases.len() > MOST_DIRECTORIES {
                    return Err(TooWide);
                }
            }
            at += 1;
        }
        if words.picks_files {
            for base in &bases[1..] {
                self.whole(&base.path)?;
            }
        }
        Ok(())
    }

    /// Adds the paths that a word could name in a directory: as a whole, and without leading
    /// directories.
    fn look_up(
        &mut self,
        base: &Path,
        word: &str,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), TooWide> {
        let names: Vec<&str> = word.split('/').filter(|name| !["", "."].contains(name)).collect();
        for start in 0..names.len() {
            // `src/*` is no pattern for the root, but `/path/of/repository/*` is.
            let is_root = |name: &str| {
                name.contains(ANY) || name == "cwd" || self.root.file_name() == Some(name.as_ref())
            };
            let is_whole = start == 0 || is_root(names[start - 1]);
            let names = &names[start..];
            let is_any = |name: &str| name.chars().all(|c| c == ANY);
            // `$directory/*` is what matches in the directories that are named, not in all.
            let is_known = match names {
                [first] => !is_any(first),
                [first, second, ..] => !is_any(first) || !is_pattern(second),
                [] => false,
            };
            if is_known && (is_whole || !is_pattern(names[0])) {
                self.matches(base, names, found)?;
            }
        }
        Ok(())
    }

    /// Adds the paths below a directory that names and patterns match, component by component.
    fn matches(
        &mut self,
        at: &Path,
        names: &[&str],
        found: &mut Vec<PathBuf>,
    ) -> Result<(), TooWide> {
        let Some((name, rest)) = names.split_first() else {
            found.push(at.to_owned());
            return Ok(());
        };
        if *name == ".." {
            for parent in self.parents(at)? {
                self.matches(&parent, rest, found)?;
            }
            return Ok(());
        }
        if !is_pattern(name) {
            return self.matches(&at.join(name), rest, found);
        }
        let is_deep = name.contains("**");
        if is_deep {
            self.matches(at, rest, found)?;
        }
        for (entry, kind) in self.entries(at)? {
            let path = at.join(&entry);
            if is_match(name.as_bytes(), entry.as_bytes()) {
                self.matches(&path, rest, found)?;
            }
            if is_deep && kind == FileType::Directory {
                self.matches(&path, names, found)?;
            }
        }
        Ok(())
    }

    /// Returns the parents of a directory: by its name, as `cd` goes, and by its place, as the kernel
    /// goes where the name is a link.
    fn parents(&mut self, at: &Path) -> Result<BTreeSet<PathBuf>, TooWide> {
        let by_name = at.parent().map(Path::to_owned);
        let by_place = self.real(&at.join(".."))?;
        Ok(by_name.into_iter().chain(by_place).collect())
    }

    fn spend(&mut self, lookups: usize) -> Result<(), TooWide> {
        self.lookups += lookups;
        if self.lookups > MOST_LOOKUPS { Err(TooWide) } else { Ok(()) }
    }

    /// Returns where a path leads, relative to the root, if that is in the repository.
    fn real(&mut self, path: &Path) -> Result<Option<PathBuf>, TooWide> {
        self.spend(REAL)?;
        let real = fs::canonicalize(self.root.join(path)).ok();
        Ok(real.and_then(|real| real.strip_prefix(&self.root).ok().map(Path::to_owned)))
    }

    /// Returns a path with what it names. A link may lead to another place in the repository.
    fn resolve(&mut self, path: &Path) -> Result<Option<Found>, TooWide> {
        self.spend(1)?;
        let (path, opened) = match self.open(path) {
            Ok(opened) => (path.to_owned(), opened),
            // An absolute link, or one that leaves the repository and comes back.
            Err(Errno::XDEV) => {
                let Some(real) = self.real(path)? else { return Ok(None) };
                let Ok(opened) = self.open(&real) else { return Ok(None) };
                (real, opened)
            }
            Err(_) => return Ok(None),
        };
        let stat = rustix::fs::fstat(&opened).ok();
        let kind = |stat: &Stat| FileType::from_raw_mode(stat.st_mode);
        Ok(stat.map(|stat| (path, (stat.st_dev, stat.st_ino), kind(&stat))))
    }

    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.top, path, flags, Mode::empty(), how)
    }

    /// Returns what lies at a path, without following a link.
    fn kind(&self, path: &Path) -> FileType {
        let found = rustix::fs::statat(&self.top, path, AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// Adds every regular file of a directory.
    fn whole(&mut self, directory: &Path) -> Result<(), TooWide> {
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            for (name, kind) in self.entries(&directory)? {
                let path = directory.join(name);
                if kind == FileType::Directory {
                    open.push(path);
                } else if let Some((path, _, FileType::RegularFile)) = self.resolve(&path)? {
                    self.files.insert(path);
                }
            }
        }
        Ok(())
    }

    /// Reads a directory; nothing where it is missing.
    fn entries(&mut self, path: &Path) -> Result<Vec<(OsString, FileType)>, TooWide> {
        let Some((path, _, FileType::Directory)) = self.resolve(&or_dot(path))? else {
            return Ok(Vec::new());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&self.top, or_dot(&path), flags, Mode::empty(), how);
        let mut names = Vec::new();
        for entry in opened.and_then(Dir::read_from).into_iter().flatten() {
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            self.names += 1;
            if self.names > MOST_NAMES {
                return Err(TooWide);
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                // Some file systems do not say it here.
                FileType::Unknown => self.kind(&path.join(&name)),
                kind => kind,
            };
            names.push((name, kind));
        }
        Ok(names)
    }
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[', ANY])
}

fn or_dot(path: &Path) -> PathBuf {
    if path == OsStr::new("") { PathBuf::from(".") } else { path.to_owned() }
}

/// Returns whether a shell pattern could match a name. A bracket expression, and what follows it,
/// matches anything.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut done) = (0, 0);
    // Only the last wildcard is ever tried again.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), name.get(done)) {
            (None, None) | (Some(b'['), _) => return true,
            (Some(b'*' | &ANY_BYTE), _) => {
                at += 1;
                retry = Some((at, done));
                continue;
            }
            (Some(byte), Some(found)) if *byte == b'?' || byte == found => {
                (at, done) = (at + 1, done + 1);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((after, from)) if from < name.len() => {
                (at, done) = (after, from + 1);
                retry = Some((after, from + 1));
            }
            _ => return false,
        }
    }
}
