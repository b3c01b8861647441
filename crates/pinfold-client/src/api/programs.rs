//! Programs in a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pinfold_tools::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program to run, and its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Environment variables in addition to the session's. The caller's environment is not passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The working directory in the sandbox; the session's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Milliseconds (at least 1) after which the program and all its descendants are killed; no limit if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Limits of the program and its descendants, within the session's limits. They are enforced by a control
    /// group below the session's or by init; where neither is possible they are refused (CPUs need a group).
    #[serde(default, skip_serializing_if = "ExecLimits::is_none")]
    pub limits: ExecLimits,
}

/// Limits of a program and its descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecLimits {
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Thousandths of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milli_cpus: Option<u32>,
}

impl ExecLimits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A limit that a program reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExecLimit {
    /// The time limit; the program was killed.
    Timeout,
    /// The memory limit; the program was killed.
    Memory,
    /// The process limit; a fork was refused.
    Pids,
}

/// Starts a program in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecStart {
    /// The session's id or name.
    pub session: String,
    /// What to run.
    pub program: Program,
    /// Whether standard input is a pipe that `exec.write` fills; it is empty otherwise.
    #[serde(default)]
    pub input: bool,
    /// Connects all streams to a terminal of this size instead of pipes. Its output is sent as `stdout`. It
    /// always has an input; write Ctrl-D (byte 4) to end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
}

/// The size of a terminal in characters (TIOCSWINSZ in ioctl_tty(2)).
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
    /// The program's number on this connection.
    pub exec: u64,
}

/// Writes to a running program's standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecWrite {
    /// The program's number.
    pub exec: u64,
    /// The bytes to write.
    #[serde(default)]
    pub data: Bytes,
    /// Whether to close the input after these bytes.
    #[serde(default)]
    pub end: bool,
}

/// Resizes a program's terminal. The program gets SIGWINCH.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecResize {
    /// The program's number.
    pub exec: u64,
    /// The new size.
    pub terminal: TerminalSize,
}

/// Sends a signal to a running program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecSignal {
    /// The program's number.
    pub exec: u64,
    /// The signal's number (signal(7)). 9 also kills all its descendants.
    pub signal: i32,
}

/// Runs a program and returns when it has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecRun {
    /// The session's id or name.
    pub session: String,
    /// What to run.
    pub program: Program,
    /// Standard input, whole.
    #[serde(default)]
    pub input: Bytes,
    /// How many bytes of each output to keep, counted from the end; 1 MiB if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The exit status, or 128 plus the number of the signal that ended it.
    pub status: u8,
    /// Whether `timeoutMs` ended it.
    pub timed_out: bool,
    /// The limit that ended or hindered the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ExecLimit>,
}

/// The result of a program that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecDone {
    /// How the program ended.
    pub ended: Ended,
    /// The last bytes of standard output.
    pub stdout: Bytes,
    /// The last bytes of standard error.
    pub stderr: Bytes,
    /// How many bytes of both outputs were dropped.
    pub dropped: u64,
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A program has written output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecOutput {
    /// The program's number.
    pub exec: u64,
    /// The stream it was written to.
    pub stream: Stream,
    /// The bytes written by the program.
    pub data: Bytes,
}

/// A program has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecExit {
    /// The program's number.
    pub exec: u64,
    /// How it ended; absent if it could not be executed or its session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Why it could not be executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
