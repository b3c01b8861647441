//! Where the init of a container finds the process that had it started.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use pinfold_policy::path::HostPath;
use pinfold_wire::Channel;
use rustix::event::Timespec;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, accept_with, bind, listen,
    socket_with, sockopt,
};
use rustix::process::{Pid, PidfdFlags};

use super::SOCKET;
use crate::LaunchError;
use crate::wait::{Waited, wait};

/// The init of a container that has come.
pub(super) struct Met {
    pub(super) channel: Channel,
    /// A descriptor of it.
    pub(super) init: OwnedFd,
    /// Its id here.
    pub(super) pid: Pid,
}

/// Why init has not come.
pub(super) enum NotMet {
    /// The user wants the start to end.
    Interrupted,
    /// What is wrong, in words.
    Failed(String),
}

/// A socket that one process comes to.
pub(super) struct Meeting {
    listener: OwnedFd,
    path: HostPath,
}

impl Meeting {
    /// Opens it in a directory that nobody else can look into.
    ///
    /// # Errors
    /// Returns the error of making a socket there.
    pub(super) fn open(directory: &Path, path: HostPath) -> Result<Self, LaunchError> {
        let made = || -> Result<OwnedFd, Errno> {
            let listener = socket()?;
            // However long its path is (unix(7) has room for 107 bytes).
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let within = rustix::fs::open(directory, flags, Mode::empty())?;
            let name = path.as_path().file_name().unwrap_or_default();
            let short = Path::new("/proc/self/fd").join(within.as_raw_fd().to_string()).join(name);
            bind(&listener, &SocketAddrUnix::new(&short)?)?;
            // Its directory keeps others away. Who is nobody, as root's inside is, comes in by a mount.
            rustix::fs::chmodat(CWD, path.as_path(), Mode::from_raw_mode(0o666), AtFlags::empty())?;
            listen(&listener, 1)?;
            Ok(listener)
        };
        let listener = made().map_err(|errno| LaunchError::System {
            what: "cannot make the socket for the container",
            source: errno.into(),
        })?;
        Ok(Self { listener, path })
    }

    pub(super) fn path(&self) -> &HostPath {
        &self.path
    }

    /// Waits for the container's init, which is to be this user.
    ///
    /// # Errors
    /// Returns why init did not come.
    pub(super) fn wait(&self, user: u32, interrupt: Option<BorrowedFd<'_>>) -> Result<Met, NotMet> {
        const PATIENCE: Timespec = Timespec { tv_sec: 90, tv_nsec: 0 };
        match wait(&[self.listener.as_fd()], interrupt, PATIENCE) {
            Ok(Waited::Ready(_)) => self.accept(user).map_err(NotMet::Failed),
            Ok(Waited::Interrupted) => Err(NotMet::Interrupted),
            Ok(Waited::TimedOut) => {
                let what = "its container's init has not come within 90 seconds";
                Err(NotMet::Failed(what.to_owned()))
            }
            Err(errno) => Err(NotMet::Failed(errno.to_string())),
        }
    }

    /// Lets in who has come.
    ///
    /// # Errors
    /// Returns that it is not the container's init.
    fn accept(&self, user: u32) -> Result<Met, String> {
        let met = || -> Result<(OwnedFd, OwnedFd, UCred), Errno> {
            let end = accept_with(&self.listener, SocketFlags::CLOEXEC)?;
            let peer = sockopt::socket_peercred(end.as_fd())?;
            let init = rustix::process::pidfd_open(peer.pid, PidfdFlags::empty())?;
            Ok((end, init, peer))
        };
        // A process without a number in this process's namespace is not below it.
        let (end, init, peer) = met().map_err(|errno| {
            format!("the container's init is not a process of this machine: {errno}")
        })?;
        let uid = peer.uid.as_raw();
        if uid != user {
            return Err(format!(
                "its container's init runs as user {uid} of this machine, not as {user}: \
                 its daemon gives users other numbers"
            ));
        }
        Ok(Met { channel: Channel::from(end), init, pid: peer.pid })
    }
}

/// Returns the other side.
///
/// # Errors
/// Returns the error of `connect(2)`.
pub(super) fn come() -> Result<Channel, Errno> {
    let end = socket()?;
    rustix::net::connect(&end, &SocketAddrUnix::new(SOCKET)?)?;
    Ok(Channel::from(end))
}

fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}
