//! What a live session keeps on disk, and what a dead one left there.
//!
//! `<state>/sessions/<id>` belongs to one session. It is locked (flock(2)) as long as the session's
//! supervisor lives, whatever kills it, and it lists the placeholders: the empty files and
//! directories that were made in repositories so that a protected path exists to be covered. They
//! go with the last session that uses them, or at the next start after a crash. Private copies lie
//! in a directory of their own next to it, on the same disk: the sandbox can write there as much as
//! it can in the workspace, and a directory in memory is not its to fill.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_trees::remove_tree;
use rustix::fs::{CWD, FlockOperation};
use rustix::process::Pid;

use crate::directories::Places;
use crate::io::AtPath as _;
use crate::placeholder::{Located, Placeholder, Pool};
use crate::session_id::{SessionId, SessionName};

mod programs;

pub use programs::wait_for_programs;

/// A live session's record; dropping it cleans up.
#[derive(Debug)]
pub struct SessionState {
    sessions: PathBuf,
    id: SessionId,
    /// Locked until the end, which is what says that the session lives.
    record: File,
    private: PathBuf,
    placeholders: Vec<Located>,
    /// Empty directories for placeholders.
    pool: PathBuf,
    /// Whether the next start cleans up.
    is_left: bool,
    /// Held by the programs on the host that change repositories for the session, too.
    programs: Option<Arc<File>>,
}

/// What becomes of what a dead session left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDead {
    /// It is settled and can be removed.
    Settled,
    /// There was no time for it, and it waits for another start.
    Waits,
}

