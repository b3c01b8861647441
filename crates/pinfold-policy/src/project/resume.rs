//! `resumeCommands`: what runs inside before the command, at every start.

use std::fmt;
use std::time::Duration;

use crate::settings::WorkspaceMode;

/// A command of `resumeCommands`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeCommand {
    /// What a shell runs.
    pub run: String,
    /// How often it is tried again after it failed.
    pub retries: u32,
    /// How long to wait before it is first tried again; the second time twice as long, and so on.
    pub backoff: Duration,
    /// The workspace modes in which it runs; all if absent.
    pub modes: Option<Vec<WorkspaceMode>>,
}

impl ResumeCommand {
    /// MoltNet's wait before a command is tried again.
    pub const BACKOFF: Duration = Duration::from_millis(2000);

    /// Returns whether it runs in a workspace of this mode.
    #[must_use]
    pub fn runs_in(&self, mode: WorkspaceMode) -> bool {
        self.modes.as_ref().is_none_or(|modes| modes.contains(&mode))
    }
}

impl fmt::Display for ResumeCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.run)
    }
}
