//! A mounted view of a directory, as the supervisor holds it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pinfold_wire::{Channel, LaunchOrder};
use rustix::io::Errno;
use rustix::mount::fsconfig_reconfigure;

/// A view that is mounted: the context that it was made by, which can reconfigure it from then on
/// (fsmount(2)). It keeps the view from being taken down.
#[derive(Debug)]
pub struct LiveView {
    context: OwnedFd,
    /// To init's parent, where it alone has the right.
    attendant: Option<Channel>,
}

impl LiveView {
    pub(crate) fn new(context: OwnedFd, attendant: Option<Channel>) -> Self {
        Self { context, attendant }
    }

    /// Makes the view forget each name that nothing uses, so that the next use looks it up in the
    /// layers. overlayfs remembers names, also those that do not exist, and is not notified when its
    /// lower layer changes. `reconfigure_super` (fs/super.c) drops unused names before anything else;
    /// no option is changed. The caller needs no rights but to have made the user namespace of the
    /// sandbox, or to be root. Takes about 3 µs for each name that is remembered.
    ///
    /// # Errors
    /// Returns the error of `fsconfig(2)`: `EPERM` if another user made that namespace, and nobody there can be
    /// asked.
    pub fn refresh(&self) -> Result<(), Errno> {
        let Some(attendant) = &self.attendant else { return fsconfig_reconfigure(&self.context) };
        let asked = attendant.send(&LaunchOrder::Refresh(0), &[self.context.as_fd()]);
        asked.map_err(|_| Errno::PIPE)?;
        match attendant.receive::<LaunchOrder>().map_err(|_| Errno::PIPE)? {
            Some(received) if received.message == LaunchOrder::Refresh(0) => Ok(()),
            Some(received) => match received.message {
                LaunchOrder::Refresh(errno) => Err(Errno::from_raw_os_error(errno)),
                _ => Err(Errno::PROTO),
            },
            None => Err(Errno::PIPE),
        }
    }
}

impl AsFd for LiveView {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.context.as_fd()
    }
}