impl SessionState {
    /// Makes the record of a new session and its directory of private copies.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn create(places: &Places) -> io::Result<Self> {
        let sessions = places.state.join("sessions");
        Places::make_private(&sessions)?;
        let id = SessionId::generate()?;
        let private = Self::private_of(places, &id);
        private.parent().map_or(Ok(()), Places::make_private)?;
        let _common = lock(&sessions.join(COMMON), FlockOperation::LockExclusive)?;
        // Locked before it has its name: another start would take one that is not for a dead session's, lock it, and wait
        // for the common lock.
        let new = Self::all_private(places).join(NEW_RECORD);
        let record = lock(&new, FlockOperation::LockExclusive)?;
        fs::rename(&new, sessions.join(id.as_str())).at("rename", &new)?;
        let (placeholders, pool) = (Vec::new(), places.state.join("empty"));
        Pool::open(&pool).lend(CWD, &private).at("make", &private)?;
        let (is_left, programs) = (false, None);
        let state = Self { sessions, id, record, private, placeholders, pool, is_left, programs };
        state.note(SUPERVISOR, std::process::id().to_string())?;
        Ok(state)
    }

    /// Gives the session a name that no other live one has.
    ///
    /// # Errors
    /// Returns an error for a name that is taken, or the file system's error, with the path.
    pub fn set_name(&self, places: &Places, name: &SessionName) -> io::Result<()> {
        let _common = lock(&self.sessions.join(COMMON), FlockOperation::LockExclusive)?;
        if let Some((session, _)) =
            names(places).into_iter().find(|(_, other)| *other == name.as_str())
        {
            let what = format!("the session {session} is called {} already", name.as_str());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        self.note(NAME, name.as_str())
    }

    /// Keeps how the session's boundary is called, for [`boundary_of`].
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn set_boundary(&self, name: &str) -> io::Result<()> {
        self.note(BOUNDARY, name)
    }

    /// Keeps which directories the sandbox may write to, for [`writable`].
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn set_writable(&self, directories: &[&Path]) -> io::Result<()> {
        let paths: Vec<&[u8]> = directories.iter().map(|it| it.as_os_str().as_bytes()).collect();
        self.note(WRITABLE, paths.join(&0))
    }

    fn note(&self, file: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
        Places::write_private(&self.private.join(file), content.as_ref())
    }

    /// Returns where a session's private copies lie.
    pub fn private_of(places: &Places, id: &SessionId) -> PathBuf {
        Self::all_private(places).join(id.as_str())
    }

    /// Returns where the private copies of all sessions lie, those of dead ones included that are not
    /// settled.
    pub fn all_private(places: &Places) -> PathBuf {
        places.state.join("private")
    }

    /// Returns the session's name.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the session's directory of private copies. Only directories in it are shown inside: what
    /// the sandbox may change does not come back to the pool.
    pub fn private(&self) -> &Path {
        &self.private
    }

    /// Makes what is missing of these paths: a directory, or a file that holds `content`. A
    /// path that another live session made is shared with it. Each is recorded before it is
    /// made, so that a crash leaves nothing unknown.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn make_placeholders(&mut self, wanted: &[Placeholder]) -> io::Result<()> {
        let _common = lock(&self.sessions.join(COMMON), FlockOperation::LockExclusive)?;
        let others = self.other_placeholders(&[]);
        let is_ours = |place: &&Placeholder| {
            others.contains(&place.path) || fs::symlink_metadata(&place.path).is_err()
        };
        let ours: Vec<&Placeholder> = wanted.iter().filter(is_ours).collect();
        if ours.is_empty() {
            return Ok(());
        }
        let located: io::Result<Vec<Located>> = ours.iter().map(|place| place.locate()).collect();
        self.placeholders = located?;
        let list = Located::write_all(&self.placeholders);
        (&self.record).write_all(&list).at("write", self.sessions.join(self.id.as_str()))?;
        let mut pool = Pool::open(&self.pool);
        let mut each = ours.into_iter().zip(&self.placeholders);
        each.try_for_each(|(placeholder, located)| placeholder.make(located, &mut pool))
    }

    /// Placeholders of the other live sessions. What was settled seems to live while its lock is held.
    fn other_placeholders(&self, settled: &[(PathBuf, File)]) -> HashSet<PathBuf> {
        let is_settled = |record: &PathBuf| settled.iter().any(|(known, _)| known == record);
        let live = |record: &PathBuf| !is_settled(record) && is_alive(record);
        self.other_records()
            .filter(live)
            .flat_map(|record| read_list(&record))
            .map(|it| it.path())
            .collect()
    }

    fn other_records(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.id.0.clone();
        let entries = fs::read_dir(&self.sessions).into_iter().flatten().flatten();
        let other = move |name: &OsStr| name != COMMON && name != own.as_str();
        entries.filter(move |entry| other(&entry.file_name())).map(|entry| entry.path())
    }

    /// Ends the session as a kill would: the next start settles what it left.
    pub fn leave(mut self) {
        self.is_left = true;
    }

    /// Removes what dead sessions left, after `settle` has dealt with what is in the directory of
    /// each. `sweep` gets the boundary and the name of a dead session and removes what an engine kept.
    ///
    /// # Errors
    /// Returns the error of locking or `settle`; a thing that cannot be removed is left for the next
    /// start.
    pub fn clean_dead(
        &self,
        sweep: &dyn Fn(&str, &str),
        settle: &dyn Fn(&SessionId, &Path) -> io::Result<AfterDead>,
    ) -> io::Result<()> {
        if self.other_records().all(|record| is_alive(&record)) {
            return Ok(());
        }
        // Locked until they are removed: another start that found one unlocked would settle it once more.
        let mut settled: Vec<(PathBuf, File)> = Vec::new();
        // An engine takes its time, and nobody is to wait for that.
        for record in self.other_records().filter(|record| !is_alive(record)) {
            let session = record.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let private = self.private.with_file_name(session);
            if let Ok(boundary) = fs::read_to_string(private.join(BOUNDARY)) {
                sweep(&boundary, session);
            }
            // A process that meets the lock has to find it.
            let _ = fs::write(private.join(SETTLING), "");
            // Locked, so that another start leaves it alone; to that one it seems to live.
            let Ok(opened) = File::open(&record) else { continue };
            let lock = FlockOperation::NonBlockingLockExclusive;
            if rustix::fs::flock(&opened, lock).is_err() || !is_same(&opened, &record) {
                continue;
            }
            let id = SessionId::parse(session);
            let after = id.map_or(Ok(AfterDead::Settled), |id| settle(&id, &private))?;
            if after != AfterDead::Waits {
                settled.push((record, opened));
            }
        }
        let _common = lock(&self.sessions.join(COMMON), FlockOperation::LockExclusive)?;
        let mut kept = self.other_placeholders(&settled);
        kept.extend(self.placeholders.iter().map(Located::path));
        let mut pool = Pool::open(&self.pool);
        for (record, _lock) in &settled {
            remove_placeholders(&read_list(record), &kept, &mut pool);
            if let (Some(name), Some(private)) = (record.file_name(), self.private.parent()) {
                let private = private.join(name);
                empty(&private);
                remove_private(&private);
            }
            let _ = fs::remove_file(record);
        }
        Ok(())
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        empty(&self.private);
        // Without the common lock another session may be about to share a placeholder: then
        // the record stays, unlocked, and the next start cleans up.
        let Ok(_common) = lock(&self.sessions.join(COMMON), FlockOperation::LockExclusive) else {
            return;
        };
        let mut pool = Pool::open(&self.pool);
        pool.take_back(CWD, &self.private);
        if !self.placeholders.is_empty() {
            remove_placeholders(&self.placeholders, &self.other_placeholders(&[]), &mut pool);
        }
        let _ = fs::remove_file(self.sessions.join(self.id.as_str()));
    }
}

