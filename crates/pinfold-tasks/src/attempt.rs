//! What the queue knows of an attempt at a task.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::id::Token;
use crate::words::words;
use pinfold_content::Timestamp;

words! {
    /// The state of an attempt, by MoltNet's names.
    AttemptStatus, "state of an attempt":
    /// It was claimed, and no heartbeat has come yet.
    Claimed = "claimed",
    /// Its worker renews the lease.
    Running = "running",
    /// Its result counts.
    Completed = "completed",
    /// Its worker reported a failure.
    Failed = "failed",
    /// The user cancelled the task.
    Cancelled = "cancelled",
    /// Its worker gave the task back.
    Aborted = "aborted",
    /// Its worker was not heard of in time, or it took too long.
    TimedOut = "timed_out",
}

impl AttemptStatus {
    /// Returns whether a worker may still report a result.
    #[must_use]
    pub fn is_active(self) -> bool {
        match self {
            Self::Claimed | Self::Running => true,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Aborted | Self::TimedOut => {
                false
            }
        }
    }
}

/// What an attempt used of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    /// Tokens that were sent.
    pub input_tokens: u64,
    /// Tokens that came back.
    pub output_tokens: u64,
    /// Tokens that the provider had in its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens that the provider put into its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// A JSON text, kept as it was sent: its digest depends on the order of keys.
    pub output: String,
    /// What it used.
    pub usage: Usage,
}

impl Completion {
    /// The longest output, in bytes.
    pub const LONGEST: usize = 4 << 20;
}

/// An attempt at a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, counted from 1.
    pub number: u32,
    pub status: AttemptStatus,
    /// The worker's name, for people.
    pub worker: String,
    /// What proves that a worker holds the attempt.
    pub token: Token,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When the first heartbeat came.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When the lease ends. At that time it is over.
    pub lease_until: Timestamp,
    /// How long a heartbeat renews the lease for.
    pub ttl: Duration,
    pub completion: Option<Completion>,
    /// The reason for a missing result.
    pub failure: Option<Failure>,
}
