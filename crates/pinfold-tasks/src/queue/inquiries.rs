//! Answers to the agent of an attempt, from a queue that pinfold keeps itself.

use data_encoding::BASE64;
use pinfold_content::{Cid, InvalidJson, Uuid, Value, times};

use super::steps::{load, spec};
use super::{Holder, Message, Queue, QueueError};
use crate::artifact::{
    ARTIFACT_NOTES, ArtifactOrigin, LARGEST_ARTIFACT, MOST_ARTIFACTS, artifact_cursor,
    artifact_page, artifact_value, attempt_key, find_artifact,
};
use crate::id::TaskId;
use crate::inquiry::{ArtifactLabel, Inquiry, Reply};
use crate::shape::{attempt_value, message_value};
use crate::spec::TaskSpec;
use crate::store::{Note, Store, StoreError, Transaction};
use crate::task::{Status, Task};

/// The kind of the notes that hold the content of artifacts, in parts.
const CONTENT: &str = "artifact-content";
/// Bytes of a part: as text it has 1 MiB.
const PART: usize = 768 << 10;
/// The most parts of an artifact.
const MOST_PARTS: u32 = LARGEST_ARTIFACT.div_ceil(PART) as u32;
/// The most artifacts that are shown of a task.
const MOST_SHOWN: u32 = 1_000;
/// The most bytes of the messages of one answer, apart from its first.
const LARGEST_PAGE: usize = 4 << 20;
/// The most bytes of all artifacts of an attempt: they are in the database of the queue.
const LARGEST_ALL: u64 = 100 << 20;

