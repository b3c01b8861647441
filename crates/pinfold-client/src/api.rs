//! What can be asked of `pinfold serve`, and what it tells.
//!
//! Every method has a type of parameters that names it ([`Call`]). Sessions are named by their own
//! name, by the beginning of it, or by the name that they were given.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pinfold_tools::{
    Bytes, Change, EditDone, FindDone, GrepDone, ListDone, ReadDone, StatDone, WriteDone,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// The parameters of what is told without being asked.
pub trait Told: Serialize + DeserializeOwned + JsonSchema {
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
    ExecStart => ExecStarted, "exec.start", "Starts a program in a session; what becomes of it is told by `exec.output` and `exec.exit`.";
    ExecWrite => Done, "exec.write", "Writes to the input of what runs.";
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
    Cancel => Done, "cancel", "Takes a request of this connection back. It is answered all the same.";
}

macro_rules! told {
    ($($type:ident, $method:literal, $summary:literal;)*) => {
        $(impl Told for $type {
            const METHOD: &'static str = $method;
            const SUMMARY: &'static str = $summary;
        })*

        /// Shows every notification to somebody.
        pub(crate) fn every_told(visitor: &mut impl ToldVisitor) {
            $(visitor.visit::<$type>();)*
        }
    };
}

/// Who wants to see every notification.
pub(crate) trait ToldVisitor {
    fn visit<T: Told>(&mut self);
}

told! {
    ExecOutput, "exec.output", "What runs has written something.";
    ExecExit, "exec.exit", "What ran has ended; all that it wrote was told before.";
    FilesChanged, "files.changed", "Something that is watched has changed.";
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

/// Starts a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionStart {
    /// The directory to work in: an absolute path on the host.
    pub workspace: PathBuf,
    /// What to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it goes on when this connection is closed.
    #[serde(default)]
    pub detached: bool,
    /// Options of `pinfold run`, such as `["--allow", "example.com"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A session that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionStarted {
    /// Its own name.
    pub session: String,
    /// The boundary that keeps it in.
    pub boundary: String,
    /// What it said at its start, a line each.
    pub notes: Vec<String>,
}

/// Asks for the sessions that run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionList {}

/// Sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// Those that run.
    pub sessions: Vec<SessionInfo>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its own name.
    pub session: String,
    /// What it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Ends a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionStop {
    /// Which.
    pub session: String,
    /// Milliseconds after which what is left is killed; 10 000 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// What to run, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables beside the session's own. Nothing of the caller's environment goes in by itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where, inside; the session's own directory for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Milliseconds after which it is ended with all that it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Starts a program in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecStart {
    /// Which session.
    pub session: String,
    /// What to run.
    pub program: Program,
    /// Whether it has an input, to be written by `exec.write`; it is empty otherwise.
    #[serde(default)]
    pub input: bool,
}

/// A program that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecStarted {
    /// Its number on this connection.
    pub exec: u64,
}

/// Writes to the input of what runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecWrite {
    /// Which.
    pub exec: u64,
    /// What.
    #[serde(default)]
    pub data: Bytes,
    /// Whether that is all.
    #[serde(default)]
    pub end: bool,
}

/// Sends a signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecSignal {
    /// To which.
    pub exec: u64,
    /// The signal's number (signal(7)). After 9, which kills, nothing that it has started is left.
    pub signal: i32,
}

/// Runs a program to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecRun {
    /// In which session.
    pub session: String,
    /// What to run.
    pub program: Program,
    /// Its input.
    #[serde(default)]
    pub input: Bytes,
    /// Bytes of each output that are kept, the last ones; 1 MiB for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// How something that ran has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Its status, or 128 and the signal that ended it.
    pub status: u8,
    /// Whether its time was over.
    pub timed_out: bool,
}

/// What ran to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecDone {
    /// How it ended.
    pub ended: Ended,
    /// The end of its output.
    pub stdout: Bytes,
    /// The end of its error output.
    pub stderr: Bytes,
    /// Bytes of both that were not kept.
    pub dropped: u64,
}

/// Which of two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What runs has written something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecOutput {
    /// Which.
    pub exec: u64,
    /// Where.
    pub stream: Stream,
    /// What.
    pub data: Bytes,
}

/// What ran has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecExit {
    /// Which.
    pub exec: u64,
    /// How; nothing if it could not be executed, or its session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileContent {
    /// About the file.
    pub file: ReadDone,
    /// What was read.
    pub content: Bytes,
}

macro_rules! of_session {
    ($($(#[$doc:meta])* $name:ident($field:ident: $type:ty) $({ $($(#[$more:meta])* $extra:ident: $extra_type:ty,)* })?)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// In which session.
            pub session: String,
            /// What.
            pub $field: $type,
            $($($(#[$more])* pub $extra: $extra_type,)*)?
        })*
    };
}

of_session! {
    /// Reads a file.
    FilesRead(read: pinfold_tools::Read)
    /// Writes a file.
    FilesWrite(write: pinfold_tools::Write) {
        /// What it is to hold.
        content: Bytes,
    }
    /// Edits a file.
    FilesEdit(edit: pinfold_tools::Edit)
    /// Lists a directory.
    FilesList(list: pinfold_tools::List)
    /// Finds files.
    FilesFind(find: pinfold_tools::Find)
    /// Finds lines.
    FilesGrep(grep: pinfold_tools::Grep)
    /// Looks at a path.
    FilesStat(stat: pinfold_tools::Stat)
    /// Makes a directory.
    FilesMakeDirectory(directory: pinfold_tools::MakeDirectory)
    /// Watches a path.
    FilesWatch(watch: pinfold_tools::Watch)
}

/// A watch that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchStarted {
    /// Its number on this connection.
    pub watch: u64,
}

/// Ends a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesUnwatch {
    /// Which.
    pub watch: u64,
}

/// Something that is watched has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilesChanged {
    /// Which watch.
    pub watch: u64,
    /// What happened; nothing if nothing more will be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// Where.
    pub path: Bytes,
    /// Why nothing more will be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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
