//! Who serves the session's tools: a copy of init behind the same walls, one for each client.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use pinfold_tools::Roots;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::fds::close_all_but;
use crate::surroundings::Surroundings;

/// Starts one, which ends when the other end of its socket is closed.
///
/// # Errors
/// Returns the error of `fork(2)`.
pub(crate) fn start(
    roots: Vec<Vec<u8>>,
    cwd: Vec<u8>,
    socket: OwnedFd,
    around: &Surroundings,
) -> Result<Pid, Errno> {
    let path = |bytes: Vec<u8>| around.place(&PathBuf::from(OsString::from_vec(bytes)));
    let roots = Roots::new(roots.into_iter().map(path).collect(), path(cwd));
    crate::vfork::copy(|| {
        let kept = [socket.as_fd()];
        if around.enter().and_then(|()| close_all_but(&kept)).is_ok() {
            // The client that asked sees the end of the socket, whatever the reason.
            let _ = pinfold_tools::serve(socket, roots);
        }
    })
}
