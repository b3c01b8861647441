//! The conversation with the runner, and the first word of init.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use pinfold_runner::request::{HELLO, LONGEST, MOST_DESCRIPTORS, Request};
use pinfold_runner::{Refusal, unit};
use pinfold_wire::Channel;
use rustix::event::Timespec;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred, connect,
    recvmsg, sendmsg, socket_with, sockopt,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::LaunchError;
use crate::wait::{Waited, wait};

/// Where systemd listens for the runner.
const SOCKET: &str = "/run/pinfold/runner.sock";
/// Longer than the runner waits for init.
const PATIENCE: Timespec = Timespec { tv_sec: 40, tv_nsec: 0 };

/// How long to ask again while the runner takes no more connections of this user.
const BUSY: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// Init in a unit.
pub(super) struct Met {
    pub(super) channel: Channel,
    /// A descriptor of it.
    pub(super) init: OwnedFd,
    /// Its id here.
    pub(super) pid: Pid,
}

/// Checks that the runner can be asked.
///
/// # Errors
/// Returns why not.
pub(super) fn find() -> Result<(), Refusal> {
    rustix::fs::accessat(CWD, SOCKET, Access::WRITE_OK, AtFlags::empty()).map_err(unreachable_by)
}

fn unreachable_by(errno: Errno) -> Refusal {
    let (what, hint) = match errno {
        Errno::NOENT | Errno::CONNREFUSED => (
            "is not started",
            "an administrator sets the boundary up by `sudo pinfold setup systemd --for USER=DIRECTORY`, or starts it by \
             `systemctl enable --now pinfold-runner.socket` (docs/guides/systemd.md)",
        ),
        Errno::ACCESS => (
            "is not for this user",
            "an administrator adds users to the socket's group: `usermod --append --groups pinfold USER`, which \
             counts from the next login on",
        ),
        errno => return Refusal::plain(format!("{SOCKET}: {errno}")),
    };
    Refusal::new(format!("{SOCKET} {what}"), hint)
}

/// Has the runner start a unit with these files, and returns the init in it, which is to be this user.
///
/// # Errors
/// Returns why no unit was started.
pub(super) fn ask(
    request: &Request,
    files: &[OwnedFd],
    user: u32,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Met, LaunchError> {
    let begun = Instant::now();
    loop {
        match ask_once(request, files, interrupt)? {
            Some((socket, sender)) => {
                return Ok(meet(socket, sender, user, &unit::name(&request.session))?);
            }
            // It serves as many of this user's as it takes.
            None if begun.elapsed() < BUSY => std::thread::sleep(STEP),
            None => {
                let hint = "try again when others of your starts are over; an administrator sees more in \
                            `journalctl --unit='pinfold-*'`";
                let what =
                    format!("{SOCKET} has closed every connection for {} seconds", BUSY.as_secs());
                return Err(Refusal::new(what, hint).into());
            }
        }
    }
}

/// Returns a socket to init, and who it is; nothing if nobody was there to be asked.
fn ask_once(
    request: &Request,
    files: &[OwnedFd],
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Option<(OwnedFd, UCred)>, LaunchError> {
    let failed = |errno: Errno| Refusal::plain(format!("{SOCKET}: {errno}"));
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(failed)?;
    let address = SocketAddrUnix::new(SOCKET).map_err(failed)?;
    connect(&socket, &address).map_err(unreachable_by)?;
    // Of the process that listens, which is systemd.
    if !sockopt::socket_peercred(&socket).map_err(failed)?.uid.is_root() {
        return Err(Refusal::plain(format!("{SOCKET} is not root's")).into());
    }
    // The kernel adds to each message who sent it.
    sockopt::set_socket_passcred(&socket, true).map_err(failed)?;
    if !send(&socket, request, files)? {
        return Ok(None);
    }
    let Some(sender) = hello(&socket, interrupt)? else { return Ok(None) };
    sockopt::set_socket_passcred(&socket, false).map_err(failed)?;
    Ok(Some((socket, sender)))
}

/// Returns whether there is still somebody on the other side.
fn send(socket: &OwnedFd, request: &Request, files: &[OwnedFd]) -> Result<bool, Refusal> {
    let failed = |errno: Errno| Refusal::plain(format!("{SOCKET}: {errno}"));
    let own = rustix::fs::open("/proc/self/exe", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed)?;
    let files: Vec<BorrowedFd<'_>> = [&own].into_iter().chain(files).map(OwnedFd::as_fd).collect();
    let message = pinfold_runner_client::encode(request)?;
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    // There is room for as many as a request has, which has been checked.
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    match sendmsg(socket, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(true),
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(false),
        Err(errno) => Err(failed(errno)),
    }
}

/// Waits for the first message, which is init's unless the runner refuses, and returns who sent it; nobody if the other
/// side is closed.
fn hello(
    socket: &OwnedFd,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Option<UCred>, LaunchError> {
    let failed = |errno: Errno| Refusal::plain(format!("{SOCKET}: {errno}"));
    match wait(&[socket.as_fd()], interrupt, PATIENCE).map_err(failed)? {
        Waited::Ready(_) => {}
        Waited::TimedOut => return Err(silent("nothing came within 40 seconds").into()),
        Waited::Interrupted => return Err(LaunchError::Interrupted),
    }
    let mut message = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut message)];
    let mut receive = || recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    let received = match receive() {
        // A runner that refuses before it has read the request; its answer comes next (unix(7)).
        Err(Errno::CONNRESET) => receive(),
        received => received,
    };
    let length = received.map_err(failed)?.bytes;
    let sender = ancillary.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender),
        _ => None,
    });
    match (&message[..length], sender) {
        (HELLO, Some(sender)) => Ok(Some(sender)),
        ([], _) => Ok(None),
        (message, _) => {
            let refusal = pinfold_runner_client::refusal(message);
            Err(refusal.unwrap_or_else(|| silent("it sent an invalid answer")).into())
        }
    }
}

fn silent(what: &str) -> Refusal {
    Refusal::new(what, "an administrator sees more in `journalctl --unit='pinfold-*'`")
}

/// Returns a process by the id that the kernel gave, if it is the service user's and in the session's
/// unit: an id could be another process's by now, and no process gets into a unit by itself.
fn meet(socket: OwnedFd, sender: UCred, user: u32, unit: &str) -> Result<Met, Refusal> {
    let pid = sender.pid;
    let init = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| {
        Refusal::plain(format!("init is not a process of this machine: {errno}"))
    })?;
    let groups = pinfold_init::kernel_text(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let is_there = groups.lines().any(|line| line.split('/').any(|name| name == unit));
    if sender.uid.as_raw() != user || !is_there {
        return Err(Refusal::plain(format!(
            "init is process {pid} of user id {}, not of {user} in {unit}",
            sender.uid.as_raw()
        )));
    }
    Ok(Met { channel: Channel::from(socket), init, pid })
}
