//! Workarounds for the kernel of gVisor 20221219.0, which Debian 12 has. Each says what that kernel lacks;
//! Linux has all of it since 4.13.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;

/// Opens the user's side of a terminal: by the descriptor, or by name where the kernel lacks `TIOCGPTPEER`.
///
/// # Errors
/// Returns the error of `ioctl_tty(2)` or `open(2)`.
pub(crate) fn open_user_side(controller: &OwnedFd) -> Result<OwnedFd, Errno> {
    let peer = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    match rustix::pty::ioctl_tiocgptpeer(controller, peer) {
        Err(Errno::NOTTY) => {
            let name = rustix::pty::ptsname(controller, Vec::new())?;
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(name, flags, Mode::empty())
        }
        opened => opened,
    }
}

/// Makes this process the leader of a new session. The kernel returns 0 instead of the session's id, which
/// rustix does not expect.
///
/// # Errors
/// Returns an error if the process leads a process group already (`setsid(2)`).
pub(crate) fn new_session() -> Result<(), Errno> {
    // SAFETY: setsid(2) takes nothing, and touches no memory of this process.
    if unsafe { libc::setsid() } < 0 { Err(Errno::PERM) } else { Ok(()) }
}

/// Takes in the orphans of this process's tree. Where the kernel has no subreapers, an orphan goes to init
/// and ends with the session.
///
/// # Errors
/// Returns the error of `prctl(2)`.
pub(crate) fn adopt_orphans() -> Result<(), Errno> {
    match rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        Err(Errno::INVAL) => Ok(()),
        adopted => adopted,
    }
}
