//! What a wrapper that is a program may use up.

use std::time::Duration;

/// How long it may take to answer, since the launch waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that it may answer: what execve(2) takes at most, escaped.
pub(super) const LARGEST: usize = 8 << 20;
