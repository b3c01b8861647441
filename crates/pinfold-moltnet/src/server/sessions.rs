//! Sessions of runtimes: what an agent said and did in an attempt, as a daemon keeps it to continue it elsewhere.

use std::fs;

use pinfold_host::digest::name_of;
use pinfold_tasks::{AttemptStatus, Note, Store, Transaction};

use super::artifacts::Content;
use super::attempts::{AttemptId, Own};
use super::caller::Caller;
use super::document::{attempt_key, load, notes};
use super::query::Query;
use super::runtime::id_of;
use super::service::Service;
use crate::problem::Problem;
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
        self.write_file(id.task, &file_of(id, &digest), bytes).map_err(|_| Problem::internal())?;
        let (session, old) = self.store.write(|transaction| {
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
            let old = transaction.note(notes::SESSION, &key)?;
            let note = Note { key, content: session.to_string() };
            transaction.set_note(notes::SESSION, &note, Some(id.task))?;
            Ok::<_, Problem>((session, old))
        })?;
        let old = old.and_then(|text| read(&text).ok());
        if let Some(old) =
            old.as_ref().and_then(|old| old.text_of("sha256")).filter(|it| *it != digest)
        {
            // What is left takes space until the task is removed.
            let _ = fs::remove_file(self.directory(id.task).join(file_of(id, &old)));
        }
        Ok(session)
    }

    /// Returns what is known of the session of an attempt.
    pub(super) fn session(&self, caller: &Caller, id: AttemptId) -> Result<Value, Problem> {
        self.store.read(|transaction| {
            load(transaction, caller, id.task)?;
            let note = transaction.note(notes::SESSION, &attempt_key(id.task, id.number))?;
            let missing = || Problem::not_found("Runtime session not found");
            read(&note.ok_or_else(missing)?).map_err(|_| Problem::internal())
        })
    }

    /// Returns the session of an attempt itself.
    pub(super) fn session_content(
        &self,
        caller: &Caller,
        id: AttemptId,
    ) -> Result<Content, Problem> {
        let about = self.session(caller, id)?;
        let digest = about.text_of("sha256").unwrap_or_default().into_owned();
        let missing = || Problem::not_found("Runtime session not found");
        let path = self.directory(id.task).join(file_of(id, &digest));
        let bytes = fs::read(path).map_err(|_| missing())?;
        if name_of(&bytes) != digest {
            return Err(Problem::internal());
        }
        Ok(Content { about, bytes })
    }
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

/// Returns the name of the file of a session. A new content has another one, so that a reader gets one of both.
fn file_of(id: AttemptId, digest: &str) -> String {
    format!("session-{}-{digest}", id.number)
}
