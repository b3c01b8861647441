//! The record of what is started.

use std::io;

use crate::audit::{Audit, Event, Purpose};
use crate::wrappers::Launch;

/// Records that a command is about to be started.
///
/// # Errors
/// Returns an error for a log that cannot be written: then nothing is started.
pub fn record_launch(audit: &Audit, purpose: Purpose, launch: &Launch) -> io::Result<()> {
    record(audit, purpose, launch, None)
}

/// Records that a program is about to be started whose end will be recorded with this number.
///
/// # Errors
/// Returns the errors of [`record_launch`].
pub fn record_exec(audit: &Audit, launch: &Launch, number: u32) -> io::Result<()> {
    record(audit, Purpose::Exec, launch, Some(number))
}

fn record(audit: &Audit, purpose: Purpose, launch: &Launch, number: Option<u32>) -> io::Result<()> {
    audit.record(&Event::Launch {
        purpose,
        argv: launch.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: launch.cwd.to_string_lossy().into_owned(),
        handled_by: launch.handled_by.clone(),
        number,
    })
}
