//! The first process of a guest: it makes the root, starts init in namespaces of its own, and carries init's messages.

use std::convert::Infallible;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use pinfold_boundary::container::start_init;
use pinfold_mux::{GuestFerry, Local, Multiplexer, MuxError};
use pinfold_wire::{Channel, ChannelError, DecodeError, Wire as _};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::system::RebootCommand;
use thiserror::Error;

use super::doors::Doors;
use super::{GuestError, Tree, keep_inodes_below, open_channel};

/// The word that the kernel's command line has for it.
pub(crate) const WORD: &str = "machine-init";
/// The stream on which the host says what the tree is.
pub(crate) const TREE: &[u8] = b"tree";
/// The longest description of a tree.
const LONGEST: u64 = 16 << 20;

/// Why a guest ended by itself.
#[derive(Debug, Error)]
enum FirstError {
    #[error(transparent)]
    Guest(#[from] GuestError),
    #[error("the channel failed: {0}")]
    Channel(#[from] MuxError),
    #[error("cannot make a socket: {0}")]
    Socket(#[from] ChannelError),
    #[error("cannot read what the tree is: {0}")]
    Tree(#[from] DecodeError),
    #[error("cannot open the doors: {0}")]
    Doors(Errno),
    #[error("cannot prepare init: {0}")]
    System(#[from] io::Error),
    #[error("cannot start init: {0}")]
    Init(#[from] Errno),
}

/// Runs the guest if this process is its first one, and does not return then. Call it first of all in `main`.
pub fn run_as_first() {
    let is_first = std::process::id() == 1;
    if !is_first || std::env::args_os().nth(1).is_none_or(|word| word != WORD) {
        return;
    }
    let Err(error) = run();
    // The host has ended the channel, or hears of this as the last line of the console.
    println!("{error}");
    let _ = rustix::system::reboot(RebootCommand::Restart);
}

fn run() -> Result<Infallible, FirstError> {
    let channel = open_channel()?;
    let (ours, theirs) = Channel::pair()?;
    let ours = ours.as_fd().try_clone_to_owned()?;
    let mut ferry = GuestFerry::new(Multiplexer::guest(channel)?, ours);
    let tree = Tree::decode(&receive(&mut ferry)?)?;
    tree.enter()?;
    mount_shared_memory()?;
    let mut doors = Doors::open(&tree.doors, tree.ids).map_err(FirstError::Doors)?;
    let init = start_init(theirs, tree.ids, &tree.hostname)?;
    keep_inodes_below(tree.files)?;
    loop {
        let mut watched = vec![init.as_fd()];
        watched.extend(doors.watched(&ferry));
        let ready = ferry.turn(&watched, doors.timeout())?;
        match ready.split_first() {
            Some((false, ready)) => doors.serve(ready, &mut ferry),
            _ => break,
        }
    }
    Ok(ferry.finish()?)
}

/// Receives what the tree is.
fn receive(ferry: &mut GuestFerry) -> Result<Vec<u8>, FirstError> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let mut far = Some(OwnedFd::from(far));
    let mut received = Vec::new();
    loop {
        let ready = ferry.turn(&[near.as_fd()], None)?;
        if let Some(id) = ferry.take_stream(TREE)
            && let Some(far) = far.take()
        {
            ferry.attach_stream(id, Local::socket(far)?);
        }
        if ready == [true] {
            match (&near).take(LONGEST).read_to_end(&mut received) {
                Ok(_) => return Ok(received),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Mounts what POSIX shared memory lies in, unless it is a private directory of the session's.
fn mount_shared_memory() -> Result<(), FirstError> {
    const PATH: &str = "/dev/shm";
    match rustix::fs::mkdirat(CWD, PATH, Mode::from_raw_mode(0o755)) {
        Ok(()) => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            Ok(rustix::mount::mount("tmpfs", PATH, "tmpfs", flags, Some(c"mode=1777"))?)
        }
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
