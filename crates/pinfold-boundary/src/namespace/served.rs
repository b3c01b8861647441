//! A tree that another kernel uses: the child that made it becomes its file server.

use std::convert::Infallible;
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use pinfold_init::{Failure, Watched};
use pinfold_seccomp::Character;
use pinfold_wire::{Channel, LastSteps, Report, Step};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::backing::NamespaceBacking;
use super::identity::{caller_is_root, map_ids_at};
use super::takeover::{Takeover, Wall};
use super::{Root, landlock, last};
use crate::backing::Backing;
use crate::group::Group;
use crate::outlets::connections;
use crate::plan::LaunchPlan;
use crate::{Inside, LaunchError, outlets, sys};

/// What serves a tree.
pub trait FileServer: fmt::Debug {
    /// Returns the descriptors that it needs.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Serves the root directory until its client is gone, in a process that has no capability and sees nothing else
    /// of the host. It gets the directory of its own descriptors in `/proc`, and may open this many files.
    ///
    /// # Errors
    /// Returns why it cannot serve.
    fn serve(self: Box<Self>, descriptors: OwnedFd, files: u64) -> Result<(), Errno>;
}

/// How a sandbox whose init cannot pass descriptors out gets terminals and connections to its doors.
#[derive(Debug)]
pub struct Outlets {
    /// Where terminals are asked for ([`pinfold_wire::Order::Terminal`]).
    pub orders: Channel,
    /// Where they come, as init's own messages do.
    pub reports: Channel,
    /// Where connections are asked for ([`crate::DoorRequest`]), and come.
    pub connections: Channel,
}

/// The most files that a process that serves may open, whatever its user may. Each is memory of the kernel's, and counts
/// for the group that the process is in.
const MOST_FILES: u64 = 1 << 17;
/// What a file that a client knows costs at most in bytes: an inode, a name, and an open file (about 1.1 KiB, 192 and 232
/// bytes of ext4 on x86-64), and what the process keeps of it.
const FILE: u64 = 2048;

/// Returns how many files a process that serves may open.
#[must_use]
pub fn files_of_a_server() -> u64 {
    sys::hard_limit(libc::RLIMIT_NOFILE).min(MOST_FILES)
}

/// Returns how much memory a process that serves needs at most, in bytes, apart from what it reads and writes.
#[must_use]
pub fn memory_of_a_server() -> u64 {
    files_of_a_server() * FILE
}

/// Makes the tree of a plan and has it served. Masks are put in place as for a sandbox, and sealing begins the service.
/// What serves is in the group of its client, if there is one, and so is what it leaves behind for outlets. The calling
/// process must have one thread.
///
/// What a client may do to the tree is what the process that serves it may do: it is behind the same walls as a command,
/// and in a user namespace below the one that the mounts belong to.
///
/// # Errors
/// Returns whatever kept the tree from being made; nothing is left behind then.
pub fn serve(
    plan: LaunchPlan,
    server: Box<dyn FileServer>,
    outlets: Option<Outlets>,
    group: Option<&Group>,
) -> Result<Inside, LaunchError> {
    let owner_is_other = caller_is_root();
    super::launch_in(group, plan, Wall::Other(Box::new(Served { server, outlets, owner_is_other })))
}

/// Returns what is left to do for init of a plan whose tree another kernel mounts.
#[must_use]
pub fn steps_elsewhere(plan: &LaunchPlan) -> LastSteps {
    let mut steps = last::of_plan(plan, &super::watched(plan, None), false);
    steps.own_kernel = true;
    // Which rules that kernel knows is not known here. Init uses what it has, and ends where that is too little.
    steps.landlock = landlock::newest_for(plan);
    // It has as much as it may use.
    steps.memory = None;
    // Whatever is left on the host has passed the filter of the process that serves the tree.
    steps.leaves_nothing = true;
    steps
}

#[derive(Debug)]
struct Served {
    server: Box<dyn FileServer>,
    outlets: Option<Outlets>,
    owner_is_other: bool,
}

impl Takeover for Served {
    fn has_own_kernel(&self) -> bool {
        true
    }

    fn serves_files(&self) -> bool {
        true
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let outlets = self.outlets.iter().flat_map(|Outlets { orders, reports, connections }| {
            [orders.as_fd(), reports.as_fd(), connections.as_fd()]
        });
        self.server.descriptors().into_iter().chain(outlets).collect()
    }

    fn backing(&self, group: Option<Group>, _: LastSteps) -> Result<Box<dyn Backing>, LaunchError> {
        Ok(Box::new(NamespaceBacking(group)))
    }

    fn take_over(
        self: Box<Self>,
        _root: &Root,
        plan: &LaunchPlan,
        channel: &Channel,
    ) -> Result<Infallible, Failure> {
        if let Some(Outlets { orders, reports, connections }) = &self.outlets {
            outlets::leave_behind(orders, reports)
                .and_then(|()| connections::leave_behind(&plan.doors, connections))
                .map_err(Failure::at(Step::Engine))?;
        }
        let descriptors = leave_host(plan).map_err(Failure::at(Step::Pivot))?;
        let files = self.close_in(plan)?;
        // A supervisor that is gone has closed its end: what it no longer ends begins no service.
        channel.send(&Report::Born, &[]).map_err(|_| Failure::at(Step::Engine)(Errno::PIPE))?;
        self.server.serve(descriptors, files).map_err(Failure::at(Step::Engine))?;
        sys::exit(0)
    }
}

impl Served {
    /// Gives everything away that serving does not take. Returns how many files may be open.
    fn close_in(&self, plan: &LaunchPlan) -> Result<u64, Failure> {
        let mut steps = last::of_plan(plan, &Watched::default(), self.owner_is_other);
        // Every file that the client knows is open here.
        let files = files_of_a_server();
        steps.files = None;
        sys::set_limit(libc::RLIMIT_NOFILE, files, files)
            .and_then(|()| last::apply_limits(&steps))
            .map_err(Failure::at(Step::Limits))?;
        last::drop_privileges().map_err(Failure::at(Step::Privileges))?;
        last::second_wall(&steps)?;
        let character = Character {
            ids: Some((plan.identity.uid, plan.identity.gid)),
            root_by_name: steps.root_by_name,
            owner_is_other: steps.owner_is_other,
            ..Character::default()
        };
        pinfold_seccomp::load(character).map_err(Failure::at(Step::Seccomp))?;
        Ok(files)
    }
}

/// Makes the tree, which is the working directory, the only root, and enters a user namespace below the one that its
/// mounts belong to. Returns the directory of this process's descriptors, of a `/proc` that is no more.
fn leave_host(plan: &LaunchPlan) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = rustix::fs::open("/proc/self", flags, Mode::empty())?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    sys::unshare(libc::CLONE_NEWUSER)?;
    // Of a caller who is root, the maps belong to root as long as this is not set (proc(5)). It is taken back with the
    // privileges.
    sys::prctl(libc::PR_SET_DUMPABLE, 1)?;
    map_ids_at(&own, (plan.identity.uid, plan.identity.gid), (0, 0))?;
    // A change of credentials clears it (prctl(2)).
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    rustix::fs::openat(&own, "fd", flags, Mode::empty())
}
