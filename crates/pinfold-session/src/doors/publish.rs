//! Ports inside that the host can reach: the listeners, and sockets for their connections.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pinfold_egress::{Journal, Published, Publishing, SocketSupply, socket_supply};
use pinfold_policy::origin::Valued;
use pinfold_policy::settings::PublishedPort;
use rustix::pipe::PipeFlags;

use crate::RunError;

/// The supervisor's end of the supply.
pub(crate) struct Sockets {
    pub(crate) supply: SocketSupply,
    /// The ports to which ways are asked for, two bytes each (pipe(7)).
    wishes: OwnedFd,
    /// Its other end: without one, `wishes` would be readable for ever.
    _wish: OwnedFd,
}

impl Sockets {
    /// Returns a descriptor that is readable when sockets or streams are asked for.
    pub(crate) fn waiting(&self) -> BorrowedFd<'_> {
        self.wishes.as_fd()
    }

    /// Returns the ports that were asked for since the last look. More than 64 wait for the caller's next turn.
    pub(crate) fn wanted(&self) -> Vec<u16> {
        let mut ports = [0; 2 * 64];
        let count = rustix::io::read(&self.wishes, &mut ports).unwrap_or_default();
        let (ports, _) = ports[..count].as_chunks();
        ports.iter().map(|port| u16::from_ne_bytes(*port)).collect()
    }
}

/// Returns what to do about an address that cannot be listened on.
fn hint(error: &io::Error, sandbox: u16) -> String {
    const FIRST: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    match error.kind() {
        // ip(7): only root may have the ports below.
        io::ErrorKind::PermissionDenied => {
            let first = std::fs::read_to_string(FIRST).unwrap_or_default();
            let first = first.trim().parse().unwrap_or(1024_u16);
            format!("ports below {first} are root's: publish another one (8080:{sandbox})")
        }
        io::ErrorKind::AddrNotAvailable => {
            "`ip address` shows the addresses of this machine".to_owned()
        }
        _ => format!("end what listens there, or publish another port (8080:{sandbox})"),
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
            let hint = hint(&error, sandbox);
            RunError::refused(format!("{host} by {}: {error}", port.origin), Some(hint))
        })?;
        Ok(Published { listener, port: sandbox })
    };
    let published = ports.iter().map(listen).collect::<Result<_, RunError>>()?;
    let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
    let (wishes, wish) = pipe.map_err(|errno| RunError::System(errno.into()))?;
    let kept = wish.try_clone().map_err(RunError::System)?;
    let ask = move |port: u16| {
        // A pipe holds more wishes than there are sockets.
        let _ = rustix::io::write(&wish, &port.to_ne_bytes());
    };
    let (supply, stock) = socket_supply(Box::new(ask));
    Ok((Publishing { published, stock, journal }, Sockets { supply, wishes, _wish: kept }))
}
