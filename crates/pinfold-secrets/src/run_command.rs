//! How this crate asks for a program to be run: it starts none itself.

use std::io;

use zeroize::Zeroizing;

use crate::Secret;

/// Runs a program on the host. The launcher implements it, so that a secret command is
/// started, recorded and limited like every other host-side process.
pub trait RunCommand: Send + Sync {
    /// Runs `argv[0]` (looked up in the host's `PATH`) to its end, with `stdin` or an empty
    /// standard input. An implementation sets its own time limit.
    ///
    /// # Errors
    /// Returns an error for the start failed; [`io::ErrorKind::NotFound`] when there is no such program.
    /// A non-zero exit is a result.
    fn run(&self, argv: &[String], stdin: Option<&Secret>) -> io::Result<CommandOutput>;
}

/// What a program left behind.
pub struct CommandOutput {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, overwritten when dropped: it may be a secret.
    pub stdout: Zeroizing<Vec<u8>>,
    /// Standard error, shown to the user when the program fails.
    pub stderr: Vec<u8>,
}
