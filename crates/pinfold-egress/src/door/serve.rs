//! The door of one session, from its sockets to its end.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use pinfold_policy::network::NetworkPolicy;
use tokio::task::JoinSet;

use super::ask::{Doorkeeper, Leases};
use super::mint::SessionAuthority;
use super::policy_handle::PolicyHandle;
use super::shared::Shared;
use super::vault::{PlacedSecret, Vault};
use super::{dns, loopback, outward};
use crate::gateway::Journal;
use crate::held::HeldBytes;
use crate::upstream::WayOut;

/// What a door is made from.
pub struct DoorConfig {
    /// What may be reached.
    pub policy: NetworkPolicy,
    /// Where every connection and every refusal is recorded.
    pub journal: Arc<dyn Journal>,
    /// Who vouches inside for hosts whose TLS is ended here; needed if there are any.
    pub authority: Option<SessionAuthority>,
    /// Secrets that the sandbox has placeholders for.
    pub secrets: Vec<PlacedSecret>,
    /// How servers are reached.
    pub way: WayOut,
    /// Who is asked about connections that no rule names.
    pub doorkeeper: Option<Arc<dyn Doorkeeper>>,
}

/// The sockets inside that are served outside.
pub struct DoorSockets {
    /// Where names are asked for.
    pub names: UdpSocket,
    /// Where connections arrive: by a proxy's request, or handed over by the sandbox's kernel.
    pub outward: Vec<TcpListener>,
    /// Ports of the sandbox's loopback interface that lead to the same ports of the host's.
    pub loopback: Vec<TcpListener>,
}

/// The network door of one session.
pub struct NetworkDoor {
    shared: Arc<Shared>,
    sockets: DoorSockets,
}

impl NetworkDoor {
    /// Returns a door that is served later; nothing is opened or started.
    #[must_use]
    pub fn new(config: DoorConfig, sockets: DoorSockets) -> (Self, PolicyHandle) {
        let (handle, policy) = PolicyHandle::new(config.policy);
        let shared = Arc::new(Shared {
            policy,
            leases: Leases::new(handle.clone()),
            doorkeeper: config.doorkeeper,
            journal: config.journal,
            names: parking_lot::Mutex::default(),
            dns: crate::upstream::Dns::default(),
            authority: config.authority,
            vault: Vault::new(config.secrets),
            way: config.way,
            tls: std::sync::OnceLock::new(),
            held: HeldBytes::default(),
        });
        (Self { shared, sockets }, handle)
    }

    /// Returns the session's memory for bodies that are held.
    pub(crate) fn held(&self) -> HeldBytes {
        self.shared.held.clone()
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let outward = self.sockets.outward.iter().map(AsFd::as_fd);
        let loopback = self.sockets.loopback.iter().map(AsFd::as_fd);
        outward.chain(loopback).chain([self.sockets.names.as_fd()])
    }

    /// Starts serving on the runtime of the calling task, until that runtime ends.
    ///
    /// # Errors
    /// Returns an error if a socket could not be registered.
    pub(crate) fn start(&self, acceptors: &mut JoinSet<()>) -> io::Result<()> {
        // Lookups run on tasks of a runtime that may be another now.
        self.shared.dns.forget();
        let socket = self.sockets.names.try_clone()?;
        socket.set_nonblocking(true)?;
        let names = tokio::net::UdpSocket::from_std(socket)?;
        acceptors.spawn(dns::serve_udp(names, Arc::clone(&self.shared)));
        for listener in &self.sockets.outward {
            acceptors.spawn(outward::accept(registered(listener)?, Arc::clone(&self.shared)));
        }
        for listener in &self.sockets.loopback {
            acceptors.spawn(loopback::accept(registered(listener)?, Arc::clone(&self.shared)));
        }
        Ok(())
    }
}

/// Returns a copy of a listener for the runtime of the calling task.
fn registered(listener: &TcpListener) -> io::Result<tokio::net::TcpListener> {
    let copy = listener.try_clone()?;
    copy.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(copy)
}
