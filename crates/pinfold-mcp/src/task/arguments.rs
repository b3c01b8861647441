//! What a model calls the tools of a task with.

use pinfold_tasks::{ArtifactLabel, Inquiry};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How many messages and artifacts are listed, by default and at most.
const MESSAGES: Limit = Limit { default: 50, most: 500 };
const ARTIFACTS: Limit = Limit { default: 20, most: 100 };

struct Limit {
    default: u32,
    most: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTask {
    pub(super) task_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMessages {
    pub(super) task_id: Option<String>,
    attempt_n: u32,
    after_seq: Option<u64>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListArtifacts {
    pub(super) task_id: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Upload {
    pub(super) file_path: String,
    kind: String,
    title: String,
    content_type: Option<String>,
    content_encoding: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Download {
    pub(super) task_id: Option<String>,
    pub(super) attempt_n: Option<u32>,
    pub(super) cid: String,
    pub(super) output_path: String,
}

/// Reads arguments. Those that a tool does not know are ignored, as the original ignores them.
pub(super) fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("Validation Failed: {error}"))
}

impl ListMessages {
    pub(super) fn inquiry(&self) -> Result<Inquiry, String> {
        let limit = MESSAGES.check(self.limit)?;
        Ok(Inquiry::Messages { attempt: self.attempt_n, after: self.after_seq, limit })
    }
}

impl ListArtifacts {
    pub(super) fn inquiry(self) -> Result<Inquiry, String> {
        Ok(Inquiry::Artifacts { limit: ARTIFACTS.check(self.limit)?, cursor: self.cursor })
    }
}

impl Upload {
    pub(super) fn label(self) -> ArtifactLabel {
        ArtifactLabel {
            kind: self.kind,
            title: self.title,
            content_type: self.content_type.unwrap_or("application/octet-stream".to_owned()),
            content_encoding: self.content_encoding,
        }
    }
}

impl Limit {
    fn check(&self, given: Option<u32>) -> Result<u32, String> {
        let limit = given.unwrap_or(self.default);
        let is_allowed = (1..=self.most).contains(&limit);
        is_allowed.then_some(limit).ok_or_else(|| {
            format!("Validation Failed: limit: expected a number from 1 to {}", self.most)
        })
    }
}
