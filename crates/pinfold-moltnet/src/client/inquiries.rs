//! What the agent of an attempt asks a server about its task.

use std::fmt::Write as _;

use pinfold_content::{Cid, Value};
use pinfold_egress::percent;
use pinfold_tasks::{ArtifactLabel, Holder, Inquiry, LARGEST_ARTIFACT, Reply, TaskId};

use super::Remote;
use super::call::{Call, Calls, Error};

/// The most messages that a server gives at once.
const MESSAGES: u32 = 200;

impl Remote<'_> {
    /// Answers an inquiry with what the server says. It is about the task of this attempt alone.
    pub(super) fn answer(
        &self,
        holder: &Holder,
        inquiry: &Inquiry,
        content: &[u8],
    ) -> Result<Reply, String> {
        let answered = self.held_task(holder).and_then(|id| match inquiry {
            Inquiry::Task => self.value(&format!("/tasks/{id}")),
            Inquiry::Attempts => self.value(&format!("/tasks/{id}/attempts")),
            Inquiry::Messages { attempt, after, limit } => self.all_messages(
                &format!("/tasks/{id}/attempts/{attempt}/messages"),
                *after,
                *limit,
            ),
            Inquiry::Artifacts { limit, cursor } => {
                self.value(&artifacts_path(id, *limit, cursor.as_deref()))
            }
            Inquiry::Artifact { attempt, cid } => {
                let missing = "Not Found: Task artifact not found";
                let cid: Cid = cid.parse().map_err(|_| Error::Local(missing.to_owned()))?;
                let content = artifact(&self.calls, id, *attempt, &cid)?;
                let value = Value::object([
                    ("taskId", id.to_string().into()),
                    ("attemptN", (*attempt).into()),
                    ("cid", cid.as_str().into()),
                    ("sizeBytes", (content.len() as u64).into()),
                ]);
                Ok(Reply { value, content })
            }
            Inquiry::AddArtifact(label) => self.add_artifact(holder, label, content),
        });
        answered.map_err(|error| match error {
            Error::Status { problem, .. } => problem,
            error => error.to_string(),
        })
    }

    /// Returns what the server calls the task of an attempt that this worker holds.
    fn held_task(&self, holder: &Holder) -> Result<TaskId, Error> {
        let held = self.held.lock();
        let held = held.get(&holder.task).filter(|held| held.token == holder.token);
        held.map(|held| held.offered.id).ok_or(Error::Gone)
    }

    fn value(&self, path: &str) -> Result<Reply, Error> {
        Ok(Reply { value: self.calls.send(&Call::get(path))?, content: Vec::new() })
    }

    /// Returns messages of several pages.
    fn all_messages(&self, path: &str, after: Option<u64>, limit: u32) -> Result<Reply, Error> {
        let (mut all, mut after) = (Vec::new(), after);
        while all.len() < limit as usize {
            let left = limit - u32::try_from(all.len()).unwrap_or(limit);
            let mut page = format!("{path}?limit={}", left.min(MESSAGES));
            if let Some(after) = after {
                let _ = write!(page, "&afterSeq={after}");
            }
            let page = self.calls.send(&Call::get(&page))?;
            let messages = page.as_array().unwrap_or_default();
            let last = messages.last().and_then(|last| last.get("seq")).and_then(Value::as_count);
            all.extend(messages.iter().cloned());
            // A server that repeats itself would be asked for ever.
            if last.is_none() || last <= after {
                break;
            }
            after = last;
        }
        all.truncate(limit as usize);
        Ok(Reply { value: Value::Array(all), content: Vec::new() })
    }

    fn add_artifact(
        &self,
        holder: &Holder,
        label: &ArtifactLabel,
        content: &[u8],
    ) -> Result<Reply, Error> {
        let (mut path, _) = self.path(holder, "artifacts")?;
        let given = [
            ("?kind", Some(&label.kind)),
            ("&title", Some(&label.title)),
            ("&contentType", Some(&label.content_type)),
            ("&contentEncoding", label.content_encoding.as_ref()),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                let _ = write!(path, "{name}={}", percent::encoded(value));
            }
        }
        let value = self.calls.send(&Call::put(&path, content))?;
        let cid = Cid::of_bytes(content);
        if value.text_of("cid").is_none_or(|its| its != cid.as_str()) {
            let what = "the server keeps the artifact by another address";
            return Err(Error::Unreachable(what.to_owned()));
        }
        Ok(Reply { value, content: Vec::new() })
    }
}

/// Returns the path of a page of artifacts.
pub(super) fn artifacts_path(id: TaskId, limit: u32, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!("&cursor={}", percent::encoded(cursor)));
    format!("/tasks/{id}/artifacts?limit={limit}{}", cursor.unwrap_or_default())
}

/// Returns the content of an artifact, of one attempt or of the latest that has it.
///
/// # Errors
/// Returns what the server says, also for a content that does not have this address.
pub(super) fn artifact(
    calls: &Calls,
    id: TaskId,
    attempt: Option<u32>,
    cid: &Cid,
) -> Result<Vec<u8>, Error> {
    let of_attempt = attempt.map(|number| format!("/attempts/{number}")).unwrap_or_default();
    let path = format!("/tasks/{id}{of_attempt}/artifacts/{cid}/content");
    let content = calls.fetch(&Call::get(&path), LARGEST_ARTIFACT)?;
    if Cid::of_bytes(&content) != *cid {
        let what = "the server gave an artifact of another address";
        return Err(Error::Unreachable(what.to_owned()));
    }
    Ok(content)
}
