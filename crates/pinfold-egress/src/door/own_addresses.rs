//! Which addresses are this machine's own, by the kernel's routes (rtnetlink(7)).
//!
//! A route of the kind `local` is one of an interface's address, or one that was made by itself: a load balancer's address, for
//! which connections arrive that are for it (Google's clouds make such routes).

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Bytes of a message's head: length, kind, flags, number and sender (netlink(7)).
const HEAD: usize = 16;
/// Bytes of a route's head: family, lengths of two prefixes, service, table, protocol, scope, kind and flags.
const ROUTE_HEAD: usize = 12;
/// Kinds of messages.
const ERROR: u16 = 2;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// The route as it was made, which names its interface (`RTM_F_FIB_MATCH`, Linux 4.13).
const AS_MADE: u32 = 0x2000;
/// Attributes: the address, and the interface that the route leads to.
const ADDRESS: u16 = 1;
const INTERFACE: u16 = 4;
/// Kinds of routes that end at this machine (linux/rtnetlink.h): `RTN_LOCAL` and `RTN_ANYCAST`.
const OWN: [u8; 2] = [2, 4];
/// The loopback interface of each network namespace. It has other addresses than its own only where an administrator
/// has put them.
const LOOPBACK: u32 = 1;
/// What the kernel says of an address to which no connection can be made.
const UNREACHABLE: [Errno; 4] =
    [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::OPNOTSUPP, Errno::AFNOSUPPORT];
/// Bytes that are read at once, far more than a route has.
const ROOM: usize = 8 << 10;

/// A socket to the kernel's routes.
pub(super) struct Routes(OwnedFd);

impl Routes {
    /// Opens a socket to the kernel.
    ///
    /// # Errors
    /// Returns the error of `socket(2)`.
    pub(super) fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        Ok(Self(socket_with(family, kind, SocketFlags::CLOEXEC, None)?))
    }

    /// Returns whether connections to an address end at this machine, and not at its loopback interface.
    ///
    /// # Errors
    /// Returns the error of the socket, or of the kernel's answer.
    pub(super) fn is_own(&self, address: IpAddr) -> io::Result<bool> {
        let request = question(address.to_canonical());
        rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &request))?;
        let mut room = [0; ROOM];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut room))?;
        is_own_route(&room[..length])
    }
}

/// Returns the request for the route to an address.
fn question(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
    };
    let attribute = 4 + bytes.len();
    let mut request = ((HEAD + ROUTE_HEAD + attribute) as u32).to_ne_bytes().to_vec();
    request.extend(GET_ROUTE.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.resize(HEAD, 0);
    request.extend([family.as_raw() as u8, 8 * bytes.len() as u8]);
    request.resize(HEAD + ROUTE_HEAD - 4, 0);
    request.extend(AS_MADE.to_ne_bytes());
    request.extend((attribute as u16).to_ne_bytes());
    request.extend(ADDRESS.to_ne_bytes());
    request.extend(bytes);
    request
}

/// Returns whether an answer is a route that ends at this machine.
///
/// # Errors
/// Returns an error for an answer that is another one, or that is cut short.
fn is_own_route(answer: &[u8]) -> io::Result<bool> {
    let cut = || io::Error::from(io::ErrorKind::InvalidData);
    let length = number(answer, 0).ok_or_else(cut)? as usize;
    let kind = short(answer, 4).ok_or_else(cut)?;
    let message = answer.get(HEAD..length).ok_or_else(cut)?;
    match kind {
        ERROR => {
            let code = number(message, 0).ok_or_else(cut)?.wrapping_neg();
            let errno = Errno::from_raw_os_error(i32::try_from(code).map_err(|_| cut())?);
            if UNREACHABLE.contains(&errno) { Ok(false) } else { Err(errno.into()) }
        }
        NEW_ROUTE => {
            let kind = message.get(7).ok_or_else(cut)?;
            let attributes = message.get(ROUTE_HEAD..).ok_or_else(cut)?;
            Ok(OWN.contains(kind) && interface_of(attributes) != Some(LOOPBACK))
        }
        _ => Err(cut()),
    }
}

/// Returns the number of the interface that a route's attributes name.
fn interface_of(mut attributes: &[u8]) -> Option<u32> {
    while let (Some(length), Some(kind)) = (short(attributes, 0), short(attributes, 2)) {
        let value = attributes.get(4..usize::from(length))?;
        if kind == INTERFACE {
            return number(value, 0);
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..)?;
    }
    None
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEAD + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEAD, 0);
        message.extend(body);
        message
    }

    fn route(kind: u8, interface: u32) -> Vec<u8> {
        let mut body = vec![0; ROUTE_HEAD];
        body[7] = kind;
        for (kind, value) in [(15, 255_u32), (INTERFACE, interface)] {
            body.extend(8_u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value.to_ne_bytes());
        }
        message(NEW_ROUTE, &body)
    }

    fn error(errno: Errno) -> Vec<u8> {
        message(ERROR, &(-errno.raw_os_error()).to_ne_bytes())
    }

    #[test]
    fn routes_that_end_here_are_own_except_those_of_the_loopback_interface() {
        for (kind, interface, is_own) in
            [(2, 2, true), (4, 3, true), (2, LOOPBACK, false), (1, 2, false), (7, 2, false)]
        {
            assert_eq!(
                is_own_route(&route(kind, interface)).unwrap(),
                is_own,
                "{kind} {interface}"
            );
        }
        assert!(!is_own_route(&error(Errno::NETUNREACH)).unwrap());
        assert!(is_own_route(&error(Errno::PERM)).is_err());
        assert!(is_own_route(&error(Errno::INVAL)).is_err());
        let whole = route(2, 2);
        for cut in
            [&whole[..3], &whole[..HEAD], &whole[..HEAD + 5], &[0; HEAD][..], &message(3, b"")]
        {
            assert!(is_own_route(cut).is_err(), "{cut:?}");
        }
    }

    #[test]
    fn kernel_takes_no_address_of_the_loopback_interface_for_own() {
        let routes = Routes::open().unwrap();
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "2001:db8::1", "192.0.2.1"] {
            assert!(!routes.is_own(address.parse().unwrap()).unwrap(), "{address}");
        }
    }
}
