//! All doors of a session on one thread.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::door::NetworkDoor;
use crate::gateway::{Gateway, Journal, Stop};
use crate::publish::{self, Published, SocketStock};
use crate::ssh::SshDoor;

/// The doors of one session.
#[derive(Default)]
pub struct Egress {
    /// The gateway to model providers, with its listeners.
    pub gateway: Option<(Gateway, Vec<TcpListener>)>,
    /// The network door.
    pub door: Option<NetworkDoor>,
    /// The ssh-agent door.
    pub ssh: Option<SshDoor>,
    /// The ports inside that the host can reach.
    pub publishing: Option<Publishing>,
}

/// Ports inside that the host can reach.
pub struct Publishing {
    /// Each with its listener.
    pub published: Vec<Published>,
    /// Sockets of the inside's network.
    pub stock: SocketStock,
    /// Where connections are recorded.
    pub journal: Arc<dyn Journal>,
}

impl Egress {
    /// Every socket that something may come to.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let gateway = self.gateway.iter().flat_map(|(_, listeners)| listeners);
        let gateway = gateway.map(AsFd::as_fd);
        let door = self.door.iter().flat_map(NetworkDoor::sockets);
        let published = self.publishing.iter().flat_map(|publishing| &publishing.published);
        let published = published.map(|published| published.listener.as_fd());
        let ssh = self.ssh.iter().map(SshDoor::socket);
        gateway.chain(door).chain(published).chain(ssh).collect()
    }

    /// Serves on the calling thread until it is stopped. Give it a thread of its own, when a
    /// socket first becomes readable: nothing is lost until then, and a session that never uses
    /// its doors pays for no runtime.
    ///
    /// # Errors
    /// The runtime could not be made, or a socket could not be registered.
    pub fn serve(self, stop: Stop) -> io::Result<()> {
        let credentials = self.gateway.iter().flat_map(|(gateway, _)| gateway.credentials());
        let credentials: Vec<_> = credentials.collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(async {
            if let Some((gateway, listeners)) = self.gateway {
                gateway.start(listeners)?;
            }
            if let Some(door) = self.door {
                door.start()?;
            }
            if let Some(Publishing { published, stock, journal }) = self.publishing {
                publish::start(published, stock, &journal)?;
            }
            if let Some(ssh) = self.ssh {
                ssh.start()?;
            }
            stop.stopped().await;
            Ok(())
        });
        // A command that is being asked for a credential must not hold up the end.
        runtime.shutdown_background();
        credentials.iter().for_each(|credential| credential.finish());
        outcome
    }
}
