//! Who serves the session's tools: a copy of init behind the same walls, one for each client.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use pinfold_tools::Roots;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::fds::close_all_but;

/// Starts one, which ends when the other end of its socket is closed.
///
/// # Errors
/// Returns the error of `fork(2)`.
pub(crate) fn start(roots: Vec<Vec<u8>>, cwd: Vec<u8>, socket: OwnedFd) -> Result<Pid, Errno> {
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let roots = Roots::new(roots.into_iter().map(path).collect(), path(cwd));
    crate::vfork::copy(|| {
        if close_all_but(&[socket.as_fd()]).is_ok() {
            // Who asked sees the end of the socket, whatever the reason.
            let _ = pinfold_tools::serve(socket, roots);
        }
    })
}
