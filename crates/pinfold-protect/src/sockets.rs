//! Whether anybody listens at a Unix socket's file.

use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Returns whether no socket is bound to this file any more. It never will be again, since bind(2)
/// always makes a new file.
///
/// The kernel is asked by connecting a datagram socket: it finds the bound socket first and then compares
/// the types (`unix_find_bsd` in net/unix/af_unix.c). So a listener never hears of it, and nothing is sent
/// to a datagram socket. Anything but "nobody is there" counts as bound.
pub fn is_dead(path: &Path) -> bool {
    connect(path) == Err(Errno::CONNREFUSED)
}

/// Connects to a socket, whose path may be long.
///
/// # Errors
/// Returns the error of open(2) or connect(2).
fn connect(path: &Path) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    // By the descriptor: a socket's path has room for 107 bytes (unix(7)), and the file stays the same.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &address)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::is_dead;

    #[test]
    fn a_socket_is_dead_once_its_owner_has_closed_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_dead(&path));
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(listener);
        assert!(is_dead(&path));
    }

    #[test]
    fn a_datagram_socket_is_not_dead_and_receives_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        assert!(!is_dead(&path));
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(socket);
        assert!(is_dead(&path));
    }

    #[test]
    fn a_long_path_is_judged_and_a_missing_one_is_not_dead() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let short = directory.path().join("socket");
        drop(UnixListener::bind(&short).unwrap());
        let long = deep.join("socket");
        std::fs::rename(&short, &long).unwrap();
        assert!(is_dead(&long));
        assert!(!is_dead(&short));
    }
}
