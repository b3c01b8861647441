//! What a worker and the process of an attempt say to each other: a line of JSON each.

use std::path::{Path, PathBuf};

use pinfold_git::refs::is_object;
use pinfold_tasks::{Claimed, Failure, Provenance, Usage};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// What the process of an attempt is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The task's id.
    pub task: String,
    /// The attempt's number, counted from 1.
    pub attempt: u32,
    /// What the task asks for, as a store keeps it.
    pub spec: String,
    /// The file that what runs is logged in.
    pub log: PathBuf,
    /// The diary and tags of entries that are written in the attempt, for `pinfold run`.
    pub memory: String,
}

/// Returns the diary and tags of entries that are written in an attempt, and the socket that answers questions about its task,
/// as JSON.
pub(crate) fn memory_of(claimed: &Claimed, socket: Option<&Path>) -> String {
    let Claimed { holder, provenance, .. } = claimed;
    let task = claimed.known_as();
    let mut tags = vec![format!("task:id:{task}")];
    if let Some(Provenance { kind, correlation, .. }) = provenance {
        tags.push(format!("task:type:{kind}"));
        tags.extend(correlation.as_ref().map(|id| format!("task:correlation:{id}")));
    }
    tags.push(format!("task:attempt:{}", holder.attempt));
    let diary = provenance.as_ref().and_then(|provenance| provenance.diary.as_ref());
    let asks = socket.map(|socket| serde_json::json!({ "id": task.to_string(), "socket": socket }));
    serde_json::json!({ "diary": diary, "tags": tags, "task": asks }).to_string()
}

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// How far it is, for people.
    Progress(String),
    /// It has a result. The last line.
    Completed {
        output: Box<Output>,
        /// What was used of models.
        usage: Usage,
    },
    /// It has none. The last line.
    Failed(Failure),
    /// It was asked to end. The last line.
    Stopped,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The branch that the work is put on when it is accepted.
    pub branch: String,
    /// The branch of the attempt.
    pub attempt_branch: String,
    /// The commit that the work began at.
    #[serde(deserialize_with = "commit")]
    pub base: String,
    /// The branch that this commit was on; none if the work goes on from a branch of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    /// The commit that was verified.
    #[serde(deserialize_with = "commit")]
    pub commit: String,
    /// How often the agent worked.
    pub iterations: u32,
    /// The commands that verified the result; empty if the task has none.
    pub steps: Vec<Step>,
    /// What it cost, in billionths of a USD, as far as prices are known.
    pub nano_usd: u64,
}

impl Output {
    /// Returns whether there is a new commit.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.base != self.commit
    }

    /// Returns whether commands verified it.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        !self.steps.is_empty()
    }
}

/// Reads the name of a commit. A result can come from a database that others write to, and commits are arguments of git.
fn commit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if is_object(&text) { Ok(text) } else { Err(D::Error::custom("it names no commit")) }
}

/// A command that verified a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The command, a line for `sh`.
    pub command: String,
    /// Its exit status.
    pub status: u8,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use pinfold_tasks::{Claimed, Holder, Provenance, TaskId, TaskSpec, Token};

    use super::{Output, memory_of};

    #[test]
    fn entries_are_known_by_what_the_server_calls_the_task() {
        let (here, there) = (TaskId::from_random([1; 16]), TaskId::from_random([2; 16]));
        let holder = Holder { task: here, attempt: 3, token: Token::from_random([0; 16]) };
        let (spec, lasts) = (TaskSpec::new("t", "b"), Duration::ZERO);
        let own = Claimed { holder, spec, lasts, provenance: None };
        let text = memory_of(&own, None);
        let tags = format!(r#"["task:id:{here}","task:attempt:3"]"#);
        assert_eq!(text, format!(r#"{{"diary":null,"tags":{tags},"task":null}}"#));
        let provenance = Some(Provenance {
            task: there,
            kind: "freeform".to_owned(),
            correlation: Some("c".to_owned()),
            diary: Some("d".to_owned()),
        });
        let text = memory_of(&Claimed { provenance, ..own }, Some(Path::new("/s")));
        let tags = format!(
            r#"["task:id:{there}","task:type:freeform","task:correlation:c","task:attempt:3"]"#
        );
        let task = format!(r#"{{"id":"{there}","socket":"/s"}}"#);
        assert_eq!(text, format!(r#"{{"diary":"d","tags":{tags},"task":{task}}}"#));
    }

    #[test]
    fn commit_of_a_result_is_nothing_but_a_commit() {
        let read = |base: &str, commit: &str| {
            let text = serde_json::json!({
                "branch": "b", "attemptBranch": "a", "base": base, "commit": commit, "iterations": 1, "steps": [],
                "nanoUsd": 0,
            });
            serde_json::from_value::<Output>(text)
        };
        let good = "1".repeat(40);
        assert!(read(&good, &"a".repeat(64)).is_ok());
        for wrong in ["", "main", "--output=/tmp/x", "-O/tmp/x", "1111111", &format!("{good}\n")] {
            assert!(read(wrong, &good).is_err() && read(&good, wrong).is_err(), "{wrong:?}");
        }
    }
}
