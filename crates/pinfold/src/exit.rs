//! Exit codes, and how errors are shown.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | a command failed that runs nothing in a sandbox |
//! | 2 | the command line is not valid |
//! | 3 | `loop`: a step, or what the specification depends on, is blocked; `task land`: something else has to happen first |
//! | 4 | `loop`: the specification needs attention: no progress, a result that waits, or two edits at once; `task land`: so does a result |
//! | 5 | `loop`: the budget or the time is used up |
//! | 124 | `run`, `exec`, `attach`, `wait`: the time limit ended the command; `wait`: the session still runs after the time to wait |
//! | 125 | no such session; `run`, `exec`, `attach`, `wait`: pinfold failed; the command was not run, or its status is unknown |
//! | 126 | `run`, `exec`: the command exists and cannot be executed |
//! | 127 | `run`, `exec`: the command does not exist in the sandbox |
//! | 130 | `loop`, `task land`: a signal ended it; the specification was given back, the base is where it was |
//! | 128 + n | `run`, `exec`, `attach`, `wait`: signal n ended the command, or the start while it waited for an engine; 137 and 143 also if another limit did |
//!
//! Otherwise `run`, `exec`, `attach` and `wait` exit with the command's own status.

use std::fmt;
use std::io::IsTerminal;
use std::process::ExitCode;

use pinfold_host::directories::PlacesError;
use pinfold_session::RunError;
use pinfold_terminal::notify;
use pinfold_workspace::review::ReviewError;

/// A failure on its way to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: String,
    hint: Option<String>,
}

/// `loop`, `task land`: something is blocked.
pub(crate) const BLOCKED: u8 = 3;
/// `loop`, `task land`: a user has to look at the specification or the result.
pub(crate) const ATTENTION: u8 = 4;
/// `loop`: the budget or the time is used up.
pub(crate) const EXHAUSTED: u8 = 5;
/// `loop`, `task land`: a signal ended it (128 + SIGINT, as shells have it).
pub(crate) const INTERRUPTED: u8 = 130;
/// `wait`: the time to wait is over.
const TIMEOUT: u8 = 124;
/// `run`: pinfold itself failed; all commands: there is no such session.
const OWN_FAILURE: u8 = 125;
/// `run`: not executable.
const NOT_EXECUTABLE: u8 = 126;
/// `run`: not found.
const NOT_FOUND: u8 = 127;

impl Failure {
    /// Returns a failure of a command other than `run`.
    pub(crate) fn new(error: impl fmt::Display) -> Self {
        Self { code: 1, error: error.to_string(), hint: None }
    }

    /// Makes a failure of `run` before there was a command.
    pub(crate) fn own(error: impl fmt::Display) -> Self {
        Self { code: OWN_FAILURE, ..Self::new(error) }
    }

    /// Returns a session that is named and does not exist.
    pub(crate) fn no_session(error: impl fmt::Display) -> Self {
        Self::own(error)
    }

    /// Returns a failure of a command that asks a live session for something and runs nothing in it.
    pub(crate) fn of_session(error: RunError) -> Self {
        match error {
            RunError::NoSession(_) => error.into(),
            other => Self::from(other).plain(),
        }
    }

    /// Returns a wait that took too long.
    pub(crate) fn timeout(error: impl fmt::Display) -> Self {
        Self { code: TIMEOUT, ..Self::new(error) }
    }

    /// Files of pinfold's that are not used, with the hint.
    pub(crate) fn places(error: PlacesError) -> Self {
        let hint = error.hint();
        Self::own(error).hint(hint)
    }

    /// Returns the same of a command that runs nothing inside.
    pub(crate) fn plain(self) -> Self {
        Self { code: 1, ..self }
    }

    /// Returns the same, with the hint.
    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// Returns what went wrong, without the hint.
    pub(crate) fn into_error(self) -> String {
        self.error
    }

    /// Writes the failure to standard error and gives its code.
    pub(crate) fn show(self) -> ExitCode {
        let (strong, plain) = if colours() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        notify::marked(format_args!("{strong}error:{plain}"), &self.error);
        if let Some(hint) = self.hint {
            notify::marked(format_args!("hint:"), &hint);
        }
        ExitCode::from(self.code)
    }
}

/// Returns whether standard error takes colours (no-color.org).
fn colours() -> bool {
    takes_colours() && std::io::stderr().is_terminal()
}

/// Returns whether the user wants colours where there is a terminal.
pub(crate) fn takes_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl From<ReviewError> for Failure {
    fn from(error: ReviewError) -> Self {
        let hint = error.hint();
        Self::new(error).hint(hint)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match error {
            RunError::NotFound(_) => NOT_FOUND,
            RunError::NotExecutable { .. } => NOT_EXECUTABLE,
            _ => OWN_FAILURE,
        };
        let hint = error.hint();
        Self { code, error: error.to_string(), hint }
    }
}

#[cfg(test)]
mod tests {
    /// The table above, which the reference page repeats.
    #[test]
    fn reference_page_has_the_table_of_exit_codes() {
        let page = include_str!("../../../docs/reference/exit-codes.md");
        let table = include_str!("exit.rs").lines().filter_map(|line| line.strip_prefix("//! |"));
        let table: Vec<&str> = table.collect();
        let shown: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix('|')).collect();
        assert_eq!(shown, table);
    }
}
