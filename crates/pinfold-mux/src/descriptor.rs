//! Reading and writing that never wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// A socket, or anything else that can be read and written, made non-blocking.
#[derive(Debug)]
pub(crate) struct Descriptor {
    file: OwnedFd,
    is_socket: bool,
}

impl Descriptor {
    /// Takes a descriptor of a stream.
    ///
    /// # Errors
    /// Returns the error of fstat(2) or ioctl(2).
    pub(crate) fn new(file: OwnedFd) -> Result<Self, Errno> {
        let mode = rustix::fs::fstat(&file)?.st_mode;
        let is_socket = FileType::from_raw_mode(mode) == FileType::Socket;
        if !is_socket {
            rustix::io::ioctl_fionbio(&file, true)?;
        }
        Ok(Self { file, is_socket })
    }

    /// Reads what is there. No bytes are the end.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| {
            if self.is_socket {
                Ok(rustix::net::recv(&self.file, &mut *bytes, RecvFlags::DONTWAIT)?.0)
            } else {
                rustix::io::read(&self.file, &mut *bytes)
            }
        })
    }

    /// Writes what there is room for, without a signal where nobody reads. A pipe raises one unless the process
    /// ignores `SIGPIPE`, as Rust's runtime does.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| {
            if self.is_socket {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(&self.file, bytes, flags)
            } else {
                rustix::io::write(&self.file, bytes)
            }
        })
    }

    /// Returns the length of the next message of a socket that keeps their borders. No bytes are the end.
    pub(crate) fn next_length(&self) -> Result<usize, Errno> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        rustix::io::retry_on_intr(|| Ok(rustix::net::recv(&self.file, &mut [0_u8; 1], flags)?.1))
    }

    /// Drops what a socket that is shut for reading still holds.
    pub(crate) fn drain(&self) {
        let mut buffer = [0; 4096];
        while self.is_socket && matches!(self.read(&mut buffer), Ok(count) if count > 0) {}
    }

    /// Ends one direction. A peer that is gone needs to hear of no end.
    pub(crate) fn shut(&self, direction: Shutdown) {
        if self.is_socket {
            let _ = rustix::net::shutdown(&self.file, direction);
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
