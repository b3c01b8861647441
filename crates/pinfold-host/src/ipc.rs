//! How processes of this program and of one user talk to each other: sockets that keep messages
//! apart and carry descriptors, with messages as JSON.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_wire::{Channel, DecodeError, Wire};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, Mode};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::io::timespec;

/// Who may wait to be accepted.
const BACKLOG: i32 = 64;

/// Listens at a name in a directory. Accepting does not wait.
///
/// # Errors
/// Returns what open(2), bind(2) and listen(2) say.
pub fn listen(directory: &Path, name: &str) -> io::Result<OwnedFd> {
    listen_with(SocketType::SEQPACKET, directory, name)
}

/// Listens for streams of bytes at a name in a directory. Accepting does not wait.
///
/// # Errors
/// Returns the errors of [`listen`].
pub fn listen_stream(directory: &Path, name: &str) -> io::Result<UnixListener> {
    listen_with(SocketType::STREAM, directory, name).map(UnixListener::from)
}

fn listen_with(kind: SocketType, directory: &Path, name: &str) -> io::Result<OwnedFd> {
    let (directory, socket) = (File::open(directory)?, socket(kind)?);
    rustix::net::bind(&socket, &SocketAddrUnix::new(in_directory(&directory, name))?)?;
    // Before anybody can connect.
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::chmodat(&directory, name, mode, AtFlags::empty())?;
    rustix::net::listen(&socket, BACKLOG)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Connects to who listens there, who may take so long to have a place free, and later to take a
/// message.
///
/// # Errors
/// Returns the error of `open(2)` and `connect(2)`.
pub fn connect(directory: &Path, name: &str, patience: Duration) -> io::Result<Channel> {
    connect_with(SocketType::SEQPACKET, directory, name, patience).map(Channel::from)
}

/// Connects a stream of bytes to a name in a directory.
///
/// # Errors
/// Returns the errors of [`connect`].
pub fn connect_stream(directory: &Path, name: &str, patience: Duration) -> io::Result<UnixStream> {
    connect_with(SocketType::STREAM, directory, name, patience).map(UnixStream::from)
}

/// Waits so long for a message. Returns whether there is one, or the peer is gone.
///
/// # Errors
/// Returns the error of `poll(2)`.
pub fn wait(channel: &Channel, patience: Duration) -> io::Result<bool> {
    let patience = timespec(patience);
    let mut ready = [PollFd::new(channel, PollFlags::IN)];
    let count = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&patience)))?;
    Ok(count > 0)
}

fn connect_with(
    kind: SocketType,
    directory: &Path,
    name: &str,
    patience: Duration,
) -> io::Result<OwnedFd> {
    let (directory, socket) = (File::open(directory)?, socket(kind)?);
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(in_directory(&directory, name))?)?;
    Ok(socket)
}

fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Returns the path of a socket by way of a descriptor. A socket's path has room for 107 bytes (unix(7)); by
/// way of a descriptor any directory fits.
fn in_directory(directory: &File, name: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()).into()
}

/// A message as JSON.
#[derive(Debug)]
pub struct Json<M>(pub M);

impl<M: Serialize + DeserializeOwned> Wire for Json<M> {
    /// Encodes a message, which is never empty: an empty one ends the conversation.
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).unwrap_or_default()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(message).map(Self).map_err(|_| DecodeError::CutShort)
    }
}
