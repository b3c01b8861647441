//! What a session has to settle at its end, written down before it starts.
//!
//! If its supervisor is killed, nobody looks at what the sandbox made, and the next session would
//! take it for the user's. So the next start settles what dead sessions left before it looks at anything itself.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_git::settled::{Kept, Settled};
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{open_directory, read_bounded};
use pinfold_host::directories::Places;
use pinfold_host::file_id::{FileId, Moment};
use pinfold_host::io::AtPath as _;
use pinfold_host::session_id::SessionId;
pub(crate) use pinfold_host::sessions::LEFT;
use pinfold_host::sessions::{SessionState, live_sessions};
use pinfold_host::{Host, Refusal};
use pinfold_names::{HomePart, Protection, Site};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::Settings;
use pinfold_protect::began::Began;
use pinfold_protect::commands::Ahead;
use pinfold_protect::home_parts::{home_parts, site_of};
use pinfold_protect::misleading::Before;
use pinfold_protect::newcomers;
use pinfold_protect::own::Own;
use pinfold_protect::patience::Patience;
use pinfold_protect::survey::Walk;
use pinfold_protect::trusted::Trusted;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::state::{Guard, Walked};
use crate::GuardError;
use crate::git::bytes;
use crate::git::named::reason;
use crate::git::private::Copied;
use crate::git::record::{Bytes, Copy, path};
use crate::protected_dirs::{Entry, ProtectedDir};

const NEW_RECORD: &str = "left.json.new";
/// Bytes of a record. References are in it, up to 256 MiB of them.
const LONGEST_RECORD: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Left {
    roots: Vec<Bytes>,
    readable: Vec<Bytes>,
    known: Vec<(Bytes, FileId)>,
    opt_in: Vec<String>,
    hidden: Vec<Bytes>,
    tops: Vec<(Bytes, Bytes)>,
    copied: Vec<Copy>,
    #[serde(default)]
    protected: Vec<Protected>,
    #[serde(default)]
    began: Began,
    #[serde(default)]
    odd: Vec<(Bytes, FileId)>,
    #[serde(default)]
    fixed: Vec<Bytes>,
    #[serde(default)]
    only: Option<String>,
    #[serde(default)]
    trusted: Vec<Trusted>,
    #[serde(default)]
    secret_names: Vec<Bytes>,
    #[serde(default)]
    executed: Vec<Bytes>,
    /// Where names of the user's homes lie, by the variables of the session's start.
    #[serde(default)]
    parts: Vec<(Bytes, Bytes)>,
    /// Programs that a git configuration names, and that were missing.
    #[serde(default)]
    expected: Vec<Bytes>,
    /// Directories in which the user's shell looks for programs, and what was in them.
    #[serde(default)]
    ahead: Vec<(Bytes, Bytes, Vec<Bytes>)>,
    /// What the shell's directory hook loads, each file as it was.
    #[serde(default)]
    loaded: Vec<(Bytes, Option<Moment>)>,
    isolated: bool,
}

#[derive(Serialize, Deserialize)]
struct Protected {
    path: Bytes,
    identity: (u64, u64),
    copy: Bytes,
    entries: Vec<(Bytes, Entry)>,
    hidden: Vec<Bytes>,
    is_placeholder: bool,
    why: String,
    opt_in: Option<String>,
}

impl Protected {
    /// Returns what is left of a directory. One without a directory on the host has nothing to settle.
    fn of(dir: &ProtectedDir) -> Option<Self> {
        Some(Self {
            path: bytes(&dir.path),
            identity: dir.host.as_ref()?.identity(),
            copy: bytes(&dir.copy),
            entries: dir.entries.iter().map(|(path, it)| (bytes(path), it.clone())).collect(),
            hidden: dir.hidden.iter().map(|path| bytes(path)).collect(),
            is_placeholder: dir.is_placeholder,
            why: dir.why.clone(),
            opt_in: dir.opt_in.clone(),
        })
    }

    fn read(self) -> ProtectedDir {
        ProtectedDir {
            host: Some(Anchor::written(path(self.path.clone()), self.identity.0, self.identity.1)),
            path: path(self.path),
            copy: path(self.copy),
            entries: self.entries.into_iter().map(|(it, entry)| (path(it), entry)).collect(),
            hidden: self.hidden.into_iter().map(path).collect(),
            is_placeholder: self.is_placeholder,
            why: self.why,
            opt_in: self.opt_in,
        }
    }
}

