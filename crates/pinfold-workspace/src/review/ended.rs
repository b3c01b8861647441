//! A session with changes, as a user decides on it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pinfold_host::Host;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::boot::boot;
use pinfold_host::directories::Places;
use pinfold_host::launcher::{Launcher, lend};
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions;
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;
use pinfold_trees::tree::Tree;
use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;

use super::apply::{Applied, Selection};
use super::changes::{Change, Changes};
use super::error::ReviewError;
use super::journal::Journal;
use super::layer::{LAYERS, LOCK, RECORD, UPPER, remove, reviews};
use super::record::{AnyPath, Form, Record, VERSION};
use super::seen::write_whole;

const APPLIED: &str = "applied";
const JOURNAL: &str = "journal";
const COLLECTED: &str = "collected";
/// Written by the supervisor once nothing of the session runs any more.
const ENDED: &str = "ended";

/// How long programs are waited for that an interrupted `apply` has started.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to take the lock.
const STEP: Duration = Duration::from_millis(20);

/// A session whose changes nobody has decided on.
#[derive(Debug)]
pub struct Review {
    pub(crate) directory: PathBuf,
    pub(crate) session: String,
    pub(crate) record: Record,
    pub(super) is_live: bool,
    pub(super) launcher: Launcher,
    /// What came of an interrupted `apply` that was finished now.
    resumed: Option<Applied>,
    /// Held as long as this value, and by programs that it starts on repositories.
    _lock: Arc<File>,
}

/// What is known of a session with changes without looking at them.
#[derive(Debug, Clone)]
pub struct Summary {
    pub session: String,
    /// The directory that it worked on.
    pub workspace: PathBuf,
    /// The agent or program.
    pub subject: String,
    /// What was run, for people.
    pub command: String,
    /// When it started.
    pub started: SystemTime,
    /// Whether it still runs.
    pub is_live: bool,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// More than is shown.
    TooLarge,
}

