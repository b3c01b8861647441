//! The first process of a guest: it makes the root, starts init in namespaces of its own, and carries init's messages.

use std::convert::Infallible;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use pinfold_boundary::container::{Birth, start_init};
use pinfold_mux::{GuestFerry, Local, Multiplexer, MuxError};
use pinfold_wire::{Channel, ChannelError, DecodeError, Limit, Reader, Report, Wire, Writer};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::system::RebootCommand;
use thiserror::Error;

use super::Ports;
use super::doors::Doors;
use super::fresh::Fresh;
use super::group::SessionGroup;
use super::own::OwnProgram;
use super::{GuestError, Tree, keep_inodes_below, open_channel};

/// The word that the kernel's command line has for it.
pub(crate) const WORD: &str = "machine-init";
/// The stream on which the host sends its [`Welcome`].
pub(crate) const WELCOME: &[u8] = b"welcome";
/// The longest welcome.
const LONGEST: u64 = 16 << 20;

/// What the host says first.
#[derive(Debug)]
pub(crate) struct Welcome {
    pub(crate) fresh: Fresh,
    pub(crate) tree: Tree,
}

impl Wire for Welcome {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&self.fresh.encode()).bytes(&self.tree.encode());
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let fresh = Fresh::decode(&reader.bytes()?)?;
        let tree = Tree::decode(&reader.bytes()?)?;
        reader.finish()?;
        Ok(Self { fresh, tree })
    }
}

/// Why a guest ended by itself.
#[derive(Debug, Error)]
enum FirstError {
    #[error(transparent)]
    Guest(#[from] GuestError),
    #[error("the channel failed: {0}")]
    Channel(#[from] MuxError),
    #[error("cannot make a socket: {0}")]
    Socket(#[from] ChannelError),
    #[error("cannot read what the host says: {0}")]
    Welcome(#[from] DecodeError),
    #[error("cannot have randomness and a clock of its own: {0}")]
    Fresh(Errno),
    #[error("cannot open the doors: {0}")]
    Doors(Errno),
    #[error("cannot make a control group: {0}")]
    Group(Errno),
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
    let Welcome { fresh, tree } = Welcome::decode(&receive(&mut ferry)?)?;
    fresh.apply().map_err(FirstError::Fresh)?;
    let own = OwnProgram::take()?;
    tree.enter()?;
    own.put_over_that_of_the_tree()?;
    mount_shared_memory()?;
    let mut doors = Doors::open(&tree.doors, tree.ids).map_err(FirstError::Doors)?;
    let group = SessionGroup::make().map_err(FirstError::Group)?;
    let reports = Channel::from(theirs.as_fd().try_clone_to_owned()?);
    let birth = Birth {
        ids: tree.ids,
        hostname: &tree.hostname,
        is_nested: tree.is_nested,
        group: group.as_ref().map(SessionGroup::main),
    };
    let init = start_init(theirs, birth)?;
    keep_inodes_below(tree.files)?;
    let mut ports = Ports::default();
    loop {
        let mut watched = vec![init.as_fd()];
        watched.extend(doors.watched(&ferry));
        let timeout = doors.timeout().into_iter().chain(ports.timeout()).min();
        let ready = ferry.turn(&watched, timeout)?;
        let Some((false, ready)) = ready.split_first() else { break };
        doors.serve(ready, &mut ferry);
        ports.serve(&mut ferry);
    }
    if group.is_some_and(|group| group.has_run_out()) {
        report_memory(&reports, &mut ferry)?;
    }
    drop(reports);
    Ok(ferry.finish()?)
}

/// Reports in the name of init, which the kernel has ended, that memory ran out.
fn report_memory(reports: &Channel, ferry: &mut GuestFerry) -> Result<(), FirstError> {
    // What init has said before may have to go first.
    while reports.offer(&Report::Limit(Limit::Memory)) == Err(Errno::AGAIN) {
        ferry.turn(&[], None)?;
    }
    Ok(())
}

/// Receives the host's welcome.
fn receive(ferry: &mut GuestFerry) -> Result<Vec<u8>, FirstError> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    let mut far = Some(OwnedFd::from(far));
    let mut received = Vec::new();
    loop {
        let ready = ferry.turn(&[near.as_fd()], None)?;
        if let Some(id) = ferry.take_stream(WELCOME)
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