impl Guard {
    /// Writes down what has to be settled at the end. `private` is the session's directory.
    ///
    /// # Errors
    /// Returns the error of writing, with the path.
    pub(super) fn write_down(&self, private: &Path) -> io::Result<()> {
        if self.roots.is_empty() {
            return Ok(());
        }
        let write = |name: String, content: &[u8]| {
            let path = private.join(name);
            fs::File::create(&path).and_then(|mut file| file.write_all(content)).at("write", &path)
        };
        for (number, root) in self.roots.iter().enumerate() {
            write(walk_name(number), &root.walk.to_bytes())?;
        }
        let left = Left {
            roots: self.roots.iter().map(|root| bytes(&root.path)).collect(),
            readable: self.readable.iter().map(|path| bytes(path)).collect(),
            known: self.known.iter().map(|(path, id)| (bytes(path), *id)).collect(),
            opt_in: self.opt_in.clone(),
            hidden: self.hidden.iter().map(|path| bytes(path)).collect(),
            tops: self.tops.iter().map(|(top, git)| (bytes(top), bytes(git))).collect(),
            copied: self.copies.directories.iter().map(Copy::of).collect(),
            protected: self.protected_dirs.iter().filter_map(Protected::of).collect(),
            began: self.before.began,
            odd: self.before.odd.iter().map(|(path, id)| (bytes(path), *id)).collect(),
            fixed: self.before.fixed.iter().map(|path| bytes(path)).collect(),
            only: self.only.clone(),
            trusted: self.trusted.clone(),
            secret_names: self.secret_names.iter().map(|path| bytes(path)).collect(),
            executed: self.executed.iter().map(|path| bytes(path)).collect(),
            parts: self.parts.iter().map(|it| (bytes(&it.path), bytes(&it.name))).collect(),
            expected: self.protect.expected.iter().map(|(path, _)| bytes(path)).collect(),
            ahead: self
                .ahead
                .iter()
                .map(|it| (bytes(&it.written), bytes(&it.directory), all(&it.names)))
                .collect(),
            loaded: self.loaded.iter().map(|it| (bytes(&it.0), it.1)).collect(),
            isolated: self.isolated,
        };
        // Last: without it nothing is settled. Other starts read it, so it is there as a whole or not at all.
        let new = private.join(NEW_RECORD);
        write(NEW_RECORD.to_owned(), &serde_json::to_vec(&left)?)?;
        fs::rename(&new, private.join(LEFT)).at("rename", &new)
    }

    /// Returns what a dead session left, if it had come far enough to start.
    fn of_dead(
        session: &SessionId,
        private: &Path,
        Host { places, launcher }: Host<'_>,
    ) -> Option<Self> {
        let left = read(private)?;
        let own = Arc::new(Own::find(places).ok()?);
        let started = left.parts.into_iter();
        let started: Vec<HomePart> =
            started.map(|it| HomePart { path: path(it.0), name: path(it.1) }).collect();
        let mut homes = home_parts(&places.homes());
        homes.extend(started.iter().cloned());
        let mut guard =
            Self::new(private, session, None, Vec::new(), Arc::clone(&own), launcher.clone());
        for (number, root) in left.roots.into_iter().enumerate() {
            let walk = Walk::from_bytes(&fs::read(private.join(walk_name(number))).ok()?)?;
            let path = path(root);
            let site = site_of(&path, &homes, &own);
            guard.roots.push(Walked { path, site, walk });
        }
        guard.protect.expected = left.expected.into_iter().map(|it| (path(it), reason())).collect();
        guard.ahead = ahead(left.ahead);
        guard.loaded = left.loaded.into_iter().map(|it| (path(it.0), it.1)).collect();
        guard.parts = started;
        guard.only = left.only;
        guard.trusted = left.trusted;
        guard.secret_names = left.secret_names.into_iter().map(path).collect();
        guard.executed = left.executed.into_iter().map(path).collect();
        guard.isolated = left.isolated;
        guard.readable = left.readable.into_iter().map(path).collect();
        guard.known = left.known.into_iter().map(|(known, id)| (path(known), id)).collect();
        guard.protection = Protection::defaults(left.opt_in.iter().map(String::as_str)).ok()?;
        guard.opt_in = left.opt_in;
        guard.hidden = left.hidden.into_iter().map(path).collect();
        guard.tops = left.tops.into_iter().map(|(top, git)| (path(top), path(git))).collect();
        guard.copies.directories = left.copied.into_iter().map(Copy::read).collect();
        guard.protected_dirs = left.protected.into_iter().map(Protected::read).collect();
        guard.before = Before {
            began: left.began.by_the_clock(),
            odd: left.odd.into_iter().map(|(odd, id)| (path(odd), id)).collect(),
            fixed: left.fixed.into_iter().map(path).collect(),
        };
        Some(guard)
    }
}

