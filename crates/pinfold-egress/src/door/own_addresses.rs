//! The addresses of this machine's network interfaces, as the kernel lists them (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Bytes of a message's head: length, kind, flags, number and sender (netlink(7)).
const HEAD: usize = 16;
/// Bytes of an address's head: family, length of the prefix, flags, scope and interface.
const ADDRESS_HEAD: usize = 8;
/// Kinds of messages.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// A request for all of them.
const ALL: u16 = 0x301;
/// Attributes: the address, which of a link between two points is the other end's, and this end's.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
/// The loopback interface of each network namespace. It has other addresses than its own only where an administrator
/// has put them.
const LOOPBACK: u32 = 1;
/// Bytes that are read at once; the kernel writes at most half of it.
const ROOM: usize = 64 << 10;

/// Returns the addresses of this machine, apart from those of its loopback interface.
///
/// # Errors
/// Returns the error of the socket, or of the kernel's answer.
pub(super) fn of_interfaces() -> io::Result<Vec<IpAddr>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let length = (HEAD + ADDRESS_HEAD) as u32;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(GET_ADDRESS.to_ne_bytes());
    request.extend(ALL.to_ne_bytes());
    request.resize(HEAD + ADDRESS_HEAD, 0);
    rustix::io::write(&socket, &request)?;
    let (mut addresses, mut room) = (Vec::new(), vec![0; ROOM]);
    loop {
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&socket, &mut room[..]))?;
        let is_last = read_messages(&room[..length], &mut addresses)?;
        if is_last {
            return Ok(addresses);
        }
    }
}

/// Adds the addresses of some messages; whether no more follow.
///
/// # Errors
/// Returns an error for a message that is one, or that is cut short.
fn read_messages(mut bytes: &[u8], addresses: &mut Vec<IpAddr>) -> io::Result<bool> {
    let cut = || io::Error::from(io::ErrorKind::InvalidData);
    while !bytes.is_empty() {
        let length = number(bytes, 0).ok_or_else(cut)? as usize;
        let kind = short(bytes, 4).ok_or_else(cut)?;
        let message = bytes.get(HEAD..length).ok_or_else(cut)?;
        match kind {
            DONE => return Ok(true),
            ERROR => return Err(io::Error::other("the kernel does not list its addresses")),
            NEW_ADDRESS => addresses.extend(address_of(message)),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Returns the address that a message is about; none if it is of the loopback interface.
fn address_of(message: &[u8]) -> Option<IpAddr> {
    if number(message, 4)? == LOOPBACK {
        return None;
    }
    let mut attributes = message.get(ADDRESS_HEAD..)?;
    let (mut own, mut other) = (None, None);
    while let (Some(length), Some(kind)) = (short(attributes, 0), short(attributes, 2)) {
        let Some(value) = attributes.get(4..usize::from(length)) else { break };
        match kind {
            LOCAL => own = address(value),
            ADDRESS => other = address(value),
            _ => {}
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    own.or(other)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
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

    fn body(interface: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(interface.to_ne_bytes());
        for (kind, value) in attributes {
            body.extend((4 + value.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
        }
        body
    }

    #[test]
    fn addresses_are_those_of_this_end_and_of_no_loopback_interface() {
        let v6: std::net::Ipv6Addr = "2001:db8::7".parse().unwrap();
        let both = body(2, &[(ADDRESS, &[198, 51, 100, 9]), (LOCAL, &[203, 0, 113, 5])]);
        let bytes = [
            message(NEW_ADDRESS, &body(1, &[(ADDRESS, &[127, 0, 0, 1])])),
            message(NEW_ADDRESS, &both),
            message(NEW_ADDRESS, &body(3, &[(ADDRESS, &v6.octets()), (9, b"abcd")])),
        ]
        .concat();
        let mut addresses = Vec::new();
        assert!(!read_messages(&bytes, &mut addresses).unwrap());
        assert_eq!(addresses, ["203.0.113.5".parse::<IpAddr>().unwrap(), v6.into()]);
        assert!(read_messages(&message(DONE, b""), &mut addresses).unwrap());
        assert!(read_messages(&message(ERROR, b""), &mut addresses).is_err());
        for cut in [&bytes[..3], &bytes[..HEAD + 1], &[0; HEAD]] {
            assert!(read_messages(cut, &mut addresses).is_err(), "{cut:?}");
        }
    }

    #[test]
    fn kernel_lists_no_address_of_the_loopback_interface() {
        assert!(of_interfaces().unwrap().iter().all(|address| !address.is_loopback()));
    }
}