/// Why an inquiry is not answered, as MoltNet's server says it.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("Not Found: {0} not found")]
    NotFound(&'static str),
    #[error("Validation Failed: {0}")]
    Invalid(String),
    #[error("Conflict: {0}")]
    Conflict(String),
    #[error("Service Unavailable: {0}")]
    Unavailable(String),
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::NotFound(_) => Self::NotFound("Task"),
            QueueError::Refused(refused) => Self::Conflict(refused.to_string()),
            QueueError::Spec(_) | QueueError::Store(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<InvalidJson> for Problem {
    fn from(error: InvalidJson) -> Self {
        Self::Unavailable(format!("the queue holds {error}"))
    }
}

impl<S: Store> Queue<S> {
    /// Answers the agent of an attempt.
    ///
    /// # Errors
    /// Returns what the agent reads.
    pub fn answer(
        &self,
        holder: &Holder,
        inquiry: &Inquiry,
        content: &[u8],
    ) -> Result<Reply, String> {
        let bare = |value| Reply { value, content: Vec::new() };
        let answered = match inquiry {
            Inquiry::Task => self.task_value(holder.task).map(bare),
            Inquiry::Attempts => self.attempt_values(holder.task).map(bare),
            Inquiry::Messages { attempt, after, limit } => {
                self.message_values(holder.task, *attempt, *after, *limit).map(bare)
            }
            Inquiry::Artifacts { limit, cursor } => {
                self.artifacts(holder.task, *limit, cursor.as_deref()).map(bare)
            }
            Inquiry::Artifact { attempt, cid } => self.artifact(holder.task, *attempt, cid),
            Inquiry::AddArtifact(label) => self.add_artifact(holder, label, content).map(bare),
        };
        answered.map_err(|problem| problem.to_string())
    }

    /// Returns descriptions of the artifacts of a task, in the order of its attempts.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn artifacts_of(&self, id: TaskId) -> Result<Vec<Value>, QueueError> {
        let page = self.store.read(|transaction| artifact_page(transaction, id, MOST_SHOWN, ""))?;
        Ok(page.get("artifacts").and_then(Value::as_array).unwrap_or_default().to_vec())
    }

    /// Returns the content of an artifact of an attempt.
    ///
    /// # Errors
    /// Returns an error for an artifact that is not there or is damaged, or the store's error.
    pub fn artifact_content(&self, id: TaskId, attempt: u32, cid: &Cid) -> Result<Vec<u8>, String> {
        let reply = self.artifact(id, Some(attempt), cid.as_str());
        reply.map(|reply| reply.content).map_err(|problem| problem.to_string())
    }

    fn task_value(&self, id: TaskId) -> Result<Value, Problem> {
        self.store.read(|transaction| {
            let task = load(transaction, id)?.task;
            Ok(task_value(&task, &spec(transaction, id)?))
        })
    }

    fn attempt_values(&self, id: TaskId) -> Result<Value, Problem> {
        let attempts = self.attempts(id)?;
        let values = attempts.iter().map(|attempt| attempt_value(id, attempt, &Value::Null));
        Ok(Value::Array(values.collect::<Result<_, _>>()?))
    }

    fn message_values(
        &self,
        id: TaskId,
        attempt: u32,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Value, Problem> {
        let messages = self.store.read(|transaction| {
            if !(1..=load(transaction, id)?.task.attempts).contains(&attempt) {
                return Err(Problem::NotFound("Task attempt"));
            }
            let from = after.map_or(0, |after| after.saturating_add(1));
            Ok(transaction.messages(id, attempt, from, limit)?)
        })?;
        let mut size = 0;
        let fits = |message: &&Message| {
            let is_first = size == 0;
            size += message.payload.len();
            is_first || size <= LARGEST_PAGE
        };
        let page = messages.iter().take_while(fits);
        let values = page.map(|message| message_value(id, attempt, message));
        Ok(Value::Array(values.collect::<Result<_, _>>()?))
    }

    fn artifacts(&self, id: TaskId, limit: u32, cursor: Option<&str>) -> Result<Value, Problem> {
        let after = cursor.map(|cursor| {
            artifact_cursor(cursor)
                .ok_or_else(|| Problem::Invalid("query/cursor is invalid".into()))
        });
        let after = after.transpose()?.unwrap_or_default();
        self.store.read(|transaction| {
            load(transaction, id)?;
            Ok(artifact_page(transaction, id, limit, &after)?)
        })
    }

    fn artifact(&self, id: TaskId, attempt: Option<u32>, cid: &str) -> Result<Reply, Problem> {
        let missing = || Problem::NotFound("Task artifact");
        let cid: Cid = cid.parse().map_err(|_| missing())?;
        self.store.read(|transaction| {
            let attempts = load(transaction, id)?.task.attempts;
            let found = find_artifact(transaction, id, attempt, attempts, &cid)?;
            let value = found.ok_or_else(missing)?;
            let parts = transaction.notes(CONTENT, &format!("{id}/{cid}/"), "", MOST_PARTS)?;
            let mut content = Vec::new();
            for part in parts {
                let bytes = BASE64.decode(part.content.as_bytes());
                content.extend(bytes.map_err(|error| Problem::Unavailable(error.to_string()))?);
            }
            if Cid::of_bytes(&content) != cid {
                return Err(Problem::Unavailable("the artifact is damaged".into()));
            }
            Ok(Reply { value, content })
        })
    }

    fn add_artifact(
        &self,
        holder: &Holder,
        label: &ArtifactLabel,
        content: &[u8],
    ) -> Result<Value, Problem> {
        label.check()?;
        if content.len() > LARGEST_ARTIFACT {
            let what = format!("an artifact has {} MiB at most", LARGEST_ARTIFACT >> 20);
            return Err(Problem::Invalid(what));
        }
        let cid = Cid::of_bytes(content);
        let id = Uuid::generate().map_err(|error| Problem::Unavailable(error.to_string()))?;
        self.store.write(|transaction| {
            let now = transaction.now();
            let mut record = load(transaction, holder.task)?;
            record.holds(holder.attempt, holder.token, now).map_err(QueueError::from)?;
            let beginning = format!("{}/", attempt_key(holder.task, holder.attempt));
            let known = find_artifact(transaction, holder.task, Some(holder.attempt), 0, &cid)?;
            if let Some(known) = known {
                return Ok(known);
            }
            let others = transaction.notes(ARTIFACT_NOTES, &beginning, "", MOST_ARTIFACTS)?;
            if others.len() >= MOST_ARTIFACTS as usize {
                let what = format!("Attempt has {MOST_ARTIFACTS} artifacts already");
                return Err(Problem::Conflict(what));
            }
            let mut size = content.len() as u64;
            for note in &others {
                let known = pinfold_content::read(&note.content)?;
                let known = known.get("sizeBytes").and_then(Value::as_count);
                size = size.saturating_add(known.unwrap_or(LARGEST_ALL));
            }
            if size > LARGEST_ALL {
                let what =
                    format!("artifacts of an attempt have {} MiB at most", LARGEST_ALL >> 20);
                return Err(Problem::Conflict(what));
            }
            let worker = record.attempt.as_ref().map(|attempt| attempt.worker.clone());
            let origin = ArtifactOrigin {
                task: holder.task,
                attempt: holder.attempt,
                team: None,
                creator: &worker.unwrap_or_default(),
                at: now,
            };
            let value = artifact_value(id, label, &cid, content.len(), &origin);
            let mut keep = |kind: &str, key: String, content: String| {
                transaction.set_note(kind, &Note { key, content }, Some(holder.task))
            };
            for (part, number) in content.chunks(PART).zip(0_u32..) {
                let key = format!("{}/{cid}/{number:04}", holder.task);
                keep(CONTENT, key, BASE64.encode(part))?;
            }
            keep(ARTIFACT_NOTES, format!("{beginning}{cid}"), value.to_string())?;
            Ok(value)
        })
    }
}

impl ArtifactLabel {
    fn check(&self) -> Result<(), Problem> {
        let encoding = self.content_encoding.as_deref();
        let texts = [
            ("kind", self.kind.as_str(), 64),
            ("title", &self.title, 255),
            ("contentType", &self.content_type, 255),
            ("contentEncoding", encoding.unwrap_or("identity"), 64),
        ];
        for (name, text, most) in texts {
            let count = text.chars().count();
            if count == 0 || count > most || text.chars().any(char::is_control) {
                let what = format!("{name} must have 1 to {most} characters on one line");
                return Err(Problem::Invalid(what));
            }
        }
        Ok(())
    }
}

/// Returns a task in the shape of MoltNet's API. What only a server knows is null.
fn task_value(task: &Task, spec: &TaskSpec) -> Value {
    let input = Value::object([("brief", spec.brief.as_str().into())]);
    let reason = task.failure.as_ref().filter(|_| task.status == Status::Cancelled);
    Value::object([
        ("id", task.id.to_string().into()),
        ("taskType", "freeform".into()),
        ("title", task.title.as_str().into()),
        ("tags", Value::Array(Vec::new())),
        ("teamId", Value::Null),
        ("diaryId", Value::Null),
        ("outputKind", "artifact".into()),
        ("inputCid", Cid::of_json(&input).as_str().into()),
        ("input", input),
        ("inputSchemaCid", Value::Null),
        ("references", Value::Array(Vec::new())),
        ("correlationId", Value::Null),
        ("proposedByAgentId", Value::Null),
        ("proposedByHumanId", Value::Null),
        ("acceptedAttemptN", task.accepted.into()),
        ("claimCondition", Value::Null),
        ("requiredExecutorTrustLevel", "selfDeclared".into()),
        ("allowedProfiles", Value::Array(Vec::new())),
        ("status", task.status.word().into()),
        ("queuedAt", times::write(task.added_at).into()),
        ("completedAt", times::value(task.ended_at)),
        ("expiresAt", times::value(task.expires_at)),
        ("cancelledByAgentId", Value::Null),
        ("cancelledByHumanId", Value::Null),
        ("cancelReason", reason.map(|failure| failure.message.as_str()).into()),
        ("maxAttempts", task.max_attempts.into()),
        ("dispatchTimeoutSec", task.timeouts.dispatch.as_secs().into()),
        ("runningTimeoutSec", task.timeouts.running.as_secs().into()),
    ])
}