/// The lock that all sessions of a user share.
const COMMON: &str = "lock";
/// A record that has no name yet, next to the directories of private copies. Who has the common lock makes it.
const NEW_RECORD: &str = "new-session";
/// What a session is called, in its private directory.
const BOUNDARY: &str = "boundary";
const NAME: &str = "name";
const WRITABLE: &str = "writable";
/// The process that holds the record locked.
const SUPERVISOR: &str = "supervisor";
/// Says that the session is dead and a start settles what it left.
const SETTLING: &str = "settling";
/// The record of what a session has to settle at its end, in its private directory. It refers to walks next to it.
pub const LEFT: &str = "left.json";

fn remove_placeholders(placeholders: &[Located], kept: &HashSet<PathBuf>, pool: &mut Pool) {
    // Inner ones first.
    for located in placeholders.iter().rev().filter(|it| !kept.contains(&it.path())) {
        located.remove(pool);
    }
}

/// Removes what lies in a settled session's private directory: first [`LEFT`], since a process that is killed in
/// between must not leave it without the files that it refers to.
fn empty(private: &Path) {
    let _ = fs::remove_file(private.join(LEFT));
    for copies in fs::read_dir(private).into_iter().flatten().flatten() {
        remove_private(&copies.path());
    }
}

/// Removes private copies, also where the sandbox took away the permissions to do so.
pub fn remove_private(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if !is_directory {
        // The socket by which a session is changed.
        let _ = fs::remove_file(path);
        return;
    }
    // A directory that its owner may not enter, or more levels than descriptors may be open.
    if fs::remove_dir_all(path).is_err() {
        // What is left takes room, and the next start tries again.
        let _ = remove_tree(path);
    }
}

/// Returns the names of the sessions that run.
pub fn live_sessions(places: &Places) -> HashSet<String> {
    let entries = fs::read_dir(places.state.join("sessions")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name != COMMON && is_live(places, name)).collect()
}

/// Returns the paths of the placeholders that live sessions use.
pub fn live_placeholders(places: &Places) -> HashSet<PathBuf> {
    let live = live_sessions(places).into_iter();
    let records = live.map(|session| places.state.join("sessions").join(session));
    records.flat_map(|record| read_list(&record)).map(|located| located.path()).collect()
}

/// Returns how the boundary of a session is called that lives.
#[must_use]
pub fn boundary_of(places: &Places, id: &SessionId) -> Option<String> {
    fs::read_to_string(SessionState::private_of(places, id).join(BOUNDARY)).ok()
}

