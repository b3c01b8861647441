//! One run, from the settings to the exit status.
//!
//! A run is a chain of phases. Each is a type that owns what the run has made so far, and the method
//! that leads to the next one takes it. A phase that is dropped undoes what it owns, the newest first,
//! so a run that fails leaves nothing behind, wherever it fails.

mod caller;
mod dead;
mod ended;
mod furnished;
mod idle;
mod launched;
mod live;
mod nested;
mod record;
mod registered;
mod session;
mod supervised;

use crate::outcome::{Outcome, RunError};
use crate::request::Request;

use launched::Launched;

/// Runs a command to its end.
///
/// The order matters. Init is cloned from this process while it has one thread and has read no
/// secret. While init builds the root, this process scans the workspace. Nothing starts before it is
/// recorded.
///
/// # Errors
/// Returns what kept the command from being run. Nothing is left behind then.
pub fn run(request: Request) -> Result<Outcome, RunError> {
    Launched::launch(request)? // init builds the root
        .register()? // the session has its name and its audit log
        .furnish()? // masks and doors are in place, and init has sealed the sandbox
        .supervise()? // everything that serves the session runs
        .until_end()
        .conclude()
}