fn all(names: &[OsString]) -> Vec<Bytes> {
    names.iter().map(|name| bytes(Path::new(name))).collect()
}

fn ahead(written_down: Vec<(Bytes, Bytes, Vec<Bytes>)>) -> Vec<Ahead> {
    let name = |name| path(name).into_os_string();
    let read = |it: (Bytes, Bytes, Vec<Bytes>)| Ahead {
        written: path(it.0),
        directory: path(it.1),
        names: it.2.into_iter().map(name).collect(),
    };
    written_down.into_iter().map(read).collect()
}

fn walk_name(number: usize) -> String {
    format!("walk-{number}")
}

/// Returns a live session that was granted the directory in which a path lies.
pub fn session_with(places: &Places, within: &Path) -> Option<String> {
    live_sessions(places).into_iter().find(|session| {
        let id = SessionId::parse(session);
        let left = id.and_then(|id| read(&SessionState::private_of(places, &id)));
        let mut roots = left.into_iter().flat_map(|left| left.readable).map(path);
        roots.any(|root| within.starts_with(root))
    })
}

/// What another session may do in the directories that this one gets, or a dead one did that is not settled yet.
pub(super) struct Other {
    /// The directories that it can write to.
    roots: Vec<PathBuf>,
    /// The git directories that it has copies of: it writes none of these.
    copied: Vec<Anchor>,
    pub(super) began: Began,
    odd: HashSet<(PathBuf, FileId)>,
}

impl Other {
    /// Returns whether it can write to some of these directories.
    fn shares(&self, roots: &[PathBuf]) -> bool {
        let mut pairs = self.roots.iter().flat_map(|one| roots.iter().map(move |two| (one, two)));
        pairs.any(|(one, two)| one.starts_with(two) || two.starts_with(one))
    }