impl Review {
    /// Returns the sessions with changes, the newest first. What an interrupted start or `discard` left is
    /// removed.
    ///
    /// # Errors
    /// Returns the error of reading the state directory.
    pub fn sessions(places: &Places) -> Result<Vec<Summary>, ReviewError> {
        let reviews = reviews(places);
        let entries = match fs::read_dir(&reviews) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ReviewError::system(reviews.display())(error)),
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let Ok(session) = entry.file_name().into_string() else { continue };
            match fs::metadata(entry.path().join("start")).and_then(|start| start.modified()) {
                Ok(started) if entry.path().join(RECORD).exists() => {
                    let record = match read_record(&entry.path(), &session) {
                        Ok(record) => record,
                        Err(error) => {
                            // One that nobody can read hides no other.
                            notify!("pinfold: note: {error}");
                            continue;
                        }
                    };
                    let is_live = sessions::is_live(places, &session);
                    let Record { workspace, subject, command, .. } = record;
                    found.push(Summary { session, workspace, subject, command, started, is_live });
                }
                _ if sessions::is_live(places, &session) => {}
                _ => remove(&entry.path()),
            }
        }
        found.sort_by_key(|summary| std::cmp::Reverse(summary.started));
        Ok(found)
    }

    /// Opens the changes of a session, and goes on with what an interrupted `apply` began.
    ///
    /// # Errors
    /// Returns an error for a session that is not there, or in use.
    pub fn open(host: Host<'_>, session: &str) -> Result<Self, ReviewError> {
        Self::open_as(host, session, sessions::is_live(host.places, session))
    }

    /// Opens the changes of a session of this process. Everything in it has ended, but it counts as
    /// live until its changes are dealt with.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub(super) fn open_own(host: Host<'_>, session: &SessionId) -> Result<Self, ReviewError> {
        let review = Self::open_as(host, session.as_str(), false)?;
        let marker = review.file(ENDED);
        write_whole(&marker, b"").map_err(ReviewError::system(marker.display()))?;
        Ok(review)
    }

    /// Returns whether nothing can write to the layer any more. Programs of a session whose supervisor was killed live on for a
    /// moment after its lock is free.
    pub(super) fn is_at_rest(&self) -> bool {
        self.file(ENDED).exists()
    }

    fn open_as(host: Host<'_>, session: &str, is_live: bool) -> Result<Self, ReviewError> {
        let Host { places, launcher } = host;
        let directory = reviews(places).join(session);
        let record = read_record(&directory, session)?;
        let lock =
            File::open(directory.join(LOCK)).map_err(ReviewError::system(directory.display()))?;
        let is_interrupted = directory.join(JOURNAL).exists();
        take(&lock, if is_interrupted { PATIENCE } else { Duration::ZERO })
            .map_err(|_| ReviewError::Busy(session.to_owned()))?;
        let lock = Arc::new(lock);
        lend(&lock);
        let session = session.to_owned();
        let launcher = launcher.clone();
        let mut review =
            Self { directory, session, record, is_live, launcher, resumed: None, _lock: lock };
        if review.journal().exists() {
            match review.go_on() {
                Ok(applied) => review.resumed = Some(applied),
                // Then nothing can be compared with it either, and it can be dropped.
                Err(ReviewError::Workspace { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(review)
    }

    /// Finishes every interrupted `apply` of this user, and says what came of each.
    pub fn go_on_with_all(host: Host<'_>) {
        let entries = fs::read_dir(reviews(host.places)).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.path().join(JOURNAL).exists()) {
            // What cannot be finished now is reported when somebody asks for that session.
            let opened = entry.file_name().to_str().map(|session| Self::open(host, session));
            if let Some(Ok(review)) = opened {
                review.report_resumed();
            }
        }
    }

    /// Records in the audit log what is about to become of the changes.
    ///
    /// # Errors
    /// Returns the error of writing the record.
    pub fn record(
        &self,
        places: &Places,
        what: &str,
        changes: &Changes,
        selection: &Selection,
    ) -> io::Result<()> {
        let audit = Audit::open(&places.state, SessionId::parse(&self.session))?;
        audit.record(&Event::Review {
            what,
            workspace: self.workspace().display().to_string(),
            changes: changes.of(&selection.paths).count(),
            protected: selection.protected,
            overwrite: selection.overwrite,
        })
    }

    /// Says what came of an interrupted `apply`, if opening this finished one.
    pub fn report_resumed(&self) {
        if let Some(applied) = &self.resumed {
            notify!(
                "pinfold: finished an `apply` of session {} that was interrupted",
                self.session
            );
            applied.report();
        }
    }

    /// Returns the session's name.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns whether it still runs.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the directory that it worked on.
    pub fn workspace(&self) -> &Path {
        &self.record.workspace
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.file(JOURNAL)
    }

    pub(crate) fn upper(&self) -> Result<Tree, ReviewError> {
        let upper = self.file(LAYERS).join(UPPER);
        Tree::open(&upper).map_err(|errno| ReviewError::system(upper.display())(errno.into()))
    }

    /// Returns the workspace, if it still is the same directory.
    pub(crate) fn lower(&self) -> Result<Tree, ReviewError> {
        let refuse = |why: String| ReviewError::Workspace {
            session: self.session.clone(),
            workspace: Escaped(&self.record.workspace).to_string(),
            why,
        };
        let tree = Tree::open(&self.record.workspace).map_err(|errno| refuse(errno.to_string()))?;
        let node = tree.node_of_root().map_err(|errno| refuse(errno.to_string()))?;
        // What the kernel calls a device is for one run of it.
        let is_same_run = boot().is_ok_and(|boot| boot == self.record.boot);
        let (device, number) = self.record.inode;
        if node.inode.1 != number || is_same_run && node.inode.0 != device {
            return Err(refuse("another one has been put in its place".to_owned()));
        }
        Ok(tree)
    }

    pub(crate) fn applied(&self) -> io::Result<BTreeSet<PathBuf>> {
        match fs::read(self.file(APPLIED)) {
            Ok(bytes) => Ok(serde_json::from_slice::<Vec<AnyPath>>(&bytes)?
                .into_iter()
                .map(|path| path.0)
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
            Err(error) => Err(error),
        }
    }

    /// Adds to what was taken over.
    pub(crate) fn mark_applied(&self, paths: impl Iterator<Item = PathBuf>) -> io::Result<()> {
        let mut all = self.applied()?;
        all.extend(paths);
        let all: Vec<_> = all.into_iter().map(AnyPath).collect();
        write_whole(&self.file(APPLIED), &serde_json::to_vec(&all)?)
    }

    /// Returns whether commits were taken over already.
    pub(crate) fn is_collected(&self) -> bool {
        self.file(COLLECTED).exists()
    }

    pub(crate) fn mark_collected(&self) -> io::Result<()> {
        write_whole(&self.file(COLLECTED), b"")
    }

    /// Returns what lay at a change's path before, or lies there after it; a link's content is where it
    /// leads. `None` where there is nothing.
    ///
    /// # Errors
    /// Returns the error of reading.
    pub fn content(&self, change: &Change, after: bool) -> Result<Option<Content>, ReviewError> {
        /// More is not compared line by line.
        const LARGEST: u64 = 32 << 20;
        let node = if after { &change.after } else { &change.before };
        let Some(node) = node else { return Ok(None) };
        let tree = if after { self.upper()? } else { self.lower()? };
        let path = match &change.renamed_from {
            Some(from) if !after => from,
            _ => &change.path,
        };
        let read = || -> io::Result<Option<Content>> {
            match node.kind {
                FileType::Symlink => {
                    let target = tree.link(path)?.into_os_string();
                    let bytes = target.into_vec();
                    Ok(Some(Content::Bytes(bytes)))
                }
                FileType::RegularFile if node.size > LARGEST => Ok(Some(Content::TooLarge)),
                FileType::RegularFile => {
                    let mut bytes = Vec::new();
                    let mut file = tree.file(path)?.take(LARGEST);
                    file.read_to_end(&mut bytes)?;
                    Ok(Some(Content::Bytes(bytes)))
                }
                _ => Ok(None),
            }
        };
        read().map_err(ReviewError::system(format!("cannot read {}", Escaped(path))))
    }

    /// Drops the changes for good.
    ///
    /// # Errors
    /// Returns an error for a session that runs.
    pub fn discard(self) -> Result<(), ReviewError> {
        if self.is_live {
            return Err(ReviewError::Live(self.session));
        }
        remove(&self.directory);
        Ok(())
    }

    /// Reads the journal of an interrupted `apply`.
    pub(crate) fn read_journal(&self) -> Result<Option<Journal>, ReviewError> {
        Journal::read(&self.journal()).map_err(ReviewError::system(self.journal().display()))
    }
}

/// Locks a session's changes (flock(2)). Programs of an `apply` that was killed hold the lock until they
/// have ended, so it is waited for.
///
/// # Errors
/// Returns the error of `flock(2)`.
fn take(lock: &File, patience: Duration) -> Result<(), Errno> {
    let latest = Instant::now() + patience;
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < latest => std::thread::sleep(STEP),
            locked => return locked,
        }
    }
}

fn read_record(directory: &Path, session: &str) -> Result<Record, ReviewError> {
    let bytes = match fs::read(directory.join(RECORD)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ReviewError::Missing(session.escape_debug().to_string()));
        }
        Err(error) => return Err(ReviewError::system(directory.display())(error)),
    };
    let failed = |error: serde_json::Error| ReviewError::system(directory.display())(error.into());
    let Form { version } = serde_json::from_slice(&bytes).map_err(failed)?;
    if version != VERSION {
        return Err(ReviewError::Version { session: session.to_owned(), version });
    }
    serde_json::from_slice(&bytes).map_err(failed)
}
