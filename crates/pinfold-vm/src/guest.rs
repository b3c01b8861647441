//! What init does first in a machine: file systems of the kernel's, modules, and the byte channel.

mod doors;
mod first;
mod fresh;
mod group;
mod inodes;
mod own;
mod ports;
mod tree;

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::fs::{Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use thiserror::Error;

pub use first::run_as_first;
pub(crate) use first::{WELCOME, WORD, Welcome};
pub(crate) use fresh::Fresh;
pub use inodes::keep_inodes_below;
pub(crate) use ports::{PortRequest, Ports};
pub use tree::{Beneath, Place, Tree};

/// How long the host's port may take to appear. Without load it takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
const MODULES: &str = "/modules";
/// The first port of the first device of virtio-serial.
const PORT: &str = "/dev/vport0p1";

/// What the guest mounts as its root.
pub(crate) const TAG: &str = "root";

/// Why a guest has no channel to its host.
#[derive(Debug, Error)]
pub enum GuestError {
    /// A file system cannot be mounted.
    #[error("cannot mount {0}: {1}")]
    Mount(String, Errno),
    /// Modules cannot be listed or opened.
    #[error("cannot read {MODULES}: {0}")]
    Modules(#[from] io::Error),
    /// The kernel refused a module.
    #[error("cannot load {0}: {1}")]
    Load(PathBuf, Errno),
    /// A place in the tree cannot be filled.
    #[error("cannot put {0} in place: {1}")]
    Place(PathBuf, Errno),
    /// The system refused to wait for the port or to open it.
    #[error("cannot open {PORT}: {0}")]
    Port(#[from] Errno),
}

/// Mounts what the kernel offers, loads the modules of the initramfs, and opens the channel to the host.
///
/// # Errors
/// Returns what is missing. Without the channel, only the console can show it.
pub fn open_channel() -> Result<OwnedFd, GuestError> {
    for (kind, path) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        rustix::mount::mount(kind, path, kind, flags, None)
            .map_err(|errno| GuestError::Mount(kind.to_owned(), errno))?;
    }
    load_modules()?;
    open_port()
}

/// Loads the modules in the order of their names.
fn load_modules() -> Result<(), GuestError> {
    let entries = fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let file = fs::File::open(&path)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(GuestError::Load(path, errno)),
        }
    }
    Ok(())
}

/// Opens the port, which comes a moment after its driver, and waits until the host has its end open. Until then it
/// reads as if it had ended (`port_fops_read`, drivers/char/virtio_console.c).
fn open_port() -> Result<OwnedFd, GuestError> {
    let end = Instant::now() + PATIENCE;
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, "/dev", inotify::WatchFlags::CREATE)?;
    let port = loop {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        match rustix::fs::open(PORT, flags, Mode::empty()) {
            Ok(port) => break port,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = [PollFd::new(&watch, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&left(end)?)))?;
        // Which file was made does not matter.
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        while events.next().is_ok() {}
    };
    // Without the edge, poll(2) would report at once that the host is not there, again and again.
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let edge = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(&watch, &port, epoll::EventData::new_u64(0), edge)?;
    loop {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        let wait = || epoll::wait(&watch, &mut events[..], Some(&left(end)?));
        let count = rustix::io::retry_on_intr(wait)?;
        let flags = events[0].flags;
        if count > 0 && !flags.contains(epoll::EventFlags::HUP) {
            return Ok(port);
        }
    }
}

/// Returns how long there is still to wait.
///
/// # Errors
/// Returns `ETIME` if the time is over.
fn left(end: Instant) -> Result<Timespec, Errno> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Errno::TIME);
    }
    Ok(Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    })
}
