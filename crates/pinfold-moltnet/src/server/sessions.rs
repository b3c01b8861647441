//! Sessions of runtimes: what an agent said and did in an attempt, as a daemon keeps it to continue it elsewhere.

use std::fs;

use pinfold_host::digest::name_of;
use pinfold_tasks::{AttemptStatus, Note, Store, Transaction, attempt_key};

use super::artifacts::Content;
use super::attempts::{AttemptId, Own};
use super::caller::Caller;
use super::document::{load, notes};
use super::query::Query;
use super::runtime::id_of;
use super::service::Service;
use crate::problem::{Kind, Problem};
use pinfold_content::{Uuid, Value, read, times};

/// The largest session, in bytes.
pub(super) const LARGEST: usize = 25 << 20;
/// How an attempt's session began.
const KINDS: [&str; 3] = ["root", "extend", "fork"];

impl<S: Store> Service<S> {
    /// Keeps the session of an attempt, in place of one that it has.
    pub(super) fn put_session(
        &self,
        caller: &Caller,
        id: AttemptId,
        query: &Query,
        bytes: &[u8],
    ) -> Result<Value, Problem> {
        let kind = query.parsed("sessionKind", |it| KINDS.into_iter().find(|kind| *kind == it))?;
        let kind = kind.ok_or_else(|| Problem::field("query/sessionKind", "is required"))?;
        let uuid = |name: &str| -> Result<Value, Problem> {
            let given = query.parsed(name, |text| text.parse::<Uuid>().ok())?;
            Ok(given.map(|id| id.to_string()).into())
        };
        let (slot, profile) = (uuid("sourceSlotId")?, uuid("sourceRuntimeProfileId")?);
        let parent = uuid("parentSessionId")?;
        // The file first: a note without one would be a promise. What would be refused is not written.
        self.store.read(|transaction| may_keep(transaction, caller, id))?;
        let digest = name_of(bytes);
        // One of its own for each upload: of two at once each is whole.
        let file = Uuid::generate().map_err(|_| Problem::internal())?;
        let file = format!("session-{}-{file}", id.number);
        self.write_file(id.task, &file, bytes).map_err(|_| Problem::internal())?;
        let written = self.store.write(|transaction| {
            may_keep(transaction, caller, id)?;
            let now = transaction.now();
            let key = attempt_key(id.task, id.number);
            let session = Value::object([
                ("id", id_of(&format!("runtime session {key}")).into()),
                ("teamId", caller.agent.team.as_str().into()),
                ("taskId", id.task.to_string().into()),
                ("attemptN", id.number.into()),
                ("sourceSlotId", slot),
                ("sourceRuntimeProfileId", profile),
                ("sessionKind", kind.into()),
                ("parentSessionId", parent),
                ("contentType", "application/x-ndjson".into()),
                ("contentEncoding", Value::Null),
                ("sizeBytes", (bytes.len() as u64).into()),
                ("sha256", digest.as_str().into()),
                ("storageClass", "runtime-session".into()),
                ("checkpointKind", "attempt_final".into()),
                ("uploadedAt", times::write(now).into()),
            ]);
            let old = kept(transaction, &key)?;
            let content = Value::object([("file", file.as_str().into()), ("session", session)]);
            let note = Note { key, content: content.to_string() };
            transaction.set_note(notes::SESSION, &note, Some(id.task))?;
            Ok((Kept(content).session()?, old))
        });
        let (session, old) = written.inspect_err(|problem: &Problem| {
            // After an error of the store it may be the one that the note names.
            if matches!(problem.kind, Kind::Conflict | Kind::Forbidden | Kind::NotFound) {
                self.remove_session(id, &file);
            }
        })?;
        if let Some(file) = old.and_then(|old| old.file()) {
            self.remove_session(id, &file);
        }
        Ok(session)
    }

    /// Removes a file that no note names. What is left takes space until the task is removed.
    fn remove_session(&self, id: AttemptId, file: &str) {
        let _ = fs::remove_file(self.directory(id.task).join(file));
    }

    /// Returns what is known of the session of an attempt.
    pub(super) fn session(&self, caller: &Caller, id: AttemptId) -> Result<Value, Problem> {
        self.kept_session(caller, id)?.session()
    }

    /// Returns the session of an attempt itself.
    pub(super) fn session_content(
        &self,
        caller: &Caller,
        id: AttemptId,
    ) -> Result<Content, Problem> {
        let mut kept = self.kept_session(caller, id)?;
        loop {
            let file = kept.file().ok_or_else(Problem::internal)?;
            match fs::read(self.directory(id.task).join(&file)) {
                Ok(bytes) => {
                    let about = kept.session()?;
                    let is_it = about.text_of("sha256").is_some_and(|it| it == name_of(&bytes));
                    return if is_it {
                        Ok(Content { about, bytes })
                    } else {
                        Err(Problem::internal())
                    };
                }
                Err(_) => {
                    // Another one may have taken its place since.
                    let now = self.kept_session(caller, id)?;
                    if now.file().as_ref() == Some(&file) {
                        return Err(Problem::internal());
                    }
                    kept = now;
                }
            }
        }
    }

    fn kept_session(&self, caller: &Caller, id: AttemptId) -> Result<Kept, Problem> {
        self.store.read(|transaction| {
            load(transaction, caller, id.task)?;
            let found = kept(transaction, &attempt_key(id.task, id.number))?;
            found.ok_or_else(|| Problem::not_found("Runtime session not found"))
        })
    }
}

/// What is kept of a session: the name of its file, and what clients are shown.
struct Kept(Value);

impl Kept {
    fn file(&self) -> Option<String> {
        self.0.text_of("file").map(|file| file.into_owned())
    }

    fn session(&self) -> Result<Value, Problem> {
        self.0.get("session").cloned().ok_or_else(Problem::internal)
    }
}

fn kept(transaction: &mut impl Transaction, key: &str) -> Result<Option<Kept>, Problem> {
    let note = transaction.note(notes::SESSION, key)?;
    note.map(|text| read(&text).map(Kept)).transpose().map_err(|_| Problem::internal())
}

/// Checks that the caller claimed an attempt, and that it has started.
fn may_keep(
    transaction: &mut impl Transaction,
    caller: &Caller,
    id: AttemptId,
) -> Result<(), Problem> {
    let own = Own::load(transaction, caller, id)?;
    if own.attempt.status == AttemptStatus::Claimed {
        let what = "Runtime sessions can only be uploaded after the attempt has started";
        return Err(Problem::conflict(what));
    }
    Ok(())
}
