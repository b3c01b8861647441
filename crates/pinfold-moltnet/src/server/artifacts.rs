//! Artifacts of attempts: files by their content addresses.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use pinfold_host::directories::Places;
use pinfold_tasks::{
    ARTIFACT_NOTES, ArtifactLabel, ArtifactOrigin, MOST_ARTIFACTS, Note, Store, TaskId,
    Transaction, artifact_cursor, artifact_page, artifact_value, attempt_key, find_artifact,
};

use super::attempts::AttemptId;
use super::caller::Caller;
use super::document::load;
use super::query::Query;
use super::service::Service;
use crate::problem::Problem;
use pinfold_content::{Cid, Uuid, Value, read};

/// How many artifacts a page has, and may have.
const PAGE: u32 = 20;
const LONGEST_PAGE: u32 = 100;

/// How the name of a file ends that is being written.
const UNFINISHED: &str = ".new";

/// The content of a file, and what is known of it.
pub(super) struct Content {
    pub(super) about: Value,
    pub(super) bytes: Vec<u8>,
}

/// Returns an artifact that an attempt has already.
///
/// # Errors
/// Returns a conflict if it may have no other one.
fn kept(
    transaction: &mut impl Transaction,
    id: AttemptId,
    cid: &Cid,
) -> Result<Option<Value>, Problem> {
    let beginning = format!("{}/", attempt_key(id.task, id.number));
    if let Some(text) = transaction.note(ARTIFACT_NOTES, &format!("{beginning}{cid}"))? {
        return read(&text).map(Some).map_err(|_| Problem::internal());
    }
    if transaction.notes(ARTIFACT_NOTES, &beginning, "", MOST_ARTIFACTS)?.len()
        >= MOST_ARTIFACTS as usize
    {
        return Err(Problem::conflict(format!("Attempt has {MOST_ARTIFACTS} artifacts already")));
    }
    Ok(None)
}

impl<S: Store> Service<S> {
    /// Keeps an artifact of a running attempt.
    pub(super) fn put_artifact(
        &self,
        caller: &Caller,
        id: AttemptId,
        query: &Query,
        bytes: &[u8],
    ) -> Result<Value, Problem> {
        let word = |name: &str, most: usize| -> Result<Option<String>, Problem> {
            query.parsed(name, |text| {
                let fits = text.chars().count() <= most && !text.chars().any(char::is_control);
                (fits && !text.is_empty()).then(|| text.to_owned())
            })
        };
        let required = |name: &str, most| {
            let missing = || Problem::field(&format!("query/{name}"), "is required");
            word(name, most)?.ok_or_else(missing)
        };
        let label = ArtifactLabel {
            kind: required("kind", 64)?,
            title: required("title", 255)?,
            content_type: word("contentType", 255)?.unwrap_or("application/octet-stream".into()),
            content_encoding: word("contentEncoding", 64)?,
        };
        let cid = Cid::of_bytes(bytes);
        let new = Uuid::generate().map_err(|_| Problem::internal())?;
        // The file first: a note without one would be a promise. What would be refused is not written.
        self.store.read(|transaction| {
            Self::active(transaction, caller, id, "add artifacts to")?;
            kept(transaction, id, &cid).map(drop)
        })?;
        self.write_file(id.task, cid.as_str(), bytes).map_err(|_| Problem::internal())?;
        self.store.write(|transaction| {
            Self::active(transaction, caller, id, "add artifacts to")?;
            if let Some(artifact) = kept(transaction, id, &cid)? {
                return Ok(artifact);
            }
            let origin = ArtifactOrigin {
                task: id.task,
                attempt: id.number,
                team: Some(&caller.agent.team),
                creator: &caller.agent.id,
                at: transaction.now(),
            };
            let artifact = artifact_value(new, &label, &cid, bytes.len(), &origin);
            let key = format!("{}/{cid}", attempt_key(id.task, id.number));
            let note = Note { key, content: artifact.to_string() };
            transaction.set_note(ARTIFACT_NOTES, &note, Some(id.task))?;
            Ok(artifact)
        })
    }

    /// Lists the artifacts of a task, in the order of its attempts.
    pub(super) fn artifacts(
        &self,
        caller: &Caller,
        task: TaskId,
        query: &Query,
    ) -> Result<Value, Problem> {
        let limit = query.number("limit", 1, LONGEST_PAGE)?.unwrap_or(PAGE);
        let after = query.parsed("cursor", artifact_cursor)?.unwrap_or_default();
        self.store.read(|transaction| {
            load(transaction, caller, task)?;
            Ok(artifact_page(transaction, task, limit, &after)?)
        })
    }

    /// Returns the content of an artifact, of one attempt or of the latest that has it.
    pub(super) fn artifact(
        &self,
        caller: &Caller,
        task: TaskId,
        number: Option<u32>,
        cid: &Cid,
    ) -> Result<Content, Problem> {
        let missing = || Problem::not_found("Task artifact not found");
        let about = self.store.read(|transaction| {
            let (record, _) = load(transaction, caller, task)?;
            find_artifact(transaction, task, number, record.task.attempts, cid)?.ok_or_else(missing)
        })?;
        let bytes = fs::read(self.directory(task).join(cid.as_str())).map_err(|_| missing())?;
        if Cid::of_bytes(&bytes) != *cid {
            return Err(Problem::internal());
        }
        Ok(Content { about, bytes })
    }

    /// Removes the files of a task that is gone.
    pub(super) fn remove_files(&self, task: TaskId) {
        // What is left takes space, and nobody finds it.
        let _ = fs::remove_dir_all(self.directory(task));
    }

    /// Returns the directory with the files of a task.
    pub(super) fn directory(&self, task: TaskId) -> PathBuf {
        self.files.join(task.to_string())
    }

    /// Writes a file as a whole or not at all.
    pub(super) fn write_file(&self, task: TaskId, name: &str, bytes: &[u8]) -> io::Result<()> {
        let directory = self.directory(task);
        Places::make_private(&directory)?;
        let path = directory.join(name);
        if path.exists() {
            return Ok(());
        }
        let new = directory.join(format!("{}{UNFINISHED}", Uuid::generate()?));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        // Held until it has its name: a server that starts removes those that nobody holds.
        let written = file.lock().and_then(|()| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Removes the files that a server was killed in writing.
    pub(super) fn remove_unfinished(&self) {
        let directories = fs::read_dir(&self.files).into_iter().flatten().flatten();
        let entries = directories.flat_map(|it| fs::read_dir(it.path()).into_iter().flatten());
        for entry in entries.flatten() {
            if !entry.file_name().as_encoded_bytes().ends_with(UNFINISHED.as_bytes()) {
                continue;
            }
            let is_held = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_err());
            if !is_held {
                // What is left takes space, and nobody finds it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
