//! The file server of a machine: the tree of a sandbox, served to a guest's kernel by virtiofs.
//!
//! [`FileServer`] is what the child of [`pinfold_boundary::namespace::serve`] becomes: the crate `virtiofsd` as a
//! library, a device of vhost-user that QEMU connects to. The guest may say anything. What it gets is what the process
//! that serves it may do, which has no capability, no root but the tree, and every wall of a command.
//!
//! What it enforces: nothing. It keeps two promises of its own, that the guest cannot have more files open than
//! the process can, and that the process ends with its client.

mod kept;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use kept::KeptContent;
use pinfold_boundary::namespace;
use rustix::io::Errno;
use vhost::vhost_user::Listener;
use vhost_user_backend::VhostUserDaemon;
use virtiofsd::passthrough::{CachePolicy, Config, PassthroughFs};
use virtiofsd::vhost_user::VhostUserFsBackendBuilder;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// Files that the process opens for itself at most: sockets, events, and what a request takes while it is served.
const OWN_FILES: u64 = 64;
/// How long a guest may believe what it knows of a file that the host may change.
const BELIEVED: Duration = Duration::from_secs(1);

/// A server for one machine.
#[derive(Debug)]
pub struct FileServer {
    listener: OwnedFd,
}

impl FileServer {
    /// Returns a server for the first client of a listening socket.
    #[must_use]
    pub fn new(listener: OwnedFd) -> Self {
        Self { listener }
    }
}

impl namespace::FileServer for FileServer {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.listener.as_fd()]
    }

    fn serve(self: Box<Self>, descriptors: OwnedFd, files: u64) -> Result<(), Errno> {
        let config = Config {
            entry_timeout: BELIEVED,
            attr_timeout: BELIEVED,
            // What is read-only stays known for longer ([`KeptContent`]).
            cache_policy: CachePolicy::Auto,
            // Files of the same number on two mounts differ.
            announce_submounts: true,
            xattr: true,
            proc_sfd_rawfd: Some(descriptors.into()),
            guest_fd_limit: files.saturating_sub(OWN_FILES),
            ..Config::default()
        };
        let failed = |_| Errno::IO;
        let files = PassthroughFs::new(config)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let files = KeptContent::of(files);
        let backend = VhostUserFsBackendBuilder::default().build(files).map_err(|_| Errno::IO)?;
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let daemon = VhostUserDaemon::new("files".to_owned(), Arc::new(backend), memory);
        let mut daemon = daemon.map_err(failed)?;
        let mut listener = Listener::from(UnixListener::from(self.listener));
        daemon.start(&mut listener).map_err(failed)?;
        // However the client went, there is no other.
        let _ = daemon.wait();
        Ok(())
    }
}
