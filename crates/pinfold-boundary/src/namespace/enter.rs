//! The child's story, from clone to the command, top to bottom.
//!
//! The child is a copy of the supervisor with one thread, root over its own new namespaces and
//! nobody over anything else. Each step gives something away; after the last it can do what the
//! command can do, and less.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pinfold_init::{Failure, close_all_but};
use pinfold_wire::{Channel, LastSteps, LaunchOrder, Step};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::detached::Source;
use super::last::{self, Clock};
use super::network::Network;
use super::root::Root;
use super::takeover::Wall;
use super::{limits_view, masks};
use crate::plan::LaunchPlan;
use crate::{group, sys};

/// What a sandbox's first process is called in lists of processes.
pub(crate) const INIT_NAME: &std::ffi::CStr = c"pinfold-init";

/// What the child gets from its parent, by being its copy.
pub(super) struct Birth {
    pub(super) plan: LaunchPlan,
    /// One for each entry of the plan's tree.
    pub(super) sources: Vec<Source>,
    pub(super) channel: Channel,
    /// Control groups to join.
    pub(super) groups: Vec<PathBuf>,
    /// Who the child is in its own user namespace.
    pub(super) ids: (u32, u32),
    /// The caller's ids, to be mapped to; none when the parent writes the maps, because it is
    /// root and the child must not be.
    pub(super) own_ids: Option<(u32, u32)>,
    pub(super) last_steps: LastSteps,
    pub(super) wall: Wall,
    /// Variables of every program.
    pub(super) variables: Vec<Vec<u8>>,
}

/// Runs the sandbox and ends this process, and everything inside with it.
pub(super) fn enter(birth: Birth) -> ! {
    if let Err((failure, channel)) = become_inside(birth) {
        // A supervisor that is gone needs no report.
        let _ = channel.send(&failure.report(), &[]);
    }
    // SAFETY: _exit(2) has no preconditions; destructors belong to the parent's copy.
    unsafe { libc::_exit(0) }
}

/// Joins control groups, before all else: what follows is counted, and another thread would not be moved.
fn join(groups: &[PathBuf]) -> Result<(), Failure> {
    group::join(groups).map_err(|(group, errno)| {
        Failure::about(Step::Identity, group.as_os_str().as_bytes())(errno)
    })
}

fn become_inside(birth: Birth) -> Result<(), (Failure, Channel)> {
    let Birth { plan, sources, channel, groups, ids, own_ids, last_steps, wall, variables } = birth;
    let steps = || {
        join(&groups)?;
        let mut clock = Clock::new();

        sys::wipe_environment();
        sys::wipe_arguments(INIT_NAME).map_err(Failure::at(Step::Identity))?;
        close_inherited(&sources, &wall, &channel).map_err(Failure::at(Step::Identity))?;
        take_identity(&plan, ids, own_ids, &channel)?;
        let is_own_wall = matches!(wall, Wall::Own);
        if is_own_wall {
            // The new namespace begins at the group that this process joined, and hides where it lies.
            sys::unshare(libc::CLONE_NEWCGROUP).map_err(Failure::at(Step::Identity))?;
        }
        limits_view::narrow_cpus(&plan.limits).map_err(Failure::at(Step::Limits))?;
        clock.done(Step::Identity);

        let network = Network::begin(plan.doors.clone())?;

        let root = Root::mount(&plan, &wall).map_err(Failure::at(Step::Root))?;
        clock.done(Step::Root);

        let view = root.attach_all(&plan.tree, sources)?;
        clock.done(Step::Grants);

        root.write_files(&plan.tree)?;
        if !wall.serves_files() {
            limits_view::show(&root, &plan, is_own_wall).map_err(Failure::at(Step::Files))?;
        }
        clock.done(Step::Files);

        // Nothing of the host is needed by its name any more. The kernel's grace period for the old
        // root is time for the network and the supervisor.
        root.enter(&wall).map_err(Failure::at(Step::Pivot))?;
        clock.done(Step::Pivot);

        network.enter(&channel, view)?;
        clock.done(Step::Listeners);

        let Some(asked) = masks::receive(&root, &channel)? else { return Ok(()) };
        root.open_run(&plan.tree).and_then(|()| root.seal()).map_err(Failure::at(Step::Root))?;
        clock.done(Step::Masks);

        match wall {
            Wall::Own => last::take(last_steps, asked, variables, &channel, clock),
            Wall::Other(takeover) => match takeover.take_over(&root, &plan, &channel)? {},
        }
    };
    steps().map_err(|failure| (failure, channel))
}

/// Descriptors of the caller, its standard streams among them, stay outside.
fn close_inherited(sources: &[Source], wall: &Wall, channel: &Channel) -> Result<(), Errno> {
    let others = match wall {
        Wall::Own => Vec::new(),
        Wall::Other(takeover) => takeover.descriptors(),
    };
    let sources = sources.iter().flat_map(Source::descriptors);
    let keep: Vec<BorrowedFd<'_>> = sources.chain(others).collect();
    close_all_others(&keep, channel)
}

/// Closes all but these and the channel. Nothing is read from or written to the standard streams.
///
/// # Errors
/// Returns the error of `close_range(2)` and opening the null device.
pub(crate) fn close_all_others(keep: &[BorrowedFd<'_>], channel: &Channel) -> Result<(), Errno> {
    close_all_others_for(&null()?, keep, channel)
}

/// Opens what stands for standard streams.
pub(crate) fn null() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Closes what [`close_all_others`] does, with an open `/dev/null`, for a process whose root has none.
pub(crate) fn close_all_others_for(
    null: &OwnedFd,
    keep: &[BorrowedFd<'_>],
    channel: &Channel,
) -> Result<(), Errno> {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let keep = keep.iter().copied().chain(standard).chain([channel.as_fd(), null.as_fd()]);
    close_all_but(&keep.collect::<Vec<_>>())?;
    rustix::stdio::dup2_stdin(null)?;
    rustix::stdio::dup2_stdout(null)?;
    rustix::stdio::dup2_stderr(null)
}

/// Takes the identity of the one user and group that exist inside: the caller's own, or, for a caller who is
/// root, ids
/// that own nothing on the host. The parent-death signal comes last, because a change of
/// credentials clears it (prctl(2)).
fn take_identity(
    plan: &LaunchPlan,
    ids: (u32, u32),
    own_ids: Option<(u32, u32)>,
    channel: &Channel,
) -> Result<(), Failure> {
    if let Some(own) = own_ids {
        super::identity::map_own_ids(ids, own)
    } else {
        match channel.receive::<LaunchOrder>() {
            Ok(Some(received)) if received.message == LaunchOrder::Mapped => {}
            _ => return Err(Failure::at(Step::Identity)(Errno::PIPE)),
        }
        sys::become_user(ids.0, ids.1)
    }
    .map_err(Failure::at(Step::Identity))?;
    rustix::system::sethostname(plan.hostname.as_bytes())
        .and_then(|()| sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))
        .and_then(|_| sys::leave_session_keyring())
        .map_err(Failure::at(Step::Identity))
    // A supervisor that died before the signal was set has closed its end of the channel, which the
    // wait for masks sees, and init's loop.
}
