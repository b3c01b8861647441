//! What can be asked of `pinfold serve`, and what it tells.
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

/// The version of these messages. It grows with what could break a client; what is new does not.
pub const VERSION: u32 = 1;

/// The parameters of a method.
pub trait Call: Serialize + DeserializeOwned + JsonSchema {
    /// The method's name.
    const METHOD: &'static str;
    /// What it does, in a sentence.
    const SUMMARY: &'static str;
    /// What it answers.
    type Answer: Serialize + DeserializeOwned + JsonSchema;
}

/// The parameters of notifications.
pub trait Notification: Serialize + DeserializeOwned + JsonSchema {
    /// The notification's name.
    const METHOD: &'static str;
    /// What it tells, in a sentence.
    const SUMMARY: &'static str;
}

macro_rules! calls {
    ($($type:ident => $answer:ty, $method:literal, $summary:literal;)*) => {
        $(impl Call for $type {
            const METHOD: &'static str = $method;
            const SUMMARY: &'static str = $summary;
            type Answer = $answer;
        })*

        /// Shows every method to somebody.
        pub(crate) fn every_call(visitor: &mut impl CallVisitor) {
            $(visitor.visit::<$type>();)*
        }
    };
}

/// Who wants to see every method.
pub(crate) trait CallVisitor {
    fn visit<C: Call>(&mut self);
}

calls! {
    Hello => HelloDone, "hello", "Tells who serves. May be asked at any time.";
    SessionStart => SessionStarted, "session.start", "Starts a session that waits for what is run in it.";
    SessionList => Sessions, "session.list", "Lists the sessions that run.";
    SessionStop => Done, "session.stop", "Ends a session, and waits until it has cleaned up.";
    ExecStart => ExecStarted, "exec.start", "Starts a program in a session; `exec.output` and `exec.exit` report its output and its end.";
    ExecWrite => Done, "exec.write", "Writes to the input of what runs.";
    ExecResize => Done, "exec.resize", "Gives the terminal of what runs another size.";
    ExecSignal => Done, "exec.signal", "Sends a signal to what runs, with all that it has started.";
    ExecRun => ExecDone, "exec.run", "Runs a program in a session to its end.";
    FilesRead => FileContent, "files.read", "Reads a file or a part of it.";
    FilesWrite => WriteDone, "files.write", "Puts content into a file, all at once.";
    FilesEdit => EditDone, "files.edit", "Replaces text in a file: all of it, or nothing.";
    FilesList => ListDone, "files.list", "Lists a directory.";
    FilesFind => FindDone, "files.find", "Finds files by their names.";
    FilesGrep => GrepDone, "files.grep", "Finds lines of files.";
    FilesStat => StatDone, "files.stat", "Tells what there is at a path.";
    FilesMakeDirectory => Done, "files.makeDirectory", "Makes a directory with those above it.";
    FilesWatch => WatchStarted, "files.watch", "Tells by `files.changed` what changes.";
    FilesUnwatch => Done, "files.unwatch", "Tells no more of it.";
    EventsSubscribe => Done, "events.subscribe", "Tells by `event` what is written to the audit log from now on.";
    ApprovalsList => Approvals, "approvals.list", "Lists requests of a session that wait for an answer: for commands on the host, and for hosts that no rule names.";
    ApprovalsWatch => Done, "approvals.watch", "Tells by `approvals.asked` and `approvals.settled` what waits. As long as this connection lasts, requests wait for it to answer.";
    ApprovalsAnswer => Done, "approvals.answer", "Answers a request.";
    Cancel => Done, "cancel", "Takes a request of this connection back. It is answered all the same.";
}

macro_rules! notifications {
    ($($type:ident, $method:literal, $summary:literal;)*) => {
        $(impl Notification for $type {
            const METHOD: &'static str = $method;
            const SUMMARY: &'static str = $summary;
        })*

        /// Shows every notification to somebody.
        pub(crate) fn every_notification(visitor: &mut impl NotificationVisitor) {
            $(visitor.visit::<$type>();)*
        }
    };
}

/// Who wants to see every notification.
pub(crate) trait NotificationVisitor {
    fn visit<T: Notification>(&mut self);
}

notifications! {
    ExecOutput, "exec.output", "What runs has written something.";
    ExecExit, "exec.exit", "A program has ended; all of its output was reported before.";
    FilesChanged, "files.changed", "Something that is watched has changed.";
    ApprovalAsked, "approvals.asked", "The sandbox asks to run something on the host, or to connect to a host.";
    ApprovalSettled, "approvals.settled", "A request waits no more.";
    AuditEvent, "event", "Something was written to the audit log.";
}

/// Nothing more than that it was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// Asks who serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {}

/// Who serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloDone {
    /// The program's version.
    pub version: String,
    /// The version of these messages ([`VERSION`]).
    pub api: u32,
}

/// Asks for what is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsSubscribe {
    /// Of which session; of all for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Something was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// The record, as `pinfold audit --json` shows it.
    pub record: Map<String, Value>,
}

/// Takes a request back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The request's id.
    pub request: Value,
}
