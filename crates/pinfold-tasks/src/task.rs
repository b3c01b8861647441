//! What the queue knows of a task.

use std::time::Duration;

use crate::failure::Failure;
use crate::id::TaskId;
use crate::words::words;
use pinfold_content::Timestamp;

words! {
    /// The state of a task, by MoltNet's names.
    Status, "state of a task":
    /// It waits for other tasks.
    Waiting = "waiting",
    /// It can be claimed.
    Queued = "queued",
    /// It was claimed, and no heartbeat has come yet.
    Dispatched = "dispatched",
    /// A worker works on it.
    Running = "running",
    /// It has a result.
    Completed = "completed",
    /// It has none, and no attempt is left.
    Failed = "failed",
    /// The user does not want it any more.
    Cancelled = "cancelled",
    /// Nobody began it in time.
    Expired = "expired",
}

impl Status {
    /// Returns whether nothing more happens by itself.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Waiting | Self::Queued | Self::Dispatched | Self::Running => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired => true,
        }
    }
}

/// How long the parts of an attempt may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the claim to the first heartbeat.
    pub dispatch: Duration,
    /// From the first heartbeat to the end, however many heartbeats come.
    pub running: Duration,
}

impl Timeouts {
    /// The longest timeout: a day.
    pub const LONGEST: Duration = Duration::from_secs(86_400);
}

impl Default for Timeouts {
    /// Returns MoltNet's: five minutes and two hours.
    fn default() -> Self {
        Self { dispatch: Duration::from_secs(300), running: Duration::from_secs(7_200) }
    }
}

/// The state of a task. What it asks for is its [`TaskSpec`](crate::TaskSpec), which never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    /// A line for lists.
    pub title: String,
    pub status: Status,
    /// Tasks with a higher number are claimed first.
    pub priority: i32,
    /// Attempts that were begun.
    pub attempts: u32,
    /// Attempts that may be begun.
    pub max_attempts: u32,
    /// Attempts that a retry by the user adds.
    pub allowance: u32,
    /// Attempts in a row whose worker was lost.
    pub losses: u32,
    /// Tasks that have to be completed before this one can be claimed.
    pub waits_for: u32,
    /// How long attempts may take.
    pub timeouts: Timeouts,
    /// When it was added.
    pub added_at: Timestamp,
    /// Since when it can be claimed. Among tasks of one priority the oldest is first.
    pub queued_at: Timestamp,
    /// When it changed last. Time never runs backwards for a task.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it expires if nobody has begun it.
    pub expires_at: Option<Timestamp>,
    /// The attempt whose result counts.
    pub accepted: Option<u32>,
    /// Why it ended without a result.
    pub failure: Option<Failure>,
}
