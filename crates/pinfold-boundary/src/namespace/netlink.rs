//! Netlink messages (netlink(7)): as much as a fixed set of routes and rules needs.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const HEADER: usize = 16;
const ALIGNMENT: usize = 4;
/// Bytes of an acknowledgement that are read: its header and error number come first.
const ACKNOWLEDGEMENT: usize = 8192;

/// Attributes of a message: type and length, value, padding.
#[derive(Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds an attribute.
    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (ALIGNMENT + value.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// Adds a number in network order, as netfilter wants them.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds a string with its final NUL.
    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// Adds attributes within an attribute.
    pub(super) fn nested(self, kind: u16, inner: Self) -> Self {
        const NESTED: u16 = 1 << 15;
        self.bytes(kind | NESTED, &inner.0)
    }
}

/// Messages that are sent together.
#[derive(Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    acknowledged: usize,
}

impl Messages {
    /// Adds a message: its type, flags in addition to `NLM_F_REQUEST`, family header and
    /// attributes.
    pub(super) fn push(&mut self, kind: u16, flags: i32, family: &[u8], attributes: &Attributes) {
        let length = (HEADER + family.len() + attributes.0.len()) as u32;
        let flags = flags | libc::NLM_F_REQUEST;
        self.acknowledged += usize::from(flags & libc::NLM_F_ACK != 0);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags as u16).to_ne_bytes());
        // Sequence number and port: one exchange on a socket of its own needs neither.
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(family);
        self.bytes.extend_from_slice(&attributes.0);
    }

    /// Sends everything to a subsystem of the kernel and waits for each acknowledgement.
    ///
    /// # Errors
    /// Returns an error for the first that the kernel reports.
    pub(super) fn exchange(&self, protocol: u32) -> Result<(), Errno> {
        let socket = open(protocol)?;
        rustix::net::send(&socket, &self.bytes, SendFlags::empty())?;
        let mut left = self.acknowledged;
        while left > 0 {
            let mut buffer = [0; ACKNOWLEDGEMENT];
            // The kernel has answered by the time send returns; nothing waits here.
            let (_, length) =
                rustix::net::recv(&socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
            left -= acknowledgements(&buffer[..length.min(ACKNOWLEDGEMENT)])?.min(left);
        }
        Ok(())
    }
}

fn open(protocol: u32) -> Result<OwnedFd, Errno> {
    let protocol = std::num::NonZero::new(protocol).map(rustix::net::Protocol::from_raw);
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, protocol)
}

/// Counts the good acknowledgements of a datagram.
fn acknowledgements(mut datagram: &[u8]) -> Result<usize, Errno> {
    let mut count = 0;
    while let Some((header, _)) = datagram.split_first_chunk::<HEADER>() {
        let number = |at: usize| datagram.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let length = number(0).map_or(0, u32::from_ne_bytes) as usize;
        let kind = i32::from(u16::from_ne_bytes([header[4], header[5]]));
        if kind == libc::NLMSG_ERROR {
            match number(HEADER).map(i32::from_ne_bytes) {
                Some(0) => count += 1,
                Some(code) => return Err(Errno::from_raw_os_error(code.saturating_neg())),
                None => return Err(Errno::BADMSG),
            }
        }
        let next = length.next_multiple_of(ALIGNMENT).max(HEADER);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    Ok(count)
}
