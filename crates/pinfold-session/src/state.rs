//! What a live session keeps on disk, and what a dead one left there.
//!
//! `<state>/sessions/<id>/` belongs to one session: `lock` is held (flock(2)) as long as its
//! supervisor lives, whatever kills it. `placeholders` lists the empty files and directories
//! that were made in repositories so that a protected path exists to be covered; they go with
//! the last session that uses them, or at the next start after a crash.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::places::Places;

/// A session's name: twelve hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// A new one.
    ///
    /// # Errors
    /// What getrandom(2) says.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0_u8; 6];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A live session's directory; dropping it cleans up.
#[derive(Debug)]
pub(crate) struct SessionState {
    sessions: PathBuf,
    directory: PathBuf,
    id: SessionId,
    placeholders: Vec<PathBuf>,
    // Held until the end: its lock is what says that the session lives.
    _lock: File,
}

impl SessionState {
    /// Makes the directory of a new session.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub(crate) fn create(places: &Places) -> io::Result<Self> {
        let sessions = places.state.join("sessions");
        Places::make_private(&sessions)?;
        let id = SessionId::generate()?;
        let directory = sessions.join(id.as_str());
        // Under the common lock, so that no cleaner sees a directory whose lock is not yet held.
        let _common = lock(&sessions.join("lock"), FlockOperation::LockExclusive)?;
        Places::make_private(&directory)?;
        let own = lock(&directory.join("lock"), FlockOperation::LockExclusive)?;
        Ok(Self { sessions, directory, id, placeholders: Vec::new(), _lock: own })
    }

    /// The session's name.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session's own directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes what is missing of these paths: a directory, or a file that holds `content`. A
    /// path that another live session made is shared with it. Each is recorded before it is
    /// made, so that a crash leaves nothing unknown.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub(crate) fn make_placeholders(&mut self, wanted: &[Placeholder]) -> io::Result<()> {
        let _common = lock(&self.sessions.join("lock"), FlockOperation::LockExclusive)?;
        let others = self.other_placeholders();
        let is_ours = |place: &&Placeholder| {
            others.contains(&place.path) || fs::symlink_metadata(&place.path).is_err()
        };
        let ours: Vec<&Placeholder> = wanted.iter().filter(is_ours).collect();
        if ours.is_empty() {
            return Ok(());
        }
        self.placeholders = ours.iter().map(|place| place.path.clone()).collect();
        write_list(&self.directory.join("placeholders"), &self.placeholders)?;
        ours.into_iter().try_for_each(Placeholder::make)
    }

    /// Placeholders of the other live sessions.
    fn other_placeholders(&self) -> HashSet<PathBuf> {
        let mut found = HashSet::new();
        for directory in session_directories(&self.sessions) {
            if directory != self.directory && is_alive(&directory) {
                found.extend(read_list(&directory.join("placeholders")));
            }
        }
        found
    }

    /// Removes what dead sessions left.
    ///
    /// # Errors
    /// What locking says; a thing that cannot be removed is left for the next start.
    pub(crate) fn clean_dead(&self) -> io::Result<()> {
        let dead = |directory: &PathBuf| *directory != self.directory && !is_alive(directory);
        if !session_directories(&self.sessions).iter().any(dead) {
            return Ok(());
        }
        let _common = lock(&self.sessions.join("lock"), FlockOperation::LockExclusive)?;
        let mut kept = self.other_placeholders();
        kept.extend(self.placeholders.iter().cloned());
        for directory in session_directories(&self.sessions).into_iter().filter(dead) {
            remove_placeholders(&read_list(&directory.join("placeholders")), &kept);
            let _ = fs::remove_dir_all(&directory);
        }
        Ok(())
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        // Without the common lock another session may be about to share a placeholder: then
        // everything stays for the next start.
        let Ok(_common) = lock(&self.sessions.join("lock"), FlockOperation::LockExclusive) else {
            return;
        };
        if !self.placeholders.is_empty() {
            remove_placeholders(&self.placeholders, &self.other_placeholders());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Something that is made so that a protected path exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// Where, on the host.
    pub(crate) path: PathBuf,
    /// What: a file with this content, or an empty directory, which git does not list.
    pub(crate) content: Option<&'static [u8]>,
}

impl Placeholder {
    fn make(&self) -> io::Result<()> {
        let made = match self.content {
            None => fs::create_dir(&self.path),
            Some(content) => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&self.path)
                .and_then(|mut file| file.write_all(content)),
        };
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io::Error::new(
                error.kind(),
                format!("cannot make {} to protect it: {error}", self.path.display()),
            )),
            _ => Ok(()),
        }
    }
}

/// What a placeholder file may hold: anything else was not made here.
pub(crate) const COMMONDIR: &[u8] = b".\n";

/// Removes placeholders that nobody else uses, if they still are what was made.
fn remove_placeholders(placeholders: &[PathBuf], kept: &HashSet<PathBuf>) {
    // Inner ones first.
    for path in placeholders.iter().rev().filter(|path| !kept.contains(*path)) {
        let Ok(metadata) = fs::symlink_metadata(path) else { continue };
        if metadata.is_dir() {
            // Fails when something was put in it, which is then not ours to remove.
            let _ = fs::remove_dir(path);
        } else if metadata.is_file() && metadata.len() <= COMMONDIR.len() as u64 {
            let content = fs::read(path).unwrap_or_default();
            if content.is_empty() || content == COMMONDIR {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn session_directories(sessions: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(sessions).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|e| e.path())
        .collect()
}

/// Whether a session's supervisor holds its lock.
fn is_alive(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join("lock")) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

fn lock(path: &Path, operation: FlockOperation) -> io::Result<File> {
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
    open().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot lock {}: {error}", path.display()))
    })
}

/// Paths hold any byte but NUL, so NUL ends each.
fn write_list(path: &Path, list: &[PathBuf]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for item in list {
        bytes.extend_from_slice(item.as_os_str().as_bytes());
        bytes.push(0);
    }
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    };
    fs::write(path, bytes).map_err(named)
}

fn read_list(path: &Path) -> Vec<PathBuf> {
    let bytes = fs::read(path).unwrap_or_default();
    let items = bytes.split(|byte| *byte == 0).filter(|item| !item.is_empty());
    items.map(|item| PathBuf::from(OsStr::from_bytes(item))).collect()
}

#[cfg(test)]
mod tests;
