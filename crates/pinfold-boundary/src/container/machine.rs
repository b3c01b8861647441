//! Init in a machine, where no engine starts it: the first process of the guest does.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::Channel;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::{INIT, SUBCOMMAND};
use crate::sys::{self, Side};

/// The first number that is no standard stream's.
const CHANNEL: i32 = 3;
/// All but the one for users: in a guest, the session's user is one of the kernel's own.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWNET;

/// Returns the path at which a machine's tree has this program, to be started by [`start_init`].
#[must_use]
pub fn init_path() -> &'static str {
    INIT
}

/// Starts init as this user and group, in namespaces of its own, and returns a descriptor of it. The caller is root of
/// a guest and has one thread.
///
/// # Errors
/// Returns the error of `clone3(2)`. What fails later is seen as the end of the channel.
pub fn start_init(channel: Channel, ids: (u32, u32), hostname: &str) -> Result<OwnedFd, Errno> {
    match sys::clone_into(NAMESPACES as u64, None)? {
        Side::Parent { child, .. } => Ok(child),
        Side::Child => {
            let _ = become_init(&channel, ids, hostname);
            sys::exit(1)
        }
    }
}

fn become_init(channel: &Channel, ids: (u32, u32), hostname: &str) -> Result<Infallible, Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None)?;
    sys::loopback_up()?;
    rustix::system::sethostname(hostname.as_bytes())?;
    let program = rustix::fs::open(INIT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    sys::clear_bounding_set()?;
    sys::become_user(ids.0, ids.1)?;
    let text = |word: &str| CString::new(word).map_err(|_| Errno::INVAL);
    let words = [text(INIT)?, text(SUBCOMMAND)?, text(&CHANNEL.to_string())?];
    sys::execute(program.as_fd(), &words, &[], channel.as_fd(), CHANNEL)
}
