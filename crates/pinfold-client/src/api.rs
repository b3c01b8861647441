//! What can be asked of `pinfold serve`, and what it reports.
//!
//! Every method has a type of parameters that names it ([`Call`]). Sessions are named by their own
//! name, by the beginning of it, or by the name that they were given.

mod approvals;
mod files;
mod programs;
mod sessions;

use pinfold_tools::{EditDone, FindDone, GrepDone, ListDone, StatDone, WriteDone};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use approvals::{
    Approval, ApprovalAnswer, ApprovalAsked, ApprovalConnection, ApprovalSettled, Approvals,
    ApprovalsAnswer, ApprovalsList, ApprovalsWatch,
};
pub use files::{
    FileContent, FilesChanged, FilesEdit, FilesFind, FilesGrep, FilesList, FilesMakeDirectory,
    FilesRead, FilesStat, FilesUnwatch, FilesWatch, FilesWrite, WatchStarted,
};
pub use programs::{
    Ended, ExecDone, ExecExit, ExecLimit, ExecLimits, ExecOutput, ExecResize, ExecRun, ExecSignal,
    ExecStart, ExecStarted, ExecWrite, Program, Stream, TerminalSize,
};
pub use sessions::{SessionInfo, SessionList, SessionStart, SessionStarted, SessionStop, Sessions};

/// The version of the protocol. It grows with changes that could break a client, not with additions.
pub const VERSION: u32 = 1;

/// The parameters of a method.
pub trait Call: Serialize + DeserializeOwned + JsonSchema {
    /// The method's name.
    const METHOD: &'static str;
    /// What it does, in a sentence.
    const SUMMARY: &'static str;
    /// The type of the result.
    type Answer: Serialize + DeserializeOwned + JsonSchema;
}

/// The parameters of notifications.
pub trait Notification: Serialize + DeserializeOwned + JsonSchema {
    /// The notification's name.
    const METHOD: &'static str;
    /// What it reports, in a sentence.
    const SUMMARY: &'static str;
}

macro_rules! calls {
    ($($type:ident => $answer:ty, $method:literal, $summary:literal;)*) => {
        $(impl Call for $type {
            const METHOD: &'static str = $method;
            const SUMMARY: &'static str = $summary;
            type Answer = $answer;
        })*

        /// Passes every method to a visitor.
        pub(crate) fn every_call(visitor: &mut impl CallVisitor) {
            $(visitor.visit::<$type>();)*
        }
    };
}

/// A visitor of all methods.
pub(crate) trait CallVisitor {
    fn visit<C: Call>(&mut self);
}

calls! {
    Hello => HelloDone, "hello", "Returns the versions of the server and the protocol. May be called at any time.";
    SessionStart => SessionStarted, "session.start", "Starts a session; programs are started in it by `exec.start` and `exec.run`.";
    SessionList => Sessions, "session.list", "Lists the running sessions.";
    SessionStop => Done, "session.stop", "Ends a session and returns when it has cleaned up.";
    ExecStart => ExecStarted, "exec.start", "Starts a program in a session; `exec.output` and `exec.exit` report its output and its end.";
    ExecWrite => Done, "exec.write", "Writes to a running program's standard input.";
    ExecResize => Done, "exec.resize", "Resizes a running program's terminal.";
    ExecSignal => Done, "exec.signal", "Sends a signal to a running program and its descendants.";
    ExecRun => ExecDone, "exec.run", "Runs a program in a session and returns when it has ended.";
    FilesRead => FileContent, "files.read", "Reads a file or a part of it.";
    FilesWrite => WriteDone, "files.write", "Writes a file atomically.";
    FilesEdit => EditDone, "files.edit", "Replaces texts in a file: either all of them or none.";
    FilesList => ListDone, "files.list", "Lists a directory.";
    FilesFind => FindDone, "files.find", "Finds files by their names.";
    FilesGrep => GrepDone, "files.grep", "Searches the lines of files.";
    FilesStat => StatDone, "files.stat", "Returns what is at a path.";
    FilesMakeDirectory => Done, "files.makeDirectory", "Creates a directory and its missing parents.";
    FilesWatch => WatchStarted, "files.watch", "Watches a path; `files.changed` reports the changes.";
    FilesUnwatch => Done, "files.unwatch", "Ends a watch.";
    EventsSubscribe => Done, "events.subscribe", "Reports new audit records by `event`.";
    ApprovalsList => Approvals, "approvals.list", "Lists a session's pending requests: for commands on the host, and for hosts that no rule names.";
    ApprovalsWatch => Done, "approvals.watch", "Reports pending requests by `approvals.asked` and `approvals.settled`. Requests wait for an answer as long as this connection is open.";
    ApprovalsAnswer => Done, "approvals.answer", "Answers a pending request.";
    Cancel => Done, "cancel", "Cancels a call of this connection. The call still gets a response.";
}

macro_rules! notifications {
    ($($type:ident, $method:literal, $summary:literal;)*) => {
        $(impl Notification for $type {
            const METHOD: &'static str = $method;
            const SUMMARY: &'static str = $summary;
        })*

        /// Passes every notification to a visitor.
        pub(crate) fn every_notification(visitor: &mut impl NotificationVisitor) {
            $(visitor.visit::<$type>();)*
        }
    };
}

/// A visitor of all notifications.
pub(crate) trait NotificationVisitor {
    fn visit<T: Notification>(&mut self);
}

notifications! {
    ExecOutput, "exec.output", "A program has written output.";
    ExecExit, "exec.exit", "A program has ended; all of its output was reported before.";
    FilesChanged, "files.changed", "A watched path has changed.";
    ApprovalAsked, "approvals.asked", "The sandbox asks to run something on the host, or to connect to a host.";
    ApprovalSettled, "approvals.settled", "A request was answered or withdrawn.";
    AuditEvent, "event", "A new audit record.";
}

/// An empty result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// Returns the server's versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {}

/// The server's versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloDone {
    /// The program's version.
    pub version: String,
    /// The version of the protocol ([`VERSION`]).
    pub api: u32,
}

/// Subscribes to audit records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsSubscribe {
    /// The session's id or name; all sessions if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// A new audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// The record, as `pinfold audit --json` shows it.
    pub record: Map<String, Value>,
}

/// Cancels a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The request's id.
    pub request: Value,
}
