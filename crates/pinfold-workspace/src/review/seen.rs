//! The state of the workspace, as far as a session changed it, at the first look after its end.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_trees::tree::Node;
use rustix::fs::FileType;

use super::changes::{Change, Conflict};

/// What lay at each path that a session changed.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<PathBuf, State>);

/// What lay at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// What somebody else did with it while the session ran.
    during: Option<Conflict>,
    signature: String,
    /// What the session left in its layer.
    left: String,
}

/// Returns a file by kind, mode, inode, size and times; of a directory, what does not follow from what is in it.
pub(crate) fn signature(node: Option<&Node>) -> String {
    let Some(node) = node else { return "-".to_owned() };
    let mut text = format!("{:?} {:o} {}", node.kind, node.mode, node.inode.1);
    if node.kind != FileType::Directory {
        let (modified, changed) = (node.modified, node.changed);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            " {} {}.{} {}.{}",
            node.size, modified.0, modified.1, changed.0, changed.1
        );
    }
    text
}

/// Returns what a session left at a path, by what an `apply` that failed does not change.
pub(super) fn left(node: Option<&Node>) -> String {
    let Some(node) = node.filter(|node| !node.is_whiteout()) else { return "-".to_owned() };
    if node.is_directory() {
        return "directory".to_owned();
    }
    let (seconds, nanoseconds) = node.modified;
    format!("{:?} {} {seconds}.{nanoseconds}", node.kind, node.size)
}

impl Seen {
    /// Looks at what a session changed for the first time. `started` is when it did; `names` tells
    /// what was there then.
    pub(crate) fn first(
        changes: &[Change],
        started: (i64, u64),
        names: Option<&HashSet<Vec<u8>>>,
    ) -> Self {
        let state = |change: &Change| {
            let was_there = || {
                let path = change.path.as_os_str().as_bytes();
                names.is_some_and(|names| names.contains(path))
            };
            let during = match &change.before {
                // Times of a directory follow from what is in it, which has its own.
                Some(before) if before.is_directory() => None,
                Some(before) if before.changed >= started => {
                    Some(if was_there() { Conflict::Changed } else { Conflict::Made })
                }
                Some(_) => None,
                None => was_there().then_some(Conflict::Removed),
            };
            let (before, after) = (change.before.as_ref(), change.after.as_ref());
            State { during, signature: signature(before), left: left(after) }
        };
        Self(changes.iter().map(|change| (change.path.clone(), state(change))).collect())
    }

    /// Sorts out what is no change of the session's, and finds what the host changed since.
    pub(crate) fn judge(&self, changes: Vec<Change>) -> Vec<Change> {
        let judged = |mut change: Change| {
            match self.0.get(&change.path) {
                Some(state) => {
                    let is_same = state.signature == signature(change.before.as_ref());
                    let since = match (is_same, &change.before) {
                        (true, _) => None,
                        (false, None) => Some(Conflict::Removed),
                        (false, Some(_)) if state.signature == "-" => Some(Conflict::Made),
                        (false, Some(_)) => Some(Conflict::Changed),
                    };
                    change.conflict = since.or(state.during);
                }
                // A directory in which the session changed something is no directory any more.
                None if change.becomes_directory() && !change.was_directory() => {
                    let was_removed = change.before.is_none();
                    let how = if was_removed { Conflict::Removed } else { Conflict::Changed };
                    change.conflict = Some(how);
                }
                // The layer holds what the workspace held then: somebody else has changed that.
                None if change.after.is_some() => return None,
                // It appeared in a directory that the session had deleted.
                None => change.conflict = Some(Conflict::Made),
            }
            Some(change)
        };
        changes.into_iter().filter_map(judged).collect()
    }

    /// Returns what the session changed, and what it left of each.
    pub(super) fn all_left(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.0.iter().map(|(path, state)| (path.as_path(), state.left.as_str()))
    }

    /// Reads what was written; `None` when there was no look yet.
    ///
    /// # Errors
    /// Returns the error of reading; `InvalidData` for what no look wrote.
    pub(crate) fn read(file: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut seen = HashMap::new();
        let mut words = bytes.split(|byte| *byte == 0);
        while let Some(path) = words.next().filter(|path| !path.is_empty()) {
            let state = words
                .next()
                .zip(words.next())
                .and_then(|(state, left)| State::parse(state, left))
                .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            seen.insert(PathBuf::from(OsString::from_vec(path.to_vec())), state);
        }
        Ok(Some(Self(seen)))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (path, state) in &self.0 {
            bytes.extend_from_slice(path.as_os_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(state.text().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(state.left.as_bytes());
            bytes.push(0);
        }
        write_whole(file, &bytes)
    }
}

impl State {
    fn text(&self) -> String {
        let during = match self.during {
            None => '=',
            Some(Conflict::Changed) => 'c',
            Some(Conflict::Removed) => 'r',
            Some(Conflict::Made) => 'm',
        };
        format!("{during}{}", self.signature)
    }

    fn parse(bytes: &[u8], left: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let left = std::str::from_utf8(left).ok()?.to_owned();
        let during = match text.as_bytes().first()? {
            b'=' => None,
            b'c' => Some(Conflict::Changed),
            b'r' => Some(Conflict::Removed),
            b'm' => Some(Conflict::Made),
            _ => return None,
        };
        Some(Self { during, signature: text[1..].to_owned(), left })
    }
}

/// Replaces a file by one with this content, on disk when this returns.
///
/// # Errors
/// Returns the file system's error.
pub(crate) fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut written = options.open(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    let above = file.parent().unwrap_or(file);
    File::open(above)?.sync_all()
}
