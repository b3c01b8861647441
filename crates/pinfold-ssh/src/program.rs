//! Programs, as the caller of this crate starts them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// What a client wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The shell.
    Shell,
    /// A command, as a shell reads it.
    Command(Vec<u8>),
    /// A server of SFTP.
    Sftp,
}

/// What a client wants to run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What.
    pub what: What,
    /// Variables that it asks for, and of a terminal `TERM`.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The size of its terminal, if it has one.
    pub terminal: Option<Size>,
}

/// A program that was started, with the other ends of its streams. Of a terminal, input and output are one.
pub struct Started {
    /// Where its input goes.
    pub input: OwnedFd,
    /// Where its output comes from.
    pub output: OwnedFd,
    /// Where its error output comes from, if that is not the same.
    pub errors: Option<OwnedFd>,
    /// The program itself.
    pub program: Arc<dyn Program>,
}

/// A program that runs.
pub trait Program: Send + Sync {
    /// Waits for its end, and returns its status.
    fn wait(&self) -> u32;

    /// Gives its terminal another size.
    fn resize(&self, size: Size);

    /// Sends a signal, by its name without `SIG`.
    fn signal(&self, name: &str);

    /// Ends it with all that it has started.
    fn kill(&self);
}

/// Starts programs for a connection.
pub trait StartProgram: Sync {
    /// Starts a program.
    ///
    /// # Errors
    /// Returns why it cannot be started, which the client is shown.
    fn start(&self, command: Command) -> io::Result<Started>;
}
