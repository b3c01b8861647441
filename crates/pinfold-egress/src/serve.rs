//! All doors of a session on one thread.

use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::task::JoinSet;

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
    /// Sockets of the sandbox's network.
    pub stock: Arc<SocketStock>,
    /// Where connections are recorded.
    pub journal: Arc<dyn Journal>,
}

impl Egress {
    /// Returns every socket that something may come to.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let gateway = self.gateway.iter().flat_map(|(_, listeners)| listeners).map(AsFd::as_fd);
        let door = self.door.iter().flat_map(NetworkDoor::sockets);
        let published = self
            .publishing
            .iter()
            .flat_map(|publishing| &publishing.published)
            .map(|published| published.listener.as_fd());
        let ssh = self.ssh.iter().map(SshDoor::socket);
        gateway.chain(door).chain(published).chain(ssh).collect()
    }

    /// Serves on the calling thread until it is stopped. Give it a thread of its own, when a
    /// socket first becomes readable: nothing is lost until then, and a session that never uses
    /// its doors pays for no runtime.
    ///
    /// A panic ends the connection that it is about. What is worse ends the serving, and can be
    /// followed by another: rules, names, secrets, the session's authority and what budgets have
    /// counted are as they were, and only open connections are lost.
    ///
    /// # Errors
    /// Returns an error if the runtime could not be made, a socket could not be registered, or nobody
    /// accepts any more.
    pub fn serve(&self, stop: Stop) -> io::Result<()> {
        self.serve_until(stop.stopped())?;
        let credentials = self.gateway.iter().flat_map(|(gateway, _)| gateway.credentials());
        credentials.for_each(|credential| credential.finish());
        Ok(())
    }

    fn serve_until(&self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = AssertUnwindSafe(|| runtime.block_on(self.accept_until(stop)));
        let outcome = catch_unwind(serving);
        // A command that is being asked for a credential must not hold up the end.
        runtime.shutdown_background();
        outcome.unwrap_or_else(|_| Err(io::Error::other("the doors' thread broke")))
    }

    async fn accept_until(&self, stop: impl Future<Output = ()>) -> io::Result<()> {
        // None of these ends by itself.
        let mut acceptors = JoinSet::new();
        let held = self.door.as_ref().map(NetworkDoor::held).unwrap_or_default();
        if let Some((gateway, listeners)) = &self.gateway {
            gateway.start(listeners, &mut acceptors, held.clone())?;
        }
        if let Some(door) = &self.door {
            door.start(&mut acceptors)?;
        }
        if let Some(publishing) = &self.publishing {
            publish::start(publishing, &mut acceptors)?;
        }
        if let Some(ssh) = &self.ssh {
            ssh.start(&mut acceptors)?;
        }
        tokio::select! {
            () = stop => Ok(()),
            Some(_) = acceptors.join_next() => {
                Err(io::Error::other("what accepts connections broke"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
