//! Why an operation of the queue fails.

use pinfold_policy::document::FileError;

use crate::id::TaskId;
use crate::refused::Refused;
use crate::store::StoreError;

/// Why an operation of the queue fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// There is no such task.
    #[error("no task {0}")]
    NotFound(TaskId),
    /// The task's state does not allow it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The task asks for something that no task may ask for.
    #[error("invalid task: {0}")]
    Spec(FileError),
    /// The store fails.
    #[error(transparent)]
    Store(StoreError),
}

impl QueueError {
    /// Returns whether the same may succeed a moment later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::NotFound(_) | Self::Refused(_) | Self::Spec(_) => false,
        }
    }

    /// Returns whether the store fails, and not the operation.
    #[must_use]
    pub(crate) fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refused) => refused.hint().map(str::to_owned),
            Self::Store(error) => error.hint(),
            Self::NotFound(_) | Self::Spec(_) => None,
        }
    }
}
