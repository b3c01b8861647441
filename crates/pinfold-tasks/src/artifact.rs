//! Artifacts of attempts: their limits, keys and descriptions, wherever their content is kept.

use data_encoding::BASE64URL_NOPAD;
use pinfold_content::{Cid, Timestamp, Uuid, Value, read, times};

use crate::id::TaskId;
use crate::inquiry::ArtifactLabel;
use crate::store::{StoreError, Transaction};

/// The largest artifact, in bytes.
pub const LARGEST_ARTIFACT: usize = 25 << 20;
/// The most artifacts of one attempt.
pub const MOST_ARTIFACTS: u32 = 32;
/// The kind of the notes that describe artifacts.
pub const ARTIFACT_NOTES: &str = "artifact";

/// Who keeps an artifact, and when.
pub struct ArtifactOrigin<'a> {
    pub task: TaskId,
    pub attempt: u32,
    /// The team of a server's task.
    pub team: Option<&'a str>,
    /// The agent or worker.
    pub creator: &'a str,
    pub at: Timestamp,
}

/// Returns the key of what is kept of an attempt. Keys are in the order of the attempts.
#[must_use]
pub fn attempt_key(task: TaskId, attempt: u32) -> String {
    format!("{task}/{attempt:08}")
}

/// Returns the description of an artifact, as MoltNet's API has it.
#[must_use]
pub fn artifact_value(
    id: Uuid,
    label: &ArtifactLabel,
    cid: &Cid,
    size: usize,
    origin: &ArtifactOrigin<'_>,
) -> Value {
    Value::object([
        ("id", id.to_string().into()),
        ("taskId", origin.task.to_string().into()),
        ("teamId", origin.team.into()),
        ("attemptN", origin.attempt.into()),
        ("cid", cid.as_str().into()),
        ("kind", label.kind.as_str().into()),
        ("title", label.title.as_str().into()),
        ("contentType", label.content_type.as_str().into()),
        ("contentEncoding", label.content_encoding.as_deref().into()),
        ("sizeBytes", (size as u64).into()),
        ("createdByAgentId", origin.creator.into()),
        ("createdAt", times::write(origin.at).into()),
        // It is kept as long as its task.
        ("expiresAt", Value::Null),
    ])
}

/// Returns artifacts of a task in the order of its attempts, and where the next page begins.
///
/// # Errors
/// Returns the store's error, also for a description that cannot be read.
pub fn artifact_page(
    transaction: &mut impl Transaction,
    task: TaskId,
    limit: u32,
    after: &str,
) -> Result<Value, StoreError> {
    let mut found = transaction.notes(ARTIFACT_NOTES, &format!("{task}/"), after, limit + 1)?;
    let is_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|note| BASE64URL_NOPAD.encode(note.key.as_bytes()));
    let artifacts = found.iter().map(|note| description(&note.content));
    let artifacts = artifacts.collect::<Result<_, _>>()?;
    Ok(Value::object([("artifacts", Value::Array(artifacts)), ("nextCursor", next.into())]))
}

/// Returns the key that a page begins after; none for a cursor that no page has given.
#[must_use]
pub fn artifact_cursor(cursor: &str) -> Option<String> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
    String::from_utf8(bytes).ok().filter(|key| key.len() <= 256)
}

/// Returns the description of an artifact, of one attempt or of the latest of `attempts` that has it.
///
/// # Errors
/// Returns the store's error, also for a description that cannot be read.
pub fn find_artifact(
    transaction: &mut impl Transaction,
    task: TaskId,
    attempt: Option<u32>,
    attempts: u32,
    cid: &Cid,
) -> Result<Option<Value>, StoreError> {
    let numbers = attempt.map_or(1..=attempts, |number| number..=number);
    for number in numbers.rev() {
        let key = format!("{}/{cid}", attempt_key(task, number));
        if let Some(text) = transaction.note(ARTIFACT_NOTES, &key)? {
            return description(&text).map(Some);
        }
    }
    Ok(None)
}

fn description(text: &str) -> Result<Value, StoreError> {
    read(text).map_err(|_| StoreError::invalid("artifact", "its description is not JSON"))
}
