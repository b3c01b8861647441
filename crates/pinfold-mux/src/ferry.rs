//! Carries the messages of a socket over a channel, with the descriptors that ride along.
//!
//! No descriptor crosses a channel. [`HostFerry`] opens a stream for each, and says in which message it came.
//! [`GuestFerry`] makes a socket pair or pipe for it, and sends the message on with an end of that. Who is behind either end
//! speaks as if no machine were between. In the other direction messages go alone: nothing that is made in a guest leaves it.
//!
//! A pipe or file is carried in the direction for which it is open, and becomes non-blocking for all that share it.

mod guest;
mod host;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::multiplexer::MAX_MESSAGE;
pub use guest::GuestFerry;
pub use host::HostFerry;

/// Descriptors of one message at most.
const MOST: usize = 16;
/// The streams of messages, and the first byte of the label of a descriptor's.
const ORDERS: &[u8] = b"orders";
const REPORTS: &[u8] = b"reports";
/// A stream that the guest opens when it has nothing more to say.
const END: &[u8] = b"end";
const DESCRIPTOR: u8 = b'd';

/// What a descriptor is to the process that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Socket,
    Messages,
    /// It is read from.
    Input,
    /// It is written to.
    Output,
}

impl Kind {
    /// Returns what a descriptor is, unless it cannot be carried.
    fn of(descriptor: BorrowedFd<'_>) -> Option<Self> {
        match rustix::net::sockopt::socket_type(descriptor) {
            Ok(SocketType::STREAM) => return Some(Self::Socket),
            Ok(SocketType::SEQPACKET) => return Some(Self::Messages),
            Err(Errno::NOTSOCK) => {}
            _ => return None,
        }
        let flags = rustix::fs::fcntl_getfl(descriptor).ok()?;
        match flags & OFlags::RWMODE {
            OFlags::RDONLY => Some(Self::Input),
            OFlags::WRONLY => Some(Self::Output),
            _ => None,
        }
    }

    fn label(self, tag: u32) -> [u8; 6] {
        let kind = match self {
            Self::Socket => b's',
            Self::Messages => b'm',
            Self::Input => b'i',
            Self::Output => b'o',
        };
        let [a, b, c, d] = tag.to_le_bytes();
        [DESCRIPTOR, kind, a, b, c, d]
    }

    fn parse(label: &[u8]) -> Option<(Self, u32)> {
        let [DESCRIPTOR, kind, a, b, c, d] = *label else { return None };
        let kind = match kind {
            b's' => Self::Socket,
            b'm' => Self::Messages,
            b'i' => Self::Input,
            b'o' => Self::Output,
            _ => return None,
        };
        Some((kind, u32::from_le_bytes([a, b, c, d])))
    }
}

fn messages() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Receives a message without waiting for it. An empty one is the end. Where there was no room for all of its
/// descriptors, it has none.
fn receive(socket: impl AsFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let mut bytes = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)
    })?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            descriptors.extend(more);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(Errno::MSGSIZE);
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        descriptors.clear();
    }
    bytes.truncate(received.bytes);
    Ok((bytes, descriptors))
}

/// Sends a message without waiting for room.
fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut send = || rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, flags);
    rustix::io::retry_on_intr(&mut send).map(drop)
}

#[cfg(test)]
mod tests;
