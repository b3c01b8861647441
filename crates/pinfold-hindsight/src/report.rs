//! What is known of one session.

use serde::Serialize;

use crate::listed::Listed;

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// It runs.
    Running,
    /// It has reported its end.
    Ended,
    /// It has gone without a report.
    #[default]
    Killed,
}

/// What one session did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    pub session: String,
    /// What the user called it.
    pub name: Option<String>,
    /// Whose authority it had.
    pub subject: String,
    /// Whose name it worked in, if in somebody's.
    pub identity: Option<String>,
    /// The workspace on the host.
    pub workspace: String,
    /// What kept it in.
    pub boundary: String,
    /// When it began, in RFC 3339.
    pub started: String,
    /// Whether it goes on.
    pub state: SessionState,
    /// The command's exit status.
    pub status: Option<u8>,
    /// The limit that ended or hindered it.
    pub limit: Option<String>,
    /// Where the time went.
    pub phases: Phases,
    /// What ran in the sandbox.
    pub commands: Launches,
    /// Files that it changed in a view of its workspace; none for a session that worked on the workspace itself.
    pub files: Option<Files>,
    /// What the host took over: branches, tags and stashes.
    pub taken: Listed<String>,
    /// What the host did not take.
    pub not_taken: Listed<NotTaken>,
    /// Hosts to which connections were opened.
    pub hosts: Listed<HostUse>,
    /// What was refused.
    pub refused: Listed<Refusal>,
    /// Credentials that were put into requests, and keys that signed.
    pub secrets: Listed<CredentialUse>,
    /// Commands that the host was asked to run.
    pub approvals: Listed<Approval>,
    /// Rules that were added and removed while it ran.
    pub policy_changes: Listed<String>,
    /// What it used of models.
    pub models: Listed<ModelUse>,
    /// Tools of diaries that it called.
    pub memory: Listed<MemoryUse>,
    /// Faults of pinfold's own.
    pub faults: Listed<String>,
    /// Records that were not written, because there were too many.
    pub not_recorded: u64,
}

/// Where the time of a session went, in milliseconds. A time that has not come yet is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Phases {
    /// From the session's record to the start of what ran first.
    pub start_ms: Option<u64>,
    /// The repository's commands before the command.
    pub resume_ms: Option<u64>,
    pub command_ms: Option<u64>,
    /// From the command's end to the session's.
    pub settle_ms: Option<u64>,
    /// In all, up to the last record.
    pub total_ms: u64,
    /// Waiting for decisions on commands on the host, each counted for itself.
    pub waiting_ms: u64,
    /// Commands on the host, each counted for itself.
    pub on_host_ms: u64,
}

/// What ran in the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Launches {
    /// How many programs were started: the command, the repository's, and those of clients.
    pub started: u64,
    /// How many of them failed.
    pub failed: u64,
    /// The first ones.
    pub first: Listed<Command>,
    /// The first ones that failed.
    pub failures: Listed<Command>,
}

/// A program that was started in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// `command`, `resume` or `exec`.
    pub purpose: String,
    /// The program and its arguments, cut.
    pub command: String,
    /// Its exit status; none if it was not recorded.
    pub status: Option<u8>,
    /// The limit that ended or hindered it.
    pub limit: Option<String>,
    /// How long it ran.
    pub took_ms: Option<u64>,
}

/// Files that a session changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Files {
    /// How many were added.
    pub added: u64,
    /// How many were changed.
    pub changed: u64,
    /// How many were deleted.
    pub deleted: u64,
    /// The paths, escaped; of very many the first.
    pub paths: Vec<String>,
    /// What the user decided: `apply` or `discard`, the last decision.
    pub decision: Option<String>,
}

/// What the host did not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotTaken {
    /// What it is about.
    pub what: String,
    pub reason: String,
}

/// A host that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostUse {
    /// Name and port.
    pub host: String,
    /// The rule that allowed it.
    pub rule: String,
    /// How many connections.
    pub count: u64,
}

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// At which door.
    pub door: String,
    /// What was asked for.
    pub what: String,
    pub reason: String,
    /// How often it was recorded.
    pub count: u64,
}

/// A credential that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CredentialUse {
    /// The provider, the secret, or the fingerprint of the key.
    pub credential: String,
    /// The host, or what was signed.
    pub towards: String,
    /// How often.
    pub count: u64,
}

/// A command that the host was asked to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Approval {
    /// Its number in the session.
    pub id: u64,
    /// The command, cut.
    pub command: String,
    /// `allow` or `deny`; none for one that nobody decided on.
    pub outcome: Option<String>,
    /// Whose decision it was.
    pub by: Option<String>,
    /// Why it was refused, or by which rule it was allowed.
    pub reason: Option<String>,
    /// Its exit status.
    pub status: Option<u8>,
    /// How long it waited for the decision.
    pub waited_ms: Option<u64>,
    /// How long it ran.
    pub took_ms: Option<u64>,
}

/// Use of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelUse {
    pub provider: String,
    pub model: String,
    /// Answers.
    pub answers: u64,
    /// Tokens that were sent and that no cache held.
    pub input: u64,
    /// Tokens that were received.
    pub output: u64,
    /// Tokens that a cache held.
    pub cache_read: u64,
    /// Tokens that a cache took up.
    pub cache_write: u64,
    /// What answers with a known price cost.
    pub usd: f64,
    /// Answers without a known price.
    pub unpriced: u64,
    /// Answers whose use the provider did not say itself.
    pub estimated: u64,
}

/// Calls of a tool of a diary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    pub tool: String,
    /// How often.
    pub count: u64,
}

impl Report {
    /// Returns whether it failed: it was killed, or its command ended with another status than 0.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        match self.state {
            SessionState::Running => false,
            SessionState::Ended => self.status != Some(0),
            SessionState::Killed => true,
        }
    }

    /// Returns what its models cost, in USD.
    #[must_use]
    pub fn usd(&self) -> f64 {
        // The sum of no floats is -0.0.
        self.models.items.iter().fold(0.0, |sum, model| sum + model.usd)
    }

    /// Returns tokens that were sent and received, those of caches included.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let of = |model: &ModelUse| {
            [model.input, model.output, model.cache_read, model.cache_write]
                .into_iter()
                .fold(0, u64::saturating_add)
        };
        self.models.items.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Returns how many refusals were recorded.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.items.iter().map(|refusal| refusal.count).sum::<u64>() + self.refused.more
    }
}
