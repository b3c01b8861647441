//! The doors' sockets are opened here and served outside: no relay runs inside.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Opens a listening TCP socket in this network namespace. A transparent one also takes
/// connections to other addresses that the kernel's rules give it (`IP_TRANSPARENT`, ip(7)), which
/// needs CAP_NET_ADMIN over the namespace.
///
/// # Errors
/// Returns what socket(2), setsockopt(2), bind(2) and listen(2) say.
pub fn listen(address: SocketAddr, transparent: bool) -> Result<OwnedFd, Errno> {
    const BACKLOG: i32 = 1024;
    let socket = socket(family(address), SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if transparent {
        match address {
            SocketAddr::V4(_) => switch_on(&socket, libc::SOL_IP, libc::IP_TRANSPARENT)?,
            SocketAddr::V6(_) => switch_on(&socket, libc::SOL_IPV6, libc::IPV6_TRANSPARENT)?,
        }
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Opens a UDP socket for a port of every IPv4 address.
///
/// # Errors
/// Returns what socket(2), setsockopt(2) and bind(2) say.
pub fn datagrams(port: u16) -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM)?;
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
    Ok(socket)
}

/// Makes a TCP socket that can be connected to either family of addresses, where the kernel has
/// both.
///
/// # Errors
/// Returns the error of `socket(2)`.
pub fn outlet() -> Result<OwnedFd, Errno> {
    let socket = match socket(AddressFamily::INET6, SocketType::STREAM) {
        Ok(socket) => socket,
        Err(_) => return self::socket(AddressFamily::INET, SocketType::STREAM),
    };
    sockopt::set_ipv6_v6only(&socket, false)?;
    Ok(socket)
}

/// Opens a Unix socket that is at no path yet: it can be made before there is a root to lie in.
///
/// # Errors
/// Returns the error of `socket(2)`.
pub fn unix() -> Result<OwnedFd, Errno> {
    socket(AddressFamily::UNIX, SocketType::STREAM)
}

/// Puts a Unix socket at a path, for this user alone, and listens.
///
/// # Errors
/// Returns what bind(2), chmod(2) and listen(2) say.
pub fn listen_at(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    const BACKLOG: i32 = 128;
    rustix::net::bind(socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(socket, BACKLOG)
}

/// Sets an option that is a number to 1.
fn switch_on(socket: &OwnedFd, level: i32, option: i32) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: setsockopt reads `size` bytes of `on`, which outlives the call.
    let returned = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size)
    };
    if returned == 0 {
        return Ok(());
    }
    let code = std::io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(code.unwrap_or(libc::EIO)))
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None)
}
