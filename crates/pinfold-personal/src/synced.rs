//! A user's whole configuration of an agent, read for a boundary that runs sessions as another user.
//!
//! This process is the user's, so nothing is read that the user may not read. What a name leads to is decided by
//! descriptors: no link is followed but into a store of root's, whose files everybody may read and nobody else can
//! change. One that is too large, or changes while it is read, does not come in at all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use pinfold_boundary::systemd::{Configuration, ConfigurationFile};
use pinfold_names::misleading::has_controls;
use pinfold_names::{HomePart, Protection, Site};
use pinfold_policy::authority::Effect;
use pinfold_policy::path::Escaped;
use pinfold_runner::accounts::Account;
use pinfold_runner::installed;
use pinfold_runner::policy::Policy;
use pinfold_terminal::notify;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Stores of package managers: what lies there is made by them alone.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];
/// Directories that are no configuration: conversations, and what can be downloaded again.
const LEFT_OUT: [&str; 3] = [".git", "node_modules", "sessions"];
const DEEPEST: usize = 12;
/// Names that are looked at.
const MOST_SEEN: usize = 20_000;
/// Names of what was left out that are shown.
const MOST_NAMES: usize = 8;
/// How often one is read that changes.
const TRIES: usize = 3;

/// Why a configuration as a whole does not come in.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    TooMuch,
    Changed,
    Unreadable(String),
}

/// Returns the caller's configuration as the administrator's policy says where it lies; none if there is no
/// policy for the
/// caller, or the configuration cannot come in, which is reported.
#[must_use]
pub fn configuration() -> Option<Configuration> {
    // The launch of the session reports what is wrong with the policy.
    let policy = Policy::load().ok()?;
    let account = Account::of_id(rustix::process::geteuid().as_raw()).ok()?;
    let (source, target) = pinfold_runner_client::configuration(&policy, &account)?;
    let home = installed::canonical(&account.home);
    let (read, left_out) = collect(&source, &target, &home, &STORES.map(Path::new));
    let shown = Escaped(&source);
    match read {
        Ok(files) => {
            if !left_out.is_empty() {
                let names: Vec<&str> =
                    left_out.iter().take(MOST_NAMES).map(String::as_str).collect();
                let more = left_out.len().saturating_sub(MOST_NAMES);
                let more = if more > 0 { format!(", {more} more") } else { String::new() };
                notify!("pinfold: note: of {shown}, left out: {}{more}", names.join(", "));
            }
            Some(Configuration { target, files })
        }
        Err(refused) => {
            let why = match refused {
                Refused::TooMuch => format!(
                    "has more than {} files, {} MiB or {DEEPEST} levels",
                    Configuration::MOST_FILES,
                    Configuration::MOST_BYTES >> 20
                ),
                Refused::Changed => "changed while it was read".to_owned(),
                Refused::Unreadable(why) => why,
            };
            notify!("pinfold: note: {shown} {why}: the session gets the copy of an earlier one");
            None
        }
    }
}

type Files = BTreeMap<PathBuf, ConfigurationFile>;

/// Reads a directory, and says what of it was left out.
fn collect(
    source: &Path,
    target: &Path,
    home: &Path,
    stores: &[&Path],
) -> (Result<Files, Refused>, Vec<String>) {
    let mut last = Vec::new();
    for _ in 0..TRIES {
        let mut reading = Reading {
            target,
            stores,
            site: Site::new(home, &[HomePart::home(home.to_owned())]),
            protection: Protection::default(),
            files: BTreeMap::new(),
            bytes: 0,
            seen: 0,
            left_out: Vec::new(),
        };
        let read = reading.all(source);
        last = reading.left_out;
        if read != Err(Refused::Changed) {
            return (read.map(|()| reading.files), last);
        }
    }
    (Err(Refused::Changed), last)
}

struct Reading<'r> {
    target: &'r Path,
    stores: &'r [&'r Path],
    site: Site,
    protection: Protection,
    files: Files,
    bytes: usize,
    seen: usize,
    left_out: Vec<String>,
}

/// A directory that is read.
struct Level {
    directory: OwnedFd,
    /// Where it lies if it is in a store.
    store: Option<PathBuf>,
    /// What it is called below the configuration.
    path: PathBuf,
    depth: usize,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);
/// A pipe or device in a file's place must neither keep this process waiting nor become its terminal.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

fn open(at: impl AsFd, name: impl rustix::path::Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, name, flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

fn open_without_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), how)
}

