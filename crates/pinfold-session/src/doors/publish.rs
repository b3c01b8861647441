//! Ports inside that the host can reach: the listeners, and sockets for their connections.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pinfold_egress::{Journal, Published, Publishing, SocketSupply, socket_supply};
use pinfold_policy::origin::Valued;
use pinfold_policy::settings::PublishedPort;
use rustix::event::{EventfdFlags, eventfd};

use crate::RunError;

/// The supervisor's end of the supply.
pub(crate) struct Sockets {
    pub(crate) supply: SocketSupply,
    /// Counts the sockets that are asked for (eventfd(2)).
    wishes: OwnedFd,
}

impl Sockets {
    /// Returns a descriptor that is readable when sockets are asked for.
    pub(crate) fn waiting(&self) -> BorrowedFd<'_> {
        self.wishes.as_fd()
    }

    /// Returns how many were asked for since the last look.
    pub(crate) fn wanted(&self) -> u64 {
        /// More at once than this wait for the caller's next turn.
        const MOST: u64 = 64;
        let mut count = [0; 8];
        match rustix::io::read(&self.wishes, &mut count) {
            Ok(8) => u64::from_ne_bytes(count).min(MOST),
            _ => 0,
        }
    }
}

/// Opens the listeners.
///
/// # Errors
/// Returns an error for an address that cannot be listened on, with the hint.
pub(crate) fn open(
    ports: &[Valued<PublishedPort>],
    journal: Arc<dyn Journal>,
) -> Result<(Publishing, Sockets), RunError> {
    let listen = |port: &Valued<PublishedPort>| {
        let PublishedPort { host, sandbox } = port.value;
        let listener = TcpListener::bind(host).map_err(|error| {
            let hint = format!("end what listens there, or publish another port (8080:{sandbox})");
            RunError::refused(format!("{host} by {}: {error}", port.origin), Some(hint))
        })?;
        Ok(Published { listener, port: sandbox })
    };
    let published = ports.iter().map(listen).collect::<Result<_, RunError>>()?;
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let system = |error: io::Error| RunError::System(error);
    let wishes = eventfd(0, flags).map_err(|errno| system(errno.into()))?;
    let wish = wishes.try_clone().map_err(system)?;
    let ask = move || {
        // The counter overflows after more wishes than there are sockets.
        let _ = rustix::io::write(&wish, &1_u64.to_ne_bytes());
    };
    let (supply, stock) = socket_supply(Box::new(ask));
    Ok((Publishing { published, stock, journal }, Sockets { supply, wishes }))
}
