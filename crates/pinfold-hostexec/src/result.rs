//! What a command on the host came to, as an agent's tool returns it.

use serde::{Deserialize, Serialize};

/// The result of a command on the host (MoltNet's, with the exit code added).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostExecResult {
    /// Always true.
    pub host_exec: bool,
    pub executable: String,
    /// Its arguments. Bytes that are not UTF-8 are replaced (U+FFFD).
    pub args: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// What it wrote, bytes that are not UTF-8 replaced alike.
    pub stdout: String,
    /// What it wrote to standard error, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Its status, or 128 + the signal that ended it. One that is not 0 is a result, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Why it did not run, in place of a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether more was written than is here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
