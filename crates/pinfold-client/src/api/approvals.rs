//! What the sandbox asks for: commands on the host, and hosts that no rule names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lists a session's pending requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsList {
    /// The session's id or name.
    pub session: String,
}

/// A session's pending requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approvals {
    /// The pending requests, oldest first.
    pub approvals: Vec<Approval>,
}

/// A request of a sandbox, as it is shown to a user: to run a command on the host, or to connect to a host. Whatever
/// a terminal would not show as it is, is escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The request's number in the session.
    pub id: u64,
    /// Of a command: the executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Of a command: one line that a shell reads as the same words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Of a command: the directory on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The connection, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ApprovalConnection>,
    /// More that a user should know, a line each: of a push where to, which references and commits.
    pub details: Vec<String>,
    /// The rule that `always` writes, in words; nothing where no rule can say as much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// A connection that no rule names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalConnection {
    /// The host: a name in its ASCII form, or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What the port is known for: `tls`, `http`, or `tcp` for anything.
    pub protocol: String,
}

/// Subscribes to a session's pending requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsWatch {
    /// The session's id or name.
    pub session: String,
}

/// A user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalAnswer {
    /// Allow it this once.
    Once,
    /// Allow it, and the same request for the rest of this session.
    Session,
    /// Allow it, and the same request in this repository from now on: a rule is written to the user's settings.
    Always,
    /// Refuse it.
    Deny,
}

/// Answers a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsAnswer {
    /// The session's id or name.
    pub session: String,
    /// The request's number.
    pub id: u64,
    /// The user's answer.
    pub answer: ApprovalAnswer,
    /// The reason of a refusal; the sandbox can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A sandbox asks for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalAsked {
    /// The session's id.
    pub session: String,
    /// The pending request.
    pub approval: Approval,
}

/// A request was answered or withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalSettled {
    /// The session's id.
    pub session: String,
    /// The request's number.
    pub id: u64,
}
