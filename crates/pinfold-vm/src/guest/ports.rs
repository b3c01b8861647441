//! Ports of a guest that its host publishes: the host opens a stream, and it becomes a connection here.
//!
//! The first process is in the network of the sandbox, as its doors are. No socket of that network leaves a machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use pinfold_mux::{GuestFerry, Local, StreamId};
use pinfold_wire::{DecodeError, Wire};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Begins the label of a stream to a port, which follows as two bytes in network order.
const LABEL: [u8; 4] = *b"port";
/// How long a server may take to accept. One whose queue has room does so at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at connections that have not come about.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks for a connection to a port. As a message it is the label of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortRequest(pub(crate) u16);

impl Wire for PortRequest {
    fn encode(&self) -> Vec<u8> {
        [&LABEL[..], &self.0.to_be_bytes()].concat()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let port = message.strip_prefix(&LABEL).and_then(|port| port.try_into().ok());
        let wrong = DecodeError::Unknown { what: "request for a port", value: 0 };
        Ok(Self(u16::from_be_bytes(port.ok_or(wrong)?)))
    }
}

/// The streams to ports that are not connected yet.
#[derive(Debug, Default)]
pub(crate) struct Ports(Vec<Connecting>);

/// A connection that has not come about.
#[derive(Debug)]
struct Connecting {
    stream: StreamId,
    socket: OwnedFd,
    /// Where a server may listen instead.
    next: Option<SocketAddr>,
    until: Instant,
}

impl Ports {
    /// Returns how long to wait until there is something to do, if nothing comes.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        (!self.0.is_empty()).then_some(PAUSE)
    }

    /// Connects what the host has opened, on IPv4, or on IPv6 where no server listens there.
    pub(crate) fn serve(&mut self, ferry: &mut GuestFerry) {
        for (stream, label) in ferry.take_streams() {
            let request = PortRequest::decode(&label).ok();
            match request.and_then(|PortRequest(port)| Connecting::begin(stream, port)) {
                Some(connecting) => self.0.push(connecting),
                None => ferry.refuse_stream(stream),
            }
        }
        for mut connecting in std::mem::take(&mut self.0) {
            match connecting.turn() {
                Ok(false) => self.0.push(connecting),
                Ok(true) => match Local::socket(connecting.socket) {
                    Ok(local) => ferry.attach_stream(connecting.stream, local),
                    Err(_) => ferry.refuse_stream(connecting.stream),
                },
                Err(_) => ferry.refuse_stream(connecting.stream),
            }
        }
    }
}

impl Connecting {
    fn begin(stream: StreamId, port: u16) -> Option<Self> {
        let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let (first, next) = (SocketAddr::from((v4, port)), SocketAddr::from((v6, port)));
        let until = Instant::now() + PATIENCE;
        match connect(first) {
            Ok(socket) => Some(Self { stream, socket, next: Some(next), until }),
            Err(_) => Some(Self { stream, socket: connect(next).ok()?, next: None, until }),
        }
    }

    /// Returns whether it is connected.
    ///
    /// # Errors
    /// Returns why it never will be.
    fn turn(&mut self) -> io::Result<bool> {
        let mut ready = [PollFd::new(&self.socket, PollFlags::OUT)];
        if rustix::event::poll(&mut ready, Some(&Timespec::default()))? == 0 {
            let is_late = Instant::now() >= self.until;
            return if is_late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(false) };
        }
        let Err(error) = sockopt::socket_error(&self.socket)? else { return Ok(true) };
        self.socket = connect(self.next.take().ok_or(error)?)?;
        Ok(false)
    }
}

/// Begins to connect a socket.
fn connect(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}
