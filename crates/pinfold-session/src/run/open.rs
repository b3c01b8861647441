//! The caller's end of a run, before there is a sandbox: terminal, streams, and the command as wrappers have it.

use pinfold_host::wrappers::Launch;
use pinfold_terminal::caller::CallerTerminal;
use pinfold_terminal::stdio::{self, Streams};

use crate::detach;
use crate::outcome::RunError;
use crate::request::Request;

/// Finds the caller's terminal, and opens the streams of the command.
///
/// # Errors
/// A terminal that cannot be used, or a stream that cannot be opened.
pub(super) fn open_streams(
    request: &Request,
) -> Result<(Option<CallerTerminal>, Streams), RunError> {
    let is_idle = request.argv.is_empty();
    let mut terminal = match is_idle {
        true => None,
        false => CallerTerminal::find().map_err(RunError::terminal)?,
    };
    if let Some(terminal) = &mut terminal {
        terminal.guard().map_err(RunError::terminal)?;
    }
    let streams = match (is_idle, request.window) {
        (true, _) => stdio::nothing(),
        (false, Some(window)) => Ok(stdio::terminal(window, None)),
        (false, None) => stdio::streams(terminal.as_ref()),
    };
    let mut streams = streams.map_err(|errno| RunError::System(errno.into()))?;
    if request.background.is_some() {
        streams.moved.bound(detach::LONGEST);
    }
    Ok((terminal, streams))
}

/// Has the wrappers handle the command, if there is one.
///
/// # Errors
/// A wrapper that refuses or fails.
pub(super) fn wrapped(request: &Request, boundary: &str) -> Result<Launch, RunError> {
    let launch = Launch {
        argv: request.argv.clone(),
        env: request.env.clone(),
        cwd: request.workspace.cwd.as_path().to_owned(),
        handled_by: Vec::new(),
    };
    let is_idle = launch.argv.is_empty();
    Ok(if is_idle { launch } else { request.launcher.wrapped(boundary, launch)? })
}
