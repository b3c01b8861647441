//! Programs in a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pinfold_tools::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables in addition to the session's own. Nothing of the caller's environment goes in by itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where, inside; the session's own directory for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Milliseconds, 1 at least, after which it is ended with all that it has started; no limit for
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What it may use up with all that it starts, within the session's limits. By a control group
    /// below the session's, or as init watches it; refused where neither can be (CPUs need a group).
    #[serde(default, skip_serializing_if = "ExecLimits::is_none")]
    pub limits: ExecLimits,
}

/// What a program may use up with all that it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecLimits {
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// CPU time for each wall-clock time, in thousandths of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milli_cpus: Option<u32>,
}

impl ExecLimits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A limit of something that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExecLimit {
    /// Its time was over, which ended it.
    Timeout,
    /// It used more memory than it may, which ended it.
    Memory,
    /// A process or thread was refused.
    Pids,
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
    /// A terminal of this size for all its streams, instead of pipes. What it writes is sent as `stdout`;
    /// an input it has in any case, whose end is typed as a terminal's user types it (Ctrl-D).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
}

/// How large a terminal is, in characters (ioctl_tty(2), TIOCSWINSZ).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
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
    /// The number of the program.
    pub exec: u64,
    /// The bytes.
    #[serde(default)]
    pub data: Bytes,
    /// Whether that is all.
    #[serde(default)]
    pub end: bool,
}

/// Gives a terminal another size. The program in it gets SIGWINCH.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecResize {
    /// The number of the program.
    pub exec: u64,
    /// Its size from now on.
    pub terminal: TerminalSize,
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
    /// The limit of its own that ended or hindered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ExecLimit>,
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
    /// The number of the program.
    pub exec: u64,
    /// The stream.
    pub stream: Stream,
    /// The bytes.
    pub data: Bytes,
}

/// What ran has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecExit {
    /// The number of the program.
    pub exec: u64,
    /// How; nothing if it could not be executed, or its session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Why it did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
