//! The process that keeps masks: a copy of the supervisor, which has read no secret yet.

use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::{Channel, LaunchOrder};
use rustix::io::Errno;

use crate::inside::Inside;
use crate::launch_error::LaunchError;
use crate::namespace::{enter, refuse_threads};
use crate::sys::{self, Side};

/// What the process is called in lists of processes.
const NAME: &std::ffi::CStr = c"pinfold keep-masks";

/// Starts the process that keeps the masks of a sandbox, and returns a descriptor of it (`pidfd_open(2)`) if it is
/// this process's to reap. It gets the masks over the channel and writes its reports to `out`. To execute a program
/// for it would take as long as the rest of a short session.
///
/// # Errors
/// Returns the error of `clone3(2)`, that this process has several threads, or that init's parent is gone.
pub fn start(
    inside: &Inside,
    channel: Channel,
    out: OwnedFd,
) -> Result<Option<OwnedFd>, LaunchError> {
    let Some(attendant) = inside.attendant() else { return start_here(channel, out).map(Some) };
    attendant.send(&LaunchOrder::KeepMasks, &[channel.as_fd(), out.as_fd()])?;
    Ok(None)
}

/// Starts the process as a copy of this one.
///
/// # Errors
/// Returns the error of `clone3(2)`, or that this process has several threads.
pub(crate) fn start_here(channel: Channel, out: OwnedFd) -> Result<OwnedFd, LaunchError> {
    refuse_threads()?;
    match sys::clone_into(0, None) {
        Ok(Side::Parent { child, .. }) => Ok(child),
        Ok(Side::Child) => {
            let is_failed = run(&channel, &out).is_err();
            sys::exit(i32::from(is_failed))
        }
        Err(source) => Err(LaunchError::System {
            what: "cannot start what keeps masks in place",
            source: source.into(),
        }),
    }
}

/// Lets go of what is the supervisor's, and keeps masks.
fn run(channel: &Channel, out: &OwnedFd) -> Result<(), Errno> {
    sys::wipe_environment();
    sys::wipe_arguments(NAME)?;
    enter::close_all_others(&[out.as_fd()], channel)?;
    // No key at the terminal is for this process, and no directory is kept in use.
    rustix::process::setpgid(None, None)?;
    rustix::process::chdir("/")?;
    super::keep(channel, out)
}
