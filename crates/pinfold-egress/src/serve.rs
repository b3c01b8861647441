//! All doors of a session on one thread.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};

use crate::door::NetworkDoor;
use crate::gateway::{Gateway, Stop};

/// The doors of one session.
#[derive(Default)]
pub struct Egress {
    /// The gateway to model providers, with its listeners.
    pub gateway: Option<(Gateway, Vec<TcpListener>)>,
    /// The network door.
    pub door: Option<NetworkDoor>,
}

impl Egress {
    /// Every socket that something may come to.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let gateway = self.gateway.iter().flat_map(|(_, listeners)| listeners);
        let gateway = gateway.map(AsFd::as_fd);
        gateway.chain(self.door.iter().flat_map(NetworkDoor::sockets)).collect()
    }

    /// Serves on the calling thread until it is stopped. Give it a thread of its own, when a
    /// socket first becomes readable: nothing is lost until then, and a session that never uses
    /// its doors pays for no runtime.
    ///
    /// # Errors
    /// The runtime could not be made, or a socket could not be registered.
    pub fn serve(self, stop: Stop) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(async {
            if let Some((gateway, listeners)) = self.gateway {
                gateway.start(listeners)?;
            }
            if let Some(door) = self.door {
                door.start()?;
            }
            stop.stopped().await;
            Ok(())
        });
        // A command that is being asked for a credential must not hold up the end.
        runtime.shutdown_background();
        outcome
    }
}
