//! What the agent of an attempt asks of its own task, and what it is answered.

use pinfold_content::Value;
use serde::{Deserialize, Serialize};

use crate::queue::Claimed;

mod wire;

/// A question of an attempt's agent about its task, or an artifact to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inquiry {
    Task,
    Attempts,
    Messages {
        attempt: u32,
        /// The number of the last message that is known already.
        after: Option<u64>,
        limit: u32,
    },
    /// Lists artifacts.
    Artifacts {
        limit: u32,
        /// Where the page begins, as the page before says.
        cursor: Option<String>,
    },
    /// Reads an artifact, of one attempt or of the latest that has it.
    Artifact {
        attempt: Option<u32>,
        cid: String,
    },
    /// Keeps the content that comes with it.
    AddArtifact(ArtifactLabel),
}

/// What the agent says of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactLabel {
    pub kind: String,
    pub title: String,
    pub content_type: String,
    pub content_encoding: Option<String>,
}

/// The answer to an inquiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What is answered, in the shape of MoltNet's API.
    pub value: Value,
    /// The content of an artifact; empty otherwise.
    pub content: Vec<u8>,
}

/// What an attempt reports to the source of its task, and asks of it.
pub trait AttemptQueue: Sync {
    /// Takes a line for people.
    fn progress(&self, line: &str);

    /// Answers the agent. `content` belongs to [`Inquiry::AddArtifact`].
    ///
    /// # Errors
    /// Returns what the agent reads: a title and a detail, as MoltNet's server has them.
    fn inquire(&self, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String>;
}

impl Claimed {
    /// Returns the id by which the agent knows its task: that of the server it comes from, if it comes from one.
    #[must_use]
    pub fn known_as(&self) -> crate::TaskId {
        self.provenance.as_ref().map_or(self.holder.task, |provenance| provenance.task)
    }
}