/// Returns the supervisor of a session that lives.
#[must_use]
pub fn supervisor_of(places: &Places, session: &str) -> Option<Pid> {
    let note = SessionState::all_private(places).join(session).join(SUPERVISOR);
    let noted = fs::read_to_string(note).ok().filter(|_| is_live(places, session))?;
    noted.parse().ok().and_then(Pid::from_raw)
}

/// Returns the live sessions that a user gave a name, with it.
#[must_use]
pub fn names(places: &Places) -> Vec<(String, String)> {
    let named = |session: String| {
        let private = SessionState::private_of(places, &SessionId(session.clone()));
        Some((session, fs::read_to_string(private.join(NAME)).ok()?))
    };
    live_sessions(places).into_iter().filter_map(named).collect()
}

/// Returns the directories that sandboxes may write to, of live sessions and of dead ones that are not settled.
#[must_use]
pub fn writable(places: &Places) -> Vec<PathBuf> {
    let entries = fs::read_dir(SessionState::all_private(places)).into_iter().flatten().flatten();
    let notes = entries.filter_map(|entry| fs::read(entry.path().join(WRITABLE)).ok());
    let paths = |note: Vec<u8>| {
        let paths = note.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect::<Vec<_>>()
    };
    notes.flat_map(paths).collect()
}

/// Returns whether a session of this name runs.
pub fn is_live(places: &Places, session: &str) -> bool {
    is_alive(&places.state.join("sessions").join(session))
}

/// Returns whether another start settles now what a dead session left.
pub fn is_being_settled(places: &Places, id: &SessionId) -> bool {
    SessionState::private_of(places, id).join(SETTLING).exists() && is_live(places, id.as_str())
}

/// Calls a function if no session runs, and lets none begin until it returns.
///
/// # Errors
/// Returns the error of the lock or of the function.
pub fn while_none_runs<T>(
    places: &Places,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<Option<T>> {
    let sessions = places.state.join("sessions");
    Places::make_private(&sessions)?;
    let _common = lock(&sessions.join(COMMON), FlockOperation::LockExclusive)?;
    if live_sessions(places).is_empty() { act().map(Some) } else { Ok(None) }
}

/// Waits until a session has cleaned up.
///
/// # Errors
/// Returns the error of `flock(2)`.
pub fn wait_for_end(places: &Places, session: &str) -> io::Result<()> {
    let Ok(record) = File::open(places.state.join("sessions").join(session)) else {
        return Ok(());
    };
    rustix::io::retry_on_intr(|| rustix::fs::flock(&record, FlockOperation::LockShared))?;
    Ok(())
}

/// Returns whether a session's supervisor holds its record. Returns true if that cannot be found out,
/// because what is done to a dead session cannot be undone.
fn is_alive(record: &Path) -> bool {
    match File::open(record) {
        Ok(file) => rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns whether a record is still the one that was opened: another start may have removed it since.
fn is_same(opened: &File, record: &Path) -> bool {
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let there = fs::metadata(record).map(id);
    there.is_ok() && there.ok() == opened.metadata().map(id).ok()
}

/// Opens a file, which is made if it is not there, and locks it (flock(2)).
///
/// # Errors
/// Returns the file system's error, with the path.
pub fn lock(path: &Path, operation: FlockOperation) -> io::Result<File> {
    let open = || -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation))?;
        Ok(file)
    };
    open().at("lock", path)
}

/// Does the same for an exclusive lock. Calls `say` once another process has kept it waiting for a second.
///
/// # Errors
/// Returns the errors of [`lock`].
pub fn lock_saying(path: &Path, say: impl FnOnce()) -> io::Result<File> {
    const PATIENCE: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_millis(20);
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match lock(path, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            locked => return locked,
        }
        std::thread::sleep(PAUSE);
    }
    say();
    lock(path, FlockOperation::LockExclusive)
}

fn read_list(path: &Path) -> Vec<Located> {
    Located::read_all(&fs::read(path).unwrap_or_default())
}

#[cfg(test)]
mod tests;
