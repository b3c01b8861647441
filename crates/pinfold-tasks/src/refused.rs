//! Why the queue does not do what a worker or a user asks for.

use crate::task::Status;

/// Why a change of a task is refused. The task stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It was claimed by another worker, or waits for other tasks.
    #[error("the task is not queued or is already being claimed")]
    NotQueued,
    /// A task that may change the same files, or is of the same group, is worked on.
    #[error("task {0}, which is worked on, may change the same files")]
    Overlaps(crate::TaskId),
    /// Nothing can happen to it any more.
    #[error("the task is already in terminal state: {0}")]
    Ended(Status),
    /// It can be queued again only after its end.
    #[error("the task is {0}; only one that failed, expired or was cancelled can be tried again")]
    NotEnded(Status),
    /// No attempt is left.
    #[error("the task has exhausted all allowed attempts")]
    Exhausted,
    /// There is no such attempt.
    #[error("the task has no attempt {0}")]
    NoSuchAttempt(u32),
    /// Another attempt is the next one.
    #[error("attempt {0} is not the next one")]
    NotNext(u32),
    /// Another worker holds the attempt.
    #[error("another worker holds this attempt")]
    NotHolder,
    /// The first heartbeat has to come before the result.
    #[error("cannot end an attempt that has not been started; send a heartbeat first")]
    NotStarted,
    /// The worker did not renew its lease in time, or another attempt was begun since.
    #[error("the lease on the task has expired")]
    LeaseExpired,
    /// The same worker already reported another result.
    #[error("another result of this attempt was reported before")]
    OtherResult,
    /// Other tasks need it.
    #[error("{0} other tasks wait for this one")]
    Needed(u64),
    /// It is not over.
    #[error("the task is {0}; cancel it first")]
    StillActive(Status),
    /// A task to wait for does not exist.
    #[error("the task to wait for does not exist: {0}")]
    UnknownDependency(crate::TaskId),
    /// A task to wait for was removed without a result.
    #[error("a task that it waits for was removed")]
    DependencyRemoved,
    /// A task cannot wait for itself, nor for so many.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Refused {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::LeaseExpired => Some("the work is kept; another attempt may be under way"),
            Self::Exhausted | Self::Ended(_) => Some("a retry queues it again"),
            Self::Overlaps(_) => Some("it can be claimed when that one has ended"),
            Self::Needed(_) => Some("remove those first"),
            Self::DependencyRemoved => {
                Some("remove it, and add it once more without `depends` on what is gone")
            }
            _ => None,
        }
    }
}
