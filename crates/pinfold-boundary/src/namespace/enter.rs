//! The child's story, from clone to the command, top to bottom.
//!
//! The child is a copy of the supervisor with one thread, root over its own new namespaces and
//! nobody over anything else. Each step gives something away; after the last it can do what the
//! command can do, and less.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pinfold_init::{Failure, Start, Watch, Watched, close_all_but, now};
use pinfold_wire::{Channel, Order, Step};
use rustix::io::Errno;

use super::detached::Source;
use super::landlock::{self, Ruleset};
use super::network::Network;
use super::root::Root;
use super::seccomp::Character;
use super::{covers, group, overlay, seccomp};
use crate::plan::LaunchPlan;
use crate::{Hold, sys};

/// What the child gets from its parent, by being its copy.
pub(super) struct Birth {
    pub(super) plan: LaunchPlan,
    /// One for each entry of the plan's tree.
    pub(super) sources: Vec<Source>,
    pub(super) channel: Channel,
    pub(super) hold: Hold,
    /// Control groups to join.
    pub(super) groups: Vec<PathBuf>,
    /// The caller's ids, to be mapped to; none when the parent writes the maps, because it is
    /// root and the child must not be.
    pub(super) own_ids: Option<(u32, u32)>,
    /// Limits that no control group enforces or counts.
    pub(super) watched: Watched,
}

/// Runs the inside and ends this process, and everything inside with it.
pub(super) fn enter(birth: Birth) -> ! {
    let Birth { plan, sources, channel, hold, groups, own_ids, watched } = birth;
    let outcome = join(&groups)
        .and_then(|()| become_inside(plan, sources, (own_ids, hold), watched, &channel));
    if let Err(failure) = outcome {
        // A supervisor that is gone needs no report.
        let _ = channel.send(&failure.report(), &[]);
    }
    // SAFETY: _exit(2) has no preconditions; destructors belong to the parent's copy.
    unsafe { libc::_exit(0) }
}

/// First of all: what follows is to be counted, and a thread more would not be moved.
fn join(groups: &[PathBuf]) -> Result<(), Failure> {
    group::join(groups).map_err(|(group, errno)| {
        Failure::about(Step::Identity, group.as_os_str().as_bytes())(errno)
    })
}

/// The time at the end of each step, for `--timings`.
struct Clock(Vec<(Step, u64)>);

impl Clock {
    fn done(&mut self, step: Step) {
        self.0.push((step, now()));
    }
}

fn become_inside(
    plan: LaunchPlan,
    sources: Vec<Source>,
    (own_ids, hold): (Option<(u32, u32)>, Hold),
    watched: Watched,
    channel: &Channel,
) -> Result<(), Failure> {
    let mut clock = Clock(Vec::with_capacity(Step::ALL.len()));

    sys::wipe_environment();
    sys::wipe_arguments().map_err(Failure::at(Step::Identity))?;
    close_inherited(&sources, channel).map_err(Failure::at(Step::Identity))?;
    take_identity(&plan, own_ids, hold, channel)?;
    clock.done(Step::Identity);

    let network = Network::begin(plan.doors.clone())?;

    let root = Root::mount(&plan).map_err(Failure::at(Step::Root))?;
    clock.done(Step::Root);

    root.attach_all(&plan.tree, sources)?;
    clock.done(Step::Grants);

    root.write_files(&plan.tree)?;
    clock.done(Step::Files);

    // Nothing of the host is needed by its name any more. The kernel's grace period for the old
    // root is time for the network and the supervisor.
    root.pivot().map_err(Failure::at(Step::Pivot))?;
    clock.done(Step::Pivot);

    network.enter(channel)?;
    clock.done(Step::Listeners);

    let Some(asked) = covers::receive(&root, channel)? else { return Ok(()) };
    root.open_run(&plan.tree).and_then(|()| root.seal()).map_err(Failure::at(Step::Root))?;
    // The new namespace begins at the group that this process joined, and hides where it lies.
    sys::unshare(libc::CLONE_NEWCGROUP).map_err(Failure::at(Step::Identity))?;
    clock.done(Step::Covers);

    apply_limits(&watched).map_err(Failure::at(Step::Limits))?;
    clock.done(Step::Limits);

    drop_privileges().map_err(Failure::at(Step::Privileges))?;
    clock.done(Step::Privileges);

    second_wall(&plan)?;
    clock.done(Step::Landlock);

    let character = Character {
        nested: plan.nested,
        root_by_name: plan.identity.uid == 0,
        caller_is_root: own_ids.is_none(),
        // What makes namespaces or mounts of its own may not be what init takes it for.
        moves: overlay::has_views(&plan.tree) && !plan.nested,
    };
    let moves = seccomp::load(character).map_err(Failure::at(Step::Seccomp))?;
    clock.done(Step::Seccomp);

    let (command, streams) = asked.ok_or(Errno::INVAL).map_err(Failure::at(Step::Execute))?;
    let start = Start { command, streams, watch: Watch::new(watched), moves, times: clock.0 };
    pinfold_init::run(start, channel)
}

