//! How far a specification is.

use crate::words::words;

words! {
    /// How far a specification is, by Ralph's names.
    SpecStatus, "status":
    /// It can be begun.
    Ready = "ready",
    /// A loop works on it.
    InProgress = "in-progress",
    /// It is done.
    Done = "done",
    /// A user has to look at it.
    NeedsAttention = "needs-attention",
    /// What it depends on is not done.
    Blocked = "blocked",
}
