//! What is recorded.

use pinfold_policy::authority::{Grant, Restriction};
use pinfold_policy::path::{Brief, HostPath, InsidePath};
use serde::Serialize;
use serde_json::Value;

/// Where a signature logs in to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Login {
    pub host: String,
    pub user: String,
    /// The fingerprint of the host's key.
    pub host_key: String,
}

/// What a program is started for.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It is the session's command.
    Command,
    /// The repository asks for it before the command.
    Resume,
    /// A client has it run next to the command.
    Exec,
    /// pinfold itself needs it, on the host.
    Host,
}

/// What is recorded. The words are part of the format.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// A session begins.
    Session {
        /// Whose authority it has.
        subject: String,
        /// What the user calls it.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        /// Whose name it works in, if in somebody's.
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<&'a str>,
        /// The workspace on the host.
        workspace: String,
        /// The boundary that keeps it in.
        boundary: &'a str,
        /// What the boundary enforces.
        enforced: Value,
        /// The grants, each with its access and who gave it.
        grants: Vec<GrantRecord<'a>>,
        /// The restrictions within them; of very many the first.
        restrictions: Vec<RestrictionRecord<'a>>,
        /// How many more there are.
        #[serde(skip_serializing_if = "is_zero")]
        more_restrictions: usize,
    },
    /// A command is started.
    Launch {
        /// What the program is for.
        purpose: Purpose,
        /// The program and its arguments.
        argv: Vec<String>,
        /// The working directory inside.
        cwd: String,
        /// The boundary and the wrappers that handled it.
        handled_by: Vec<String>,
        /// Its number among the programs that clients run, which the record of its end repeats.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
    },
    /// A program in the sandbox has ended: the command, or one that a client runs.
    Exit {
        /// The number of its launch; none for the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// Its status, or 128 + the signal that ended it.
        status: u8,
        /// The limit that ended or hindered it.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<&'a str>,
    },
    /// A session has changed files in a view of its workspace.
    Changed {
        /// How many files were added.
        added: usize,
        /// How many were changed.
        changed: usize,
        /// How many were deleted.
        deleted: usize,
        /// The paths, escaped; of very many the first.
        paths: Vec<String>,
    },
    /// The host has taken over something that the sandbox made.
    Taken {
        /// What it is.
        what: String,
    },
    /// Somebody outside is given the session's tools.
    Tools,
    /// The authority was asked.
    Decision {
        /// What was asked for.
        access: &'a str,
        /// The path of the access.
        path: String,
        /// `allow` or `deny`.
        outcome: &'a str,
        reason: String,
    },
    /// A real credential is about to be put into a request.
    CredentialUse {
        provider: String,
        request: String,
        /// Towards which host.
        host: String,
    },
    /// A signature is about to be made for the sandbox.
    Signature {
        /// `git-signature` or `ssh-login`.
        purpose: &'a str,
        /// The fingerprint of the key that signs.
        key: String,
        /// Of a login: where to.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<Login>,
    },
    /// A model has answered.
    Usage {
        provider: String,
        model: String,
        /// Tokens that were sent and that no cache held.
        input: u64,
        /// Tokens that were received.
        output: u64,
        /// Tokens that a cache held.
        cache_read: u64,
        /// Tokens that a cache took up.
        cache_write: u64,
        /// What it cost, in USD; none for a model without a known price.
        usd: Option<f64>,
        /// Whether the provider did not say so itself.
        estimated: bool,
    },
    /// A connection to a host is about to be opened.
    Connection {
        /// Host and port, by the name that was asked for.
        to: String,
        /// The rule that allows it, and who gave it.
        rule: String,
    },
    /// The policy of the live session is about to change.
    PolicyChange {
        /// `allow` or `forbid`.
        what: &'a str,
        rule: String,
    },
    /// A user has decided on what a session changed in a view of its workspace.
    Review {
        /// `apply` or `discard`.
        what: &'a str,
        /// The workspace on the host.
        workspace: String,
        /// How many paths it is about.
        changes: usize,
        /// Whether protected paths are taken, too.
        protected: bool,
        /// Whether changes that others made since are overwritten.
        overwrite: bool,
    },
    /// A user is about to trust a repository's settings as they are.
    Trust {
        /// The workspace on the host.
        workspace: String,
        /// The hash of the content.
        content: String,
    },
    /// The sandbox asks the host to run something.
    HostExecRequest {
        /// Its number in the session.
        id: u64,
        /// The executable, escaped.
        executable: String,
        /// Its arguments, each escaped.
        args: Vec<String>,
        /// The working directory inside, escaped.
        cwd: String,
    },
    /// That is about to be run, or is not.
    HostExecDecision {
        /// The request's number.
        id: u64,
        /// `allow` or `deny`.
        outcome: &'a str,
        /// Whose decision: a settings file, `approvals.json`, `terminal`, who answered at the control
        /// socket, `session` for what was approved for it, or `pinfold`.
        by: &'a str,
        /// By which rule, or for how long.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Why it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What ran on the host has ended.
    HostExecEnd {
        /// The request's number.
        id: u64,
        /// Its status, or 128 + the signal that ended it.
        status: Option<u8>,
        /// Why it was ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A user is about to be asked about a connection that no rule names.
    ConnectionRequest {
        /// Its number in the session.
        id: u64,
        /// Host and port.
        to: String,
    },
    /// That has an answer, or none.
    ConnectionDecision {
        /// The request's number.
        id: u64,
        /// `allow` or `deny`.
        outcome: &'a str,
        /// Who answered: `terminal`, `link`, `command`, who came to the control socket, or `pinfold`.
        by: &'a str,
        /// For how long, or why it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Something was refused.
    Denial {
        /// At which door.
        door: &'a str,
        /// What it is about.
        what: String,
        reason: String,
    },
    /// A provider of models did not answer, or refused; once for each cause.
    ProviderFailure {
        provider: String,
        host: String,
        /// What it did.
        what: String,
    },
    /// An agent's tool uses a diary of the user's.
    Memory {
        tool: &'a str,
        /// The diary's id.
        diary: &'a str,
    },
    /// Something of pinfold's own broke, and the session went on.
    Fault {
        /// What, and where in the program.
        what: String,
    },
    /// What the sandbox wrote and the host did not take.
    Kept {
        /// What it is about.
        what: String,
        reason: String,
    },
    /// Records of the session were not written, because it provoked too many.
    Dropped {
        /// How many so far, of all that it provoked.
        records: u64,
    },
    /// The session ended.
    End {
        /// The command's exit status as the caller sees it.
        status: u8,
        /// The limit that ended or hindered it.
        limit: Option<&'a str>,
    },
}

// By reference, because serde passes it so.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A grant as it is recorded.
#[derive(Debug, Serialize)]
pub struct GrantRecord<'a> {
    root: &'a str,
    host: &'a HostPath,
    inside: &'a InsidePath,
    access: Vec<&'static str>,
    source: String,
}

impl<'a> From<&'a Grant> for GrantRecord<'a> {
    fn from(grant: &'a Grant) -> Self {
        Self {
            root: grant.root.id.as_str(),
            host: &grant.root.host,
            inside: &grant.root.inside,
            access: grant.access.words().collect(),
            source: grant.source.to_string(),
        }
    }
}

/// A restriction as it is recorded.
#[derive(Debug, Serialize)]
pub struct RestrictionRecord<'a> {
    host: String,
    effect: String,
    reason: &'a str,
    source: String,
}

impl<'a> From<&'a Restriction> for RestrictionRecord<'a> {
    fn from(restriction: &'a Restriction) -> Self {
        Self {
            host: Brief(restriction.host.as_path()).to_string(),
            effect: restriction.effect.to_string(),
            reason: &restriction.reason.text,
            source: restriction.source.to_string(),
        }
    }
}
