//! The sandbox's own network, made on a thread while the mounts are made.
//!
//! A new network namespace is the most expensive one (0.4 to 0.5 ms, most of it in the kernel's
//! per-network initialisers), and nothing of the mounts depends on it. unshare(2) with
//! `CLONE_NEWNET` concerns the calling thread alone, so a short-lived second thread makes the
//! namespace and the doors' listeners in it, and the first one joins it afterwards (setns(2)).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use pinfold_init::Failure;
use pinfold_policy::path::InsidePath;
use pinfold_wire::{Channel, Report, Step};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;

use super::handover;
use super::root::inside;
use crate::live_view::LiveView;
use crate::plan::Door;
use crate::sys;

/// The network while it is being made.
pub(super) struct Network(JoinHandle<Result<Made, Failure>>);

struct Made {
    namespace: OwnedFd,
    /// The mount namespace.
    mounts: OwnedFd,
    listeners: Listeners,
}

/// The sockets of doors.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// In the order of the plan: two for an outward door where there is IPv6.
    pub(crate) sockets: Vec<OwnedFd>,
    /// Which of them get a path, once there is a root.
    pub(crate) paths: Vec<(usize, InsidePath)>,
    /// Whether connections to other addresses are handed to the outward door.
    pub(crate) handed_over: bool,
}

impl Network {
    /// Begins to make the network namespace, on a thread of its own.
    ///
    /// # Errors
    /// Returns the error of starting a thread.
    pub(super) fn begin(doors: Vec<Door>) -> Result<Self, Failure> {
        const STACK: usize = 64 * 1024;
        let builder = std::thread::Builder::new().stack_size(STACK);
        let thread = builder.spawn(move || make(&doors));
        thread.map(Self).map_err(|_| Failure::at(Step::Loopback)(Errno::AGAIN))
    }

    /// Waits for the network, enters it, and passes the doors and the view out; call it when the fresh root is
    /// the only one, which Unix sockets are put into. The process has one
    /// thread again when this returns.
    ///
    /// # Errors
    /// Returns what making or entering it said.
    pub(super) fn enter(self, channel: &Channel, view: Option<LiveView>) -> Result<(), Failure> {
        let gone = || Failure::at(Step::Loopback)(Errno::CHILD);
        let made = self.0.join().map_err(|_| gone())??;
        let listeners = &made.listeners;
        for (door, path) in &listeners.paths {
            let failed = Failure::about(Step::Listeners, path.as_bytes());
            // The fresh root is the working directory.
            pinfold_init::listen_at(&listeners.sockets[*door], inside(path.as_path()))
                .map_err(failed)?;
        }
        rustix::thread::move_into_link_name_space(
            made.namespace.as_fd(),
            Some(LinkNameSpaceType::Network),
        )
        .map_err(Failure::at(Step::Loopback))?;
        if listeners.sockets.is_empty() {
            return Ok(());
        }
        let all = listeners.sockets.iter().chain([&made.mounts]).map(AsFd::as_fd);
        let descriptors: Vec<BorrowedFd<'_>> = all.chain(view.iter().map(AsFd::as_fd)).collect();
        let listening =
            Report::Listening { handed_over: listeners.handed_over, has_view: view.is_some() };
        channel
            .send(&listening, &descriptors)
            .map_err(|_| Failure::at(Step::Listeners)(Errno::PIPE))
    }
}

fn make(doors: &[Door]) -> Result<Made, Failure> {
    let network = || -> Result<OwnedFd, Errno> {
        sys::unshare(libc::CLONE_NEWNET)?;
        sys::loopback_up()?;
        open_namespace("net")
    };
    let namespace = network().map_err(Failure::at(Step::Loopback))?;
    let mounts = open_namespace("mnt").map_err(Failure::at(Step::Listeners))?;
    let listeners = Listeners::open(doors).map_err(Failure::at(Step::Listeners))?;
    Ok(Made { namespace, mounts, listeners })
}

/// Returns a namespace of this thread's, while its own /proc is there.
fn open_namespace(kind: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/thread-self/ns/{kind}"), flags, Mode::empty())
}

impl Listeners {
    /// Opens the sockets of doors in this thread's network.
    ///
    /// # Errors
    /// Returns the error of the socket that cannot be opened.
    pub(crate) fn open(doors: &[Door]) -> Result<Self, Errno> {
        let mut listeners = Self::default();
        for door in doors {
            listeners.add(door)?;
        }
        Ok(listeners)
    }

    fn add(&mut self, door: &Door) -> Result<(), Errno> {
        match *door {
            Door::Unix(ref path) => {
                self.paths.push((self.sockets.len(), path.clone()));
                self.sockets.push(pinfold_init::unix()?);
            }
            Door::Listener(address) => self.sockets.push(pinfold_init::listen(address, false)?),
            Door::Datagrams(port) => self.sockets.push(pinfold_init::datagrams(port)?),
            Door::Outward(port) => {
                let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
                self.sockets.push(pinfold_init::listen(v4, true)?);
                // A kernel without IPv6 has no address to listen on, and nothing that could come.
                let v6 = pinfold_init::listen(v6, true).ok();
                self.handed_over = handover::hand_over(port, v6.is_some()).is_ok();
                self.sockets.extend(v6);
            }
        }
        Ok(())
    }
}
