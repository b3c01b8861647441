//! A pair of connected `SOCK_SEQPACKET` sockets (unix(7)): messages keep their borders, and
//! descriptors ride along.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use thiserror::Error;

use crate::codec::{DecodeError, MAX_MESSAGE};
use crate::message::{Bounds, LastSteps, LaunchOrder, Mask, Order, Program, Streams, Wire};

/// The most descriptors that one message carries.
pub const MAX_DESCRIPTORS: usize = 9;

/// How often, and each time how much later, descriptors are tried again that could not go.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(2);

/// Why a message could not be sent or received.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The system refused.
    #[error("control channel: {0}")]
    Io(#[from] Errno),
    /// The peer sent what is no message.
    #[error("control channel: {0}")]
    Decode(#[from] DecodeError),
    /// The peer sent more than fits.
    #[error("control channel: message or descriptors larger than agreed")]
    TooLarge,
}

/// A message with the descriptors that came with it.
#[derive(Debug)]
pub struct Received<M> {
    pub message: M,
    /// The descriptors, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// One end.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Returns both ends, close-on-exec.
    ///
    /// # Errors
    /// Returns the error of `socketpair(2)`.
    pub fn pair() -> Result<(Self, Self), ChannelError> {
        let (left, right) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(left), Self(right)))
    }

    /// Sends one message with descriptors. While this process's user has more of them on their way than
    /// this process may open (`ETOOMANYREFS`, unix(7)), whichever process sent them, it waits for 20
    /// ms; then the message goes without any, as it comes where there is no room for them.
    ///
    /// # Errors
    /// Returns `TooLarge` for more than [`MAX_MESSAGE`] bytes or [`MAX_DESCRIPTORS`]; `Io` when the
    /// peer is gone (`EPIPE`; no signal is raised).
    pub fn send<M: Wire>(
        &self,
        message: &M,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let bytes = message.encode();
        if bytes.len() > MAX_MESSAGE || descriptors.len() > MAX_DESCRIPTORS {
            return Err(ChannelError::TooLarge);
        }
        for _ in 0..TRIES {
            match self.send_bytes(&bytes, descriptors) {
                Err(Errno::TOOMANYREFS) => std::thread::sleep(PAUSE),
                sent => return Ok(sent?),
            }
        }
        Ok(self.send_bytes(&bytes, &[])?)
    }

    fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            // There is room for as many as a message carries.
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let slices = [IoSlice::new(bytes)];
        let mut send =
            || rustix::net::sendmsg(&self.0, &slices, &mut ancillary, SendFlags::NOSIGNAL);
        rustix::io::retry_on_intr(&mut send).map(drop)
    }

    /// Sends one message if there is room for it.
    ///
    /// # Errors
    /// Returns `EAGAIN` where no message waits, `EPIPE` when the peer is gone.
    pub fn offer<M: Wire>(&self, message: &M) -> Result<(), Errno> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let send = || rustix::net::send(&self.0, &message.encode(), flags);
        rustix::io::retry_on_intr(send).map(drop)
    }

    /// Does the same for what can be caused at will, and may be lost.
    pub fn mention<M: Wire>(&self, message: &M) {
        let _ = self.offer(message);
    }

    /// Receives one message, waiting for it; `None` when the peer is gone. Where this process has no
    /// room for all of its descriptors, they could not go, or there are more than agreed, it comes
    /// without any.
    ///
    /// # Errors
    /// Returns what is no message, or longer than agreed.
    pub fn receive<M: Wire>(&self) -> Result<Option<Received<M>>, ChannelError> {
        let Some(length) = self.next_length()? else { return Ok(None) };
        let mut bytes = vec![0; length.min(MAX_MESSAGE)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let got = retry(|| {
            rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        let descriptors: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(ChannelError::TooLarge);
        }
        let is_whole = !got.flags.contains(ReturnFlags::CTRUNC);
        let descriptors = if is_whole { descriptors } else { Vec::new() };
        if got.bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Received { message: M::decode(&bytes[..got.bytes])?, descriptors }))
    }

    /// Waits for a message and returns its length, `None` when the peer is gone. Room for the
    /// largest would be sixteen pages to be cleared, in each process, for messages of a few bytes.
    fn next_length(&self) -> Result<Option<usize>, ChannelError> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        match retry(|| rustix::net::recv(&self.0, &mut [0_u8; 1], flags))? {
            (_, 0) => Ok(None),
            (_, length) => Ok(Some(length)),
        }
    }

    /// Sends the masks, in as many messages as they need, and with the last ones the order to
    /// seal: a receiver that waits is woken once.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::send`].
    pub fn seal(&self, masks: Vec<Mask>) -> Result<(), ChannelError> {
        let mut batch = Vec::new();
        let mut size = 0;
        for mask in masks {
            // Two paths with their lengths, and the tags.
            let cost = LaunchOrder::Mask(vec![mask.clone()]).encode().len();
            if size + cost > MAX_MESSAGE / 2 && !batch.is_empty() {
                self.send(&LaunchOrder::Mask(std::mem::take(&mut batch)), &[])?;
                size = 0;
            }
            size += cost;
            batch.push(mask);
        }
        self.send(&LaunchOrder::Seal(batch), &[])
    }

    /// Says what the sandbox is to be, in as many messages as it needs. Descriptors go with the last.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::send`].
    pub fn plan<M: Wire>(
        &self,
        plan: &M,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let rest = self.parts(plan, LaunchOrder::Part)?;
        self.send(&LaunchOrder::Plan(rest), descriptors)
    }

    /// Says what is left to do, in as many messages as it needs.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::send`].
    pub fn last_steps(&self, steps: &LastSteps) -> Result<(), ChannelError> {
        let rest = self.parts(steps, LaunchOrder::Part)?;
        self.send(&LaunchOrder::LastSteps(rest), &[])
    }

    /// Says what the command will be, in as many messages as it needs. The descriptors are those
    /// that its streams ask for, in their order.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::send`].
    pub fn command(
        &self,
        program: &Program,
        streams: Streams,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let rest = self.parts(program, LaunchOrder::Part)?;
        self.send(&LaunchOrder::Command { rest, streams }, descriptors)
    }

    /// Orders init to run a program next to the command. Its end is reported with this id.
    ///
    /// # Errors
    /// Returns the errors of [`Channel::send`].
    pub fn run(
        &self,
        id: u32,
        bounds: Bounds,
        program: &Program,
        streams: Streams,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let rest = self.parts(program, Order::Part)?;
        self.send(&Order::Run { id, bounds, rest, streams }, descriptors)
    }

    /// Sends what an order has no room for, and returns the rest.
    fn parts<M: Wire, P: Wire>(
        &self,
        whole: &M,
        part: fn(Vec<u8>) -> P,
    ) -> Result<Vec<u8>, ChannelError> {
        const MOST: usize = MAX_MESSAGE / 2;
        let mut rest = whole.encode();
        while rest.len() > MOST {
            let left = rest.split_off(MOST);
            self.send(&part(rest), &[])?;
            rest = left;
        }
        Ok(rest)
    }
}

/// Repeats what a signal interrupted, and what comes instead of a message: that the peer has gone
/// without reading everything (`ECONNRESET`, once, before what it had sent itself; unix(7)).
fn retry<T>(mut receive: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match receive() {
            Err(Errno::INTR | Errno::CONNRESET) => {}
            done => return done,
        }
    }
}

impl From<OwnedFd> for Channel {
    /// Returns an end that another process has handed over.
    fn from(end: OwnedFd) -> Self {
        Self(end)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