impl Reading<'_> {
    fn all(&mut self, source: &Path) -> Result<(), Refused> {
        if self.protection.refuses(source).is_some() {
            return Err(Refused::Unreadable("holds secrets".to_owned()));
        }
        let directory = match open_without_links(source, DIRECTORY) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let why = "is no directory, or is reached through a link";
                return Err(Refused::Unreadable(why.to_owned()));
            }
            Err(errno) => return Err(Refused::Unreadable(format!("cannot be read ({errno})"))),
        };
        self.level(&Level { directory, store: None, path: PathBuf::new(), depth: 0 })
    }

    fn level(&mut self, level: &Level) -> Result<(), Refused> {
        if level.depth > DEEPEST {
            return Err(Refused::TooMuch);
        }
        let Ok(entries) = Dir::read_from(&level.directory) else {
            self.leave_out(&level.path, "cannot be read");
            return Ok(());
        };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                self.seen += 1;
                names.push(name);
            }
            if self.seen > MOST_SEEN {
                return Err(Refused::TooMuch);
            }
        }
        names.sort();
        names.into_iter().try_for_each(|name| self.entry(level, Path::new(&name)))
    }

    fn entry(&mut self, level: &Level, name: &Path) -> Result<(), Refused> {
        let path = level.path.join(name);
        let is_known = LEFT_OUT.iter().any(|known| name == Path::new(known));
        if is_known || has_controls(name.as_os_str().as_bytes()) {
            self.leave_out(&path, "no configuration");
            return Ok(());
        }
        if self.is_secret(&path) {
            self.leave_out(&path, "a secret by its name");
            return Ok(());
        }
        // Whatever it is: nothing is opened by this.
        let found = open(&level.directory, name, OFlags::PATH | OFlags::NOFOLLOW)
            .and_then(|found| rustix::fs::fstat(&found));
        let Ok(found) = found else { return Err(Refused::Changed) };
        let kind = FileType::from_raw_mode(found.st_mode);
        if level.store.is_some() && kind != FileType::Symlink && !is_in_a_store(&found) {
            self.leave_out(&path, "not root's alone");
            return Ok(());
        }
        match kind {
            FileType::RegularFile => {
                let opened = open(&level.directory, name, FILE);
                self.file(opened, &found, path)
            }
            FileType::Directory => {
                let opened = open(&level.directory, name, DIRECTORY);
                let store = level.store.as_ref().map(|store| store.join(name));
                self.below(opened, store, path, level.depth + 1)
            }
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(&level.directory, name, Vec::new());
                let Ok(text) = text else { return Err(Refused::Changed) };
                let to = PathBuf::from(OsString::from_vec(text.into_bytes()));
                let to = match &level.store {
                    Some(store) => store.join(to),
                    None => to,
                };
                self.link(&to, path, level.depth + 1)
            }
            _ => {
                self.leave_out(&path, "no file");
                Ok(())
            }
        }
    }

    /// Follows a link to what lies in a store.
    fn link(&mut self, to: &Path, path: PathBuf, depth: usize) -> Result<(), Refused> {
        let real = installed::canonical(to);
        let stat = |path: &Path| rustix::fs::lstat(path).ok();
        let is_below = |store: &&Path| real.starts_with(store) && real != **store;
        let is_store = to.is_absolute()
            && self.stores.iter().any(is_below)
            && real.ancestors().all(|at| stat(at).is_some_and(|it| is_in_a_store(&it)));
        let found = stat(&real).filter(|_| is_store);
        match found.map(|found| (FileType::from_raw_mode(found.st_mode), found)) {
            Some((FileType::RegularFile, found)) => {
                self.file(open_without_links(&real, FILE), &found, path)
            }
            Some((FileType::Directory, _)) => {
                self.below(open_without_links(&real, DIRECTORY), Some(real), path, depth)
            }
            _ => {
                self.leave_out(&path, "a link");
                Ok(())
            }
        }
    }

    fn below(
        &mut self,
        opened: Result<OwnedFd, Errno>,
        store: Option<PathBuf>,
        path: PathBuf,
        depth: usize,
    ) -> Result<(), Refused> {
        match opened {
            Ok(directory) => self.level(&Level { directory, store, path, depth }),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => Err(Refused::Changed),
            Err(_) => {
                self.leave_out(&path, "cannot be read");
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        opened: Result<OwnedFd, Errno>,
        found: &Stat,
        path: PathBuf,
    ) -> Result<(), Refused> {
        let file = match opened {
            Ok(file) => file,
            Err(Errno::LOOP | Errno::NOENT) => return Err(Refused::Changed),
            Err(_) => {
                self.leave_out(&path, "cannot be read");
                return Ok(());
            }
        };
        let left = Configuration::MOST_BYTES - self.bytes;
        if self.files.len() == Configuration::MOST_FILES || found.st_size as u64 > left as u64 {
            return Err(Refused::TooMuch);
        }
        let look = |file: &OwnedFd| {
            let stat = rustix::fs::fstat(file).ok()?;
            Some((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec))
        };
        let before =
            (found.st_dev, found.st_ino, found.st_size, found.st_mtime, found.st_mtime_nsec);
        let mut content = Vec::new();
        let mut file = File::from(file);
        let read = file.by_ref().take(left as u64 + 1).read_to_end(&mut content);
        if look(&file.into()) != Some(before) {
            return Err(Refused::Changed);
        }
        // A file of the kernel's has another size than it says.
        if read.is_err() || content.len() as u64 != found.st_size as u64 {
            self.leave_out(&path, "cannot be read");
            return Ok(());
        }
        self.bytes += content.len();
        let is_executable = found.st_mode & 0o100 != 0;
        self.files.insert(path, ConfigurationFile { content, is_executable });
        Ok(())
    }

    /// Returns whether a path in the home, or one above it, has the name of a secret.
    fn is_secret(&self, path: &Path) -> bool {
        let path = self.target.join(path);
        let mut parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
        parts.any(|part| {
            let class = self.protection.classify(&self.site, part);
            class.is_some_and(|class| class.effect() == Effect::Hide)
        })
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        self.left_out.push(format!("{} ({why})", Escaped(path)));
    }
}

/// Returns whether something is root's, readable for everybody and writable for nobody else. Nix's store
/// is a sticky directory, in which a group makes new names and replaces none of root's.
fn is_in_a_store(stat: &Stat) -> bool {
    let is_sticky_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_mode & Mode::SVTX.as_raw_mode() != 0;
    let writable = if is_sticky_directory { 0o002 } else { 0o022 };
    let is_readable = stat.st_mode & 0o004 != 0 || is_sticky_directory;
    stat.st_uid == 0 && stat.st_mode & writable == 0 && is_readable
}

#[cfg(test)]
mod tests;
