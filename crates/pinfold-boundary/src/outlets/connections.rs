//! Connections to a sandbox's doors, where its programs run on a kernel that passes no descriptor out.
//!
//! The doors' sockets are opened and served as for every sandbox, in the network namespace of the process that made
//! the tree. What connects to them is this process, which stays behind there, in the name of programs elsewhere. So
//! who serves a door sees what it always sees, such as the address that was asked for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::{Channel, DecodeError, Reader, Report, Wire, Writer};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::copied;
use crate::namespace::{close_all_others_for, inside, null};
use crate::plan::Door;
use crate::sys;

/// What a program elsewhere has connected to. It says so itself, and may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorRequest {
    /// The door, by its place in the plan.
    pub door: u32,
    /// The address that it asked for, at an outward door.
    pub to: Option<SocketAddr>,
}

impl Wire for DoorRequest {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let to = self.to.map(|to| to.to_string()).unwrap_or_default();
        writer.u32(self.door).bytes(to.as_bytes());
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let (door, to) = (reader.u32()?, reader.bytes()?);
        reader.finish()?;
        let wrong = DecodeError::Unknown { what: "address of a door", value: 0 };
        let to = match to.as_slice() {
            [] => None,
            text => {
                Some(str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(wrong)?)
            }
        };
        Ok(Self { door, to })
    }
}

/// Leaves a process behind that answers each [`DoorRequest`] with a [`Report::Socket`], which has no descriptor if the
/// door cannot be reached. The fresh root is the working directory.
///
/// # Errors
/// Returns the error of `clone3(2)` or opening the null device.
pub(crate) fn leave_behind(doors: &[Door], channel: &Channel) -> Result<(), Errno> {
    let null = null()?;
    copied(|| {
        if close_all_others_for(&null, &[], channel).is_ok() && sys::drop_capabilities().is_ok() {
            while let Ok(Some(received)) = channel.receive::<DoorRequest>() {
                let socket = connect(doors, received.message).ok();
                let descriptors: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
                if channel.send(&Report::Socket, &descriptors).is_err() {
                    break;
                }
            }
        }
    })
}

/// Connects to a door without waiting.
fn connect(doors: &[Door], request: DoorRequest) -> Result<OwnedFd, Errno> {
    match doors.get(request.door as usize).ok_or(Errno::NOENT)? {
        Door::Unix(path) => {
            let socket = socket(AddressFamily::UNIX, SocketType::STREAM)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(inside(path.as_path()))?)?;
            Ok(socket)
        }
        Door::Listener(address) => connect_to(*address, SocketType::STREAM),
        Door::Datagrams(port) => connect_to((Ipv4Addr::LOCALHOST, *port).into(), SocketType::DGRAM),
        Door::Outward(port) => match request.to {
            Some(to) if is_outward(to, *port) => connect_to(to, SocketType::STREAM),
            _ => Err(Errno::ACCESS),
        },
    }
}

/// Returns whether the kernel of a sandbox hands such an address to the outward door: no other address of its own.
fn is_outward(to: SocketAddr, own: u16) -> bool {
    let address = match to.ip() {
        IpAddr::V6(address) => IpAddr::V6(address).to_canonical(),
        address => address,
    };
    !address.is_unspecified() && (!address.is_loopback() || to.port() == own)
}

fn connect_to(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, kind)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None)
}

#[cfg(test)]
mod tests;
