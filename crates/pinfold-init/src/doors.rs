//! Listeners are opened here and served outside: no relay runs inside.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Opens a listening TCP socket in this network namespace.
///
/// # Errors
/// What socket(2), bind(2) and listen(2) say.
pub fn listen(address: SocketAddr) -> Result<OwnedFd, Errno> {
    const BACKLOG: i32 = 1024;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}
