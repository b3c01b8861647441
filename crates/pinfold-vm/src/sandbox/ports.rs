//! Streams to ports of a guest: the supervisor makes them, and the ferry opens them in the guest.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use pinfold_mux::{HostFerry, Local};
use pinfold_wire::{Channel, ChannelError, Wire as _};
use rustix::io::Errno;

use crate::guest::PortRequest;

/// Streams that are left for what init is sent.
const RESERVED: u32 = 16;
/// Requests that wait for a stream at once.
const MOST_WAITING: usize = 64;

/// The supervisor's side.
#[derive(Debug)]
pub(super) struct Ports(Channel);

/// The ferry's side.
#[derive(Debug)]
pub(super) struct AskedPorts {
    asked: Channel,
    /// What no stream is left for yet.
    waiting: VecDeque<(PortRequest, Local)>,
}

/// Returns both sides.
///
/// # Errors
/// Returns the error of `socketpair(2)`.
pub(super) fn ports() -> Result<(Ports, AskedPorts), ChannelError> {
    let (ports, asked) = Channel::pair()?;
    Ok((Ports(ports), AskedPorts { asked, waiting: VecDeque::new() }))
}

impl Ports {
    /// Returns a stream to a port of the guest's loopback. It ends at once where nobody listens.
    ///
    /// # Errors
    /// Returns an error if it cannot be made, or the machine has ended.
    pub(super) fn stream_to(&self, port: u16) -> Result<OwnedFd, ChannelError> {
        let (near, far) = UnixStream::pair().map_err(|_| Errno::MFILE)?;
        self.0.send(&PortRequest(port), &[far.as_fd()])?;
        Ok(near.into())
    }
}

impl AskedPorts {
    /// Returns what is readable when a stream is asked for.
    pub(super) fn asked(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }

    /// Takes the next request. One too many ends at once, so that the supervisor waits for none.
    pub(super) fn take(&mut self) {
        if let Ok(Some(received)) = self.asked.receive::<PortRequest>()
            && let Some(stream) = received.descriptors.into_iter().next()
            && let Ok(local) = Local::socket(stream)
            && self.waiting.len() < MOST_WAITING
        {
            self.waiting.push_back((received.message, local));
        }
    }

    /// Opens what waits, as far as there are streams. One that cannot be opened ends at once.
    pub(super) fn open(&mut self, ferry: &mut HostFerry) {
        while ferry.opens_left() > RESERVED
            && let Some((request, local)) = self.waiting.pop_front()
        {
            let _ = ferry.open_stream(&request.encode(), local);
        }
    }
}

#[cfg(test)]
mod tests;