    fn can_write(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Returns whether it may have made a git directory, or may change it.
    pub(super) fn owns(&self, git: &Path) -> bool {
        let is_there = |copied: &&Anchor| copied.open().is_ok();
        let mut above = self.copied.iter().filter(|copied| git.starts_with(copied.path()));
        self.can_write(git) && above.find(is_there).is_none()
    }

    /// Returns whether something with an odd name was there before it began, or is out of its reach.
    pub(super) fn found(&self, odd: &(PathBuf, FileId)) -> bool {
        !self.can_write(&odd.0) || self.odd.contains(odd)
    }
}

/// Returns the sessions other than `own` that can write to some of these directories. A session writes its
/// record before it starts, so nothing can be seen of one that has none yet.
///
/// # Errors
/// Returns an error for the record of a session that cannot be read: it may share any directory.
pub(super) fn others(
    places: &Places,
    own: &str,
    roots: &[PathBuf],
) -> Result<Vec<Other>, GuardError> {
    let all = SessionState::all_private(places);
    let failed = |error| GuardError::refused(format!("cannot list sessions: {error}"), None);
    let mut found = Vec::new();
    let entries = match fs::read_dir(&all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries.at("read", &all).map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.at("read", &all).map_err(failed)?;
        // What is kept of an ended session lies here, too, and a sandbox wrote all that is in it.
        let is_session =
            entry.file_name().to_str().is_some_and(|it| SessionId::parse(it).is_some());
        if !is_session || entry.file_name() == own {
            continue;
        }
        let record = try_read(&entry.path()).map_err(|error| {
            let session = entry.file_name();
            let session = Escaped(Path::new(&session)).to_string();
            let what = format!("cannot read what session {session} may write: {error}");
            GuardError::refused(what, Some(format!("end it first: `pinfold stop {session}`")))
        })?;
        found.extend(record.map(Other::of).filter(|other| other.shares(roots)));
    }
    Ok(found)
}

impl Other {
    fn of(left: Left) -> Self {
        Self {
            roots: left.roots.into_iter().map(path).collect(),
            copied: left.copied.into_iter().map(|copy| copy.read().host).collect(),
            began: left.began.by_the_clock(),
            odd: left.odd.into_iter().map(|(odd, id)| (path(odd), id)).collect(),
        }
    }
}

/// Returns the record in a session's private directory.
fn read(private: &Path) -> Option<Left> {
    try_read(private).ok()?
}

/// Returns the same, with why it cannot be read. `None` if it can be read.
///
/// # Errors
/// Returns the error of reading it, or that it is damaged.
fn try_read(private: &Path) -> io::Result<Option<Left>> {
    try_read_named(private, LEFT)
}

fn try_read_named(directory: &Path, name: &str) -> io::Result<Option<Left>> {
    let directory = match open_directory(directory) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let record = read_bounded(directory, Path::new(name), LONGEST_RECORD)
        .map_err(|unread| io::Error::other(format!("{name} {unread}")))?;
    record.map(|record| Ok(serde_json::from_slice(&record.bytes)?)).transpose()
}

/// What a session wrote down of one of its copies, and by what its references are judged.
pub(crate) struct RecordedCopy {
    pub(crate) copied: Copied,
    /// All of the session's repositories that are still there.
    pub(crate) all: Vec<Copied>,
    /// Tops of the working trees that the session could write, each with its git directory.
    pub(crate) tops: Vec<(PathBuf, PathBuf)>,
    pub(crate) protection: Protection,
    /// What the session could write, each with where it lies: no program is taken from there.
    pub(crate) roots: Vec<(PathBuf, Site)>,
    /// Paths that tools run or trust because something names them.
    pub(crate) named: Vec<PathBuf>,
    /// Directories in which the user's shell looks for programs.
    pub(crate) ahead: Vec<Ahead>,
}

/// Returns what a record has of the copy with this number.
///
/// # Errors
/// Returns the error of reading it, or that it is damaged.
pub(crate) fn known(
    record: &Path,
    number: usize,
    places: &Places,
) -> Result<Option<RecordedCopy>, Refusal> {
    let name = record.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(left) = try_read_named(record.parent().unwrap_or(record), name)? else {
        return Ok(None);
    };
    let all: Vec<Copied> = left.copied.into_iter().map(Copy::read).collect();
    let Some(copied) = all.iter().find(|copied| copied.number == number).cloned() else {
        return Ok(None);
    };
    let own = Own::find(places)?;
    let mut homes = home_parts(&places.homes());
    homes.extend(left.parts.into_iter().map(|it| HomePart { path: path(it.0), name: path(it.1) }));
    let rooted = |root: PathBuf| {
        let site = site_of(&root, &homes, &own);
        (root, site)
    };
    let opt_in = left.opt_in.iter().map(String::as_str);
    let loaded = left.loaded.into_iter().map(|it| it.0);
    Ok(Some(RecordedCopy {
        copied,
        // A submodule may be gone by now.
        all: all.into_iter().filter(|copied| copied.host.open().is_ok()).collect(),
        tops: left.tops.into_iter().map(|(top, git)| (path(top), path(git))).collect(),
        protection: Protection::defaults(opt_in).map_err(Refusal::of)?,
        roots: left.roots.into_iter().map(path).map(rooted).collect(),
        named: left.executed.into_iter().chain(loaded).map(path).collect(),
        ahead: ahead(left.ahead),
    }))
}

/// Returns whether a dead session was granted what lies in one of these directories, or around it.
/// `private` is its directory; one without a readable record may have been.
pub fn shares(private: &Path, granted: &[PathBuf]) -> bool {
    let left = read(private);
    let is_shared = |root: &Path| {
        granted.iter().any(|granted| root.starts_with(granted) || granted.starts_with(root))
    };
    left.is_none_or(|left| left.readable.into_iter().map(path).any(|root| is_shared(&root)))
}

/// Settles what a dead session left. `private` is its directory.
pub fn settle_dead(
    session: &SessionId,
    private: &Path,
    settings: &Settings,
    host: Host<'_>,
    patience: &Patience,
) -> Settled {
    // Without a record it had not come far enough to start.
    let has_started = fs::symlink_metadata(private.join(LEFT)).is_ok();
    let (synced, fell) = Default::default();
    let mut settled = match Guard::of_dead(session, private, host) {
        Some(guard) => guard.settle(settings, host.places, synced, &fell, patience),
        None if has_started => unreadable(session, private),
        None => Settled::default(),
    };
    settled.secrets.extend(newcomers::of_dead(private, &settings.files, host.places));
    settled
}

/// Returns what is said of a dead session whose record cannot be read. Its git directories are kept.
fn unreadable(session: &SessionId, private: &Path) -> Settled {
    let kept = private.with_file_name(format!("kept-{session}"));
    let place = match fs::rename(private.join("git"), &kept) {
        Ok(()) => format!("its git directories are kept in {}", kept.display()),
        Err(error) => format!("its git directories cannot be kept: {error}"),
    };
    let why =
        format!("its record cannot be read; {place}; check its workspace before tools run there");
    let mut settled = Settled::default();
    settled.kept.push(Kept::new(format!("what session {session} left"), why));
    settled
}

#[cfg(test)]
mod tests;
