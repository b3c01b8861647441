//! A mounted view of a directory, as the supervisor holds it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::fsconfig_reconfigure;

/// A view that is mounted: the context that it was made by, which can reconfigure it from then on
/// (fsmount(2)). It keeps the view from being taken down.
#[derive(Debug)]
pub struct LiveView(pub(crate) OwnedFd);

impl LiveView {
    /// Makes the view forget each name that nothing uses, so that the next use looks it up in the
    /// layers. overlayfs remembers names, also those that do not exist, and is not notified when its
    /// lower layer changes. `reconfigure_super` (fs/super.c) drops unused names before anything else;
    /// no option is changed. The caller needs no rights but to have made the user namespace of the
    /// sandbox, or to be root. Takes about 3 µs for each name that is remembered.
    ///
    /// # Errors
    /// Returns the error of `fsconfig(2)`: `EPERM` if another user made that namespace.
    pub fn refresh(&self) -> Result<(), Errno> {
        fsconfig_reconfigure(&self.0)
    }
}

impl AsFd for LiveView {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
