//! Whose the other end of a connection is, where it lies on this machine (sock_diag(7)).

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `NETLINK_SOCK_DIAG`
const PROTOCOL: u32 = 4;
/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
const TCP: u8 = 6;
/// Bytes of a message's head (netlink(7)).
const HEAD: usize = 16;
/// Bytes of a request: what is asked for, and the addresses of the socket.
const QUESTION: usize = 56;
/// Where an answer has the user: after states, addresses and three numbers.
const USER: usize = HEAD + 64;
/// Bytes that are read at once, far more than an answer has.
const ROOM: usize = 4 << 10;

/// Returns the user who made the socket at `from` that is connected to `to`.
///
/// # Errors
/// Returns the error of the socket; `InvalidData` for a socket that this machine does not have.
pub(super) fn user_of(from: SocketAddr, to: SocketAddr) -> io::Result<u32> {
    let protocol = rustix::net::Protocol::from_raw(PROTOCOL.try_into().map_err(io::Error::other)?);
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))?;
    rustix::io::retry_on_intr(|| rustix::io::write(&kernel, &question(from, to)))?;
    let mut room = [0; ROOM];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&kernel, &mut room))?;
    answer(&room[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (here, there) = (from.ip().to_canonical(), to.ip().to_canonical());
    let family = if here.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut question = ((HEAD + QUESTION) as u32).to_ne_bytes().to_vec();
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    question.resize(HEAD, 0);
    question.extend([family.as_raw() as u8, TCP, 0, 0]);
    // In any state.
    question.extend(u32::MAX.to_ne_bytes());
    question.extend(from.port().to_be_bytes());
    question.extend(to.port().to_be_bytes());
    for (number, address) in [here, there].into_iter().enumerate() {
        match address {
            IpAddr::V4(address) => question.extend(address.octets()),
            IpAddr::V6(address) => question.extend(address.octets()),
        }
        question.resize(HEAD + 12 + 16 * (number + 1), 0);
    }
    // On any interface, and whatever the kernel's number of the socket is.
    question.extend(0_u32.to_ne_bytes());
    question.extend(u64::MAX.to_ne_bytes());
    question
}

fn answer(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let user = u32::from_ne_bytes(*answer.get(USER..)?.first_chunk()?);
    (kind == BY_FAMILY).then_some(user)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn user_of_a_local_connection_is_known_and_no_other_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let to = listener.local_addr().unwrap();
            let client = TcpStream::connect(to).unwrap();
            let from = client.local_addr().unwrap();
            let own = rustix::process::getuid().as_raw();
            assert_eq!(user_of(from, to).unwrap(), own, "{address}");
            let nobody = SocketAddr::from((from.ip(), 1));
            assert!(user_of(nobody, to).is_err(), "{address}");
        }
    }
}
