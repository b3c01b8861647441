//! The process that keeps masks: a copy of the supervisor, which has read no secret yet.

use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::Channel;
use rustix::io::Errno;

use crate::launch_error::LaunchError;
use crate::namespace::{enter, refuse_threads};
use crate::sys::{self, Side};

/// What the process is called in lists of processes.
const NAME: &std::ffi::CStr = c"pinfold keep-masks";

/// Starts the process and returns a descriptor of it (`pidfd_open(2)`). It gets the masks over the
/// channel and writes its reports to `out`. To execute a program for it would take as long as the
/// rest of a short session.
///
/// # Errors
/// Returns the error of `clone3(2)`, or that this process has several threads.
pub fn start(channel: Channel, out: OwnedFd) -> Result<OwnedFd, LaunchError> {
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
