//! How many namespaces the sandboxes in a sandbox may have.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::root::NESTED_PROC;

/// Namespaces of one kind that a sandbox and all in it have at most. The kernel's memory for them belongs to no process (167 KiB for
/// a network, Linux 6.18), and without this a sandbox can use up what the user may have on the machine
/// (`user.max_*_namespaces`, hundreds of thousands).
const MOST: &[u8] = b"512";

/// Kinds of namespaces that a sandbox can make (namespaces(7)). Those of control groups are refused to all.
const KINDS: [&str; 7] = ["ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// Bounds the namespaces of the calling process's user namespace and of all below it: what is allowed in one below counts only
/// as far as it is allowed here. The caller has its rights.
///
/// # Errors
/// Returns the error of `open(2)` or `write(2)`.
pub(super) fn bound_namespaces() -> Result<(), Errno> {
    let directory = Path::new("/").join(NESTED_PROC).join("sys/user");
    for kind in KINDS {
        let path = directory.join(format!("max_{kind}_namespaces"));
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => rustix::io::write(file, MOST).map(drop)?,
            // A kernel without this kind.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