/// Descriptors of the caller, its standard streams among them, stay outside.
fn close_inherited(sources: &[Source], channel: &Channel) -> Result<(), Errno> {
    let sources = sources.iter().flat_map(Source::descriptors);
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let keep: Vec<BorrowedFd<'_>> =
        standard.into_iter().chain([channel.as_fd()]).chain(sources).collect();
    close_all_but(&keep)?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)
}

/// One user and one group exist inside: the caller's own, or, for a caller who is root, ids
/// that own nothing on the host. The parent-death signal comes last, because a change of
/// credentials clears it (prctl(2)).
fn take_identity(
    plan: &LaunchPlan,
    own_ids: Option<(u32, u32)>,
    hold: Hold,
    channel: &Channel,
) -> Result<(), Failure> {
    let identity = &plan.identity;
    if let Some(own) = own_ids {
        super::identity::map_own_ids((identity.uid, identity.gid), own)
    } else {
        match channel.receive::<Order>() {
            Ok(Some(received)) if received.message == Order::Mapped => {}
            _ => return Err(Failure::at(Step::Identity)(Errno::PIPE)),
        }
        sys::become_user(identity.uid, identity.gid)
    }
    .map_err(Failure::at(Step::Identity))?;
    let death = match hold {
        Hold::Parent => libc::SIGKILL,
        Hold::Channel => 0,
    };
    rustix::system::sethostname(plan.hostname.as_bytes())
        .and_then(|()| sys::prctl(libc::PR_SET_PDEATHSIG, death as libc::c_ulong))
        .and_then(|_| sys::leave_session_keyring())
        .map_err(Failure::at(Step::Identity))
    // A supervisor that died before the signal was set, or that holds this inside by the channel
    // alone, has closed its end of it, which the wait for covers sees, and init's loop.
}

/// A crash must not reach the host's core dump handler with the inside's memory: a limit of
/// exactly one byte is what the kernel takes as "never" for files and for pipes alike
/// (core(5); fs/coredump.c).
///
/// Tasks are counted for each user namespace since Linux 5.14: only the inside's own, and those of
/// namespaces made in it, whoever else runs as the same user. Where a control group counts them
/// this limit would come first, and the group would not know of it.
fn apply_limits(watched: &Watched) -> Result<(), Errno> {
    sys::set_limit(libc::RLIMIT_CORE, 1, 1)?;
    let limits = [(libc::RLIMIT_NOFILE, watched.files), (libc::RLIMIT_NPROC, watched.pids)];
    for (resource, value) in limits {
        if let Some(value) = value {
            sys::set_limit(resource, value, value)?;
        }
    }
    Ok(())
}

/// From here on this process, like the command, is an ordinary user with nothing to gain from
/// any file. Non-dumpable keeps the command, which has the same user id, out of init's memory
/// and descriptors; it comes after the last change of credentials, which would reset it.
fn drop_privileges() -> Result<(), Errno> {
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    sys::drop_capabilities()?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
    Ok(())
}

/// The second wall, where there is one; `launch` has refused a plan that requires it in vain. This
/// process stands behind it too, so that everything it starts is in one domain and can signal and
/// debug each other.
fn second_wall(plan: &LaunchPlan) -> Result<(), Failure> {
    let failed = Failure::at(Step::Landlock);
    match landlock::abi_for(plan) {
        0 => Ok(()),
        abi => Ruleset::for_plan(plan, abi).and_then(Ruleset::restrict).map_err(failed),
    }
}
