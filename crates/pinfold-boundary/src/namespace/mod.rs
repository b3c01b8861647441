//! The `namespace` boundary: Linux namespaces, Landlock and seccomp, with no helper installed.
//!
//! [`launch`](Namespace::launch) makes the child with one clone3(2); `enter` is what the child does
//! from there to the command.

mod backing;
mod bounds;
mod cause;
mod detached;
mod enter;
mod handed;
mod handover;
mod identity;
mod idmap;
pub mod keeper;
mod landlock;
mod last;
mod limits_view;
mod masks;
mod netlink;
mod network;
mod overlay;
mod probe;
mod root;
mod served;
mod takeover;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use pinfold_init::{Failure, Watched};
use pinfold_policy::path::HostPath;
use pinfold_wire::{Channel, LastSteps, LaunchOrder, Step};
use rustix::io::Errno;

pub use cause::{check_kernel, explain};
pub(crate) use detached::{attach, clone_tree, grant_attributes, new_filesystem, open_host};
pub(crate) use enter::{INIT_NAME, close_all_others, close_all_others_for, null};
pub(crate) use handed::{HANDED, Handed};
pub(crate) use identity::{caller_ids, caller_is_root, map_own_ids};
pub use landlock::OLDEST as OLDEST_LANDLOCK;
pub(crate) use landlock::{Allowed, OLDEST_SCOPED, Ruleset, abi, abi_here, open_real, scope_all};
pub(crate) use last::{Asked, Clock, MOST_SIGNALS, apply_limits};
pub(crate) use masks::receive_with as receive_masks;
pub(crate) use network::Listeners;
pub(crate) use probe::{probe, try_inside};
pub use root::DEVICES;
pub(crate) use root::{HIDDEN_KERNEL_FILES, Root, SEALED_KERNEL_FILES, inside};
pub use served::{
    FileServer, Outlets, files_of_a_server, memory_of_a_server, serve, steps_elsewhere,
};
pub(crate) use takeover::{Takeover, Wall};

use self::backing::NamespaceBacking;
use self::detached::Source;
use self::enter::Birth;
use crate::backing::Backing;
use crate::group::Group;
use crate::plan::{Changes, Entry, Landlock, LaunchPlan, Lower, Place, ResourceLimits};
use crate::sys::{self, Side};
use crate::{Boundary, Capabilities, Inside, LaunchError, Probe, Session};

/// Namespaces of the running kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Namespace;

/// All but the network, which `network` makes, and the one for control groups, which follows when
/// the child is in its group.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

impl Boundary for Namespace {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn probe(&self) -> Probe {
        probe::probe(self)
    }

    fn launch(&self, plan: LaunchPlan, _session: Session<'_>) -> Result<Inside, LaunchError> {
        self.start(plan)
    }
}

impl Namespace {
    /// Starts a sandbox that nothing is kept of, in whosever name ([`Boundary::launch`]).
    ///
    /// # Errors
    /// Returns whatever kept the sandbox from being made; nothing is left behind then.
    pub fn start(self, plan: LaunchPlan) -> Result<Inside, LaunchError> {
        launch(plan, Wall::Own)
    }
}

/// Clones the child that makes the tree of this plan and becomes the sandbox, or its engine.
///
/// # Errors
/// Returns whatever kept the sandbox from being made; nothing is left behind then.
pub(crate) fn launch(plan: LaunchPlan, wall: Wall) -> Result<Inside, LaunchError> {
    launch_in(None, plan, wall)
}

/// Does the same in a group that bounds something else as well, where the plan needs none of its own.
fn launch_in(
    shared: Option<&Group>,
    mut plan: LaunchPlan,
    wall: Wall,
) -> Result<Inside, LaunchError> {
    refuse_threads()?;
    let abi = check_landlock(&plan)?;
    let as_root = identity::caller_is_root();
    if as_root {
        cause::check_root()?;
    }
    let own_ids = (!as_root).then(identity::caller_ids);
    let sources = if as_root { detached_sources(&plan)? } else { child_sources(&plan) };
    // A group counts the engine's threads as well; what is counted for the sandbox's own user is its
    // own.
    let grouped = match &wall {
        Wall::Own => plan.limits,
        Wall::Other(_) => ResourceLimits { pids: None, ..plan.limits },
    };
    let group = Group::make(&grouped)?;
    let watched = watched(&plan, group.as_ref());
    let enforced = Capabilities {
        memory: group.as_ref().is_some_and(Group::bounds_memory),
        cpus: group.as_ref().is_some_and(Group::shares_cpus),
        pids: plan.limits.pids.is_some(),
        landlock: abi,
    };
    // What is not enforced is not shown either.
    plan.limits.cpus = plan.limits.cpus.filter(|_| enforced.cpus);
    let mut last_steps = last::of_plan(&plan, &watched, as_root);
    // An engine takes the root of the namespace that it runs in for its user.
    let (ids, backing): (_, Box<dyn Backing>) = match &wall {
        Wall::Own => ((plan.identity.uid, plan.identity.gid), Box::new(NamespaceBacking(group))),
        Wall::Other(takeover) => {
            last_steps.own_kernel = takeover.has_own_kernel();
            ((0, 0), takeover.backing(group, last_steps.clone())?)
        }
    };
    let group = backing.group().or(shared);
    let (channel, theirs) = Channel::pair()?;

    let side = sys::clone_into(NAMESPACES as u64, group.and_then(Group::descriptor));
    let (init, pid) = match side.map_err(|errno| cause::namespaces(Step::Identity, errno))? {
        Side::Parent { child, pid } => (child, pid),
        Side::Child => {
            drop(channel);
            let groups = group.map(Group::to_join).unwrap_or_default();
            enter::enter(Birth {
                plan,
                sources,
                channel: theirs,
                groups,
                ids,
                own_ids,
                last_steps,
                wall,
                variables: Vec::new(),
            })
        }
    };
    drop(theirs);
    // From here on dropping it ends the child.
    let inside = Inside::new(channel, init, enforced, backing);
    if as_root {
        identity::map_ids_of(pid, ids, identity::SUBORDINATE)
            .map_err(|source| LaunchError::System { what: "cannot write the id maps", source })?;
        inside.channel.send(&LaunchOrder::Mapped, &[])?;
    }
    Ok(inside)
}

/// Takes the last steps in a process that an engine has started, which has the channel and nothing
/// else, and becomes init.
///
/// # Errors
/// Returns an error for the step that failed.
pub(crate) fn last_steps(steps: LastSteps, asked: Asked, channel: &Channel) -> Result<(), Failure> {
    let mut clock = last::Clock::new();
    clock.done(Step::Engine);
    last::take(steps, asked, Vec::new(), channel, clock)
}

/// What is around a sandbox that is made in a container or unit.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    /// Whether the sandbox's files belong to another user on the host than its processes.
    pub(crate) owner_is_other: bool,
    /// Whether the kernel bounds the sandbox's memory.
    pub(crate) memory_is_bounded: bool,
    /// Variables (`NAME=VALUE`) of every program, in place of others of the same names.
    pub(crate) variables: Vec<Vec<u8>>,
}

/// Makes the sandbox below this process, which is the first of a container that has everything of the
/// plan in it and gives it no more rights than its user has; a descriptor of init. What of the plan was
/// handed over as a mount comes from there. The sandbox ends with this process.
///
/// # Errors
/// Returns why it cannot be made, with the channel.
pub(crate) fn below(
    plan: LaunchPlan,
    handed: &mut Handed,
    around: Around,
    channel: Channel,
) -> Result<OwnedFd, (Failure, Channel)> {
    let sources = match handed.sources(&plan) {
        Ok(sources) => sources,
        Err(errno) => return Err((Failure::at(Step::Grants)(errno), channel)),
    };
    let mut watched = watched(&plan, None);
    watched.memory = watched.memory.filter(|_| !around.memory_is_bounded);
    let last_steps = last::of_plan(&plan, &watched, around.owner_is_other);
    // The copy is nobody until it has written its maps.
    let own_ids = Some(caller_ids());
    match sys::clone_into(NAMESPACES as u64, None) {
        Ok(Side::Parent { child, .. }) => Ok(child),
        Ok(Side::Child) => enter::enter(Birth {
            ids: (plan.identity.uid, plan.identity.gid),
            own_ids,
            plan,
            sources,
            channel,
            groups: Vec::new(),
            last_steps,
            wall: Wall::Own,
            variables: around.variables,
        }),
        Err(errno) => Err((Failure::at(Step::Identity)(errno), channel)),
    }
}

/// Clones what lies at a host path to a detached mount in which what root owns is the sandbox's, for
/// a caller who is root.
///
/// # Errors
/// Returns an error for the path, with the error of the mount calls.
pub(crate) fn clone_owned(host: &HostPath) -> Result<OwnedFd, LaunchError> {
    shown(host, detached::clone_host(host.as_path(), true), true)
}

/// Returns whether nobody but its owner and group may read what lies at a host path, or look into it.
pub(crate) fn is_closed(host: &HostPath) -> bool {
    open_host(host.as_path()).is_ok_and(|found| idmap::is_closed(found.as_fd()))
}

/// Keeps the channel alone: what an engine wrote to is not for the sandbox.
///
/// # Errors
/// Returns the error of `close_range(2)`.
pub(crate) fn close_standard_streams(channel: &Channel) -> Result<(), Errno> {
    enter::close_all_others(&[], channel)
}

/// Returns the ids that a caller's sandbox shows: the caller's own, or those of an ordinary first user
/// for a caller who is root (on the host they are ids that own nothing).
pub fn inside_ids() -> (u32, u32) {
    const FIRST_USER: u32 = 1000;
    if rustix::process::geteuid().is_root() {
        (FIRST_USER, FIRST_USER)
    } else {
        identity::caller_ids()
    }
}

/// Returns the ids on the host of what the sandbox owns by itself, where they are not the caller's own.
/// Files of these ids need no idmapped mount, which not every file system has.
pub fn inside_owner() -> Option<(u32, u32)> {
    identity::caller_is_root().then_some((identity::SUBORDINATE, identity::SUBORDINATE))
}

/// Refuses a process with threads. A clone copies the calling thread alone: whatever lock another thread
/// holds stays taken.
pub(crate) fn refuse_threads() -> Result<(), LaunchError> {
    let tasks = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    match tasks {
        Ok(1) => Ok(()),
        Ok(_) => Err(LaunchError::System {
            what: "cannot start a sandbox from a process with several threads",
            source: Errno::BUSY.into(),
        }),
        Err(source) => Err(LaunchError::System { what: "cannot read /proc/self/task", source }),
    }
}

/// Why a plan is refused that wants both.
pub const NESTED_WITHOUT_LANDLOCK: &str =
    "the policy requires Landlock, which nested sandboxes do without";

/// Returns the Landlock ABI in use, 0 for none; refuses where the policy wants more than there is.
pub(crate) fn check_landlock(plan: &LaunchPlan) -> Result<u32, LaunchError> {
    let abi = landlock::abi_for(plan);
    if plan.landlock == Landlock::Required && abi == 0 {
        let what = if plan.nested {
            NESTED_WITHOUT_LANDLOCK.to_owned()
        } else {
            let abi = sys::landlock::abi().unwrap_or(0);
            format!(
                "the policy requires Landlock, and this kernel has ABI {abi} (2 or newer needed)"
            )
        };
        return Err(LaunchError::Wall { what });
    }
    Ok(abi)
}

/// Limits that init watches because no control group enforces or counts them, as they are
/// enforced: a caller cannot hand on more than it may have itself.
fn watched(plan: &LaunchPlan, group: Option<&Group>) -> Watched {
    let bounded = group.is_some_and(Group::bounds_memory);
    let counted = group.is_some_and(Group::bounds_pids);
    let own = |limit: Option<u64>, resource| limit.map(|most| most.min(sys::hard_limit(resource)));
    Watched {
        memory: plan.limits.memory.filter(|_| !bounded),
        pids: own(plan.limits.pids, libc::RLIMIT_NPROC).filter(|_| !counted),
        disk: plan.limits.disk.map(|_| PathBuf::from("/tmp")),
        changes: plan.limits.changes.and_then(|_| view_with_private_changes(plan)),
        files: own(plan.limits.files, libc::RLIMIT_NOFILE),
    }
}

/// Returns any view whose changes are private: all of them lie in one file system, whose name it returns.
fn view_with_private_changes(plan: &LaunchPlan) -> Option<PathBuf> {
    let is_private =
        |entry: &&Entry| matches!(entry.place, Place::Overlay { changes: Changes::Private, .. });
    plan.tree.iter().find(is_private).map(|entry| entry.path.as_path().to_owned())
}

fn child_sources(plan: &LaunchPlan) -> Vec<Source> {
    plan.tree.iter().map(|_| Source::Child).collect()
}

/// Opens the sources of a caller who is root. The child has nobody's rights from the first step, so every source is
/// opened here. Writable ones show their owner as the sandbox's user, and so do grants that are closed to others: with
/// nobody's rights nothing of them could be read.
///
/// Where nested sandboxes leave something to others, closed grants stay closed. From one that shows root's files as the sandbox's
/// an overlay copies a program into a live directory with its set-user-ID bit and capabilities, past the filter.
fn detached_sources(plan: &LaunchPlan) -> Result<Vec<Source>, LaunchError> {
    let open = |host: &HostPath, writable: bool| {
        shown(host, detached::clone_host(host.as_path(), writable), writable)
    };
    let open_lower =
        |lower: &Lower| shown(lower.host(), detached::clone_lower(lower), lower.is_owned());
    let opens_closed = !plan.nested || plan.leaves_nothing;
    plan.tree
        .iter()
        .map(|entry| match &entry.place {
            Place::System(host) => Ok(Source::Detached(open(host, false)?)),
            Place::ReadOnly(host) => {
                let mount = open(host, false)?;
                if opens_closed && idmap::is_closed(mount.as_fd()) {
                    // Where its file system cannot show it, it stays as closed as it is.
                    let _ = idmap::show_owner_as(mount.as_fd(), identity::SUBORDINATE);
                }
                Ok(Source::Detached(mount))
            }
            Place::Writable(host) => Ok(Source::Detached(open(host, true)?)),
            Place::Overlay { lower, changes } => Ok(Source::Layers {
                lower: lower.iter().map(open_lower).collect::<Result<_, _>>()?,
                changes: match changes {
                    Changes::Kept(layers) => Some(open(layers, true)?),
                    Changes::Private => None,
                },
            }),
            Place::Private | Place::File { .. } | Place::Symlink(_) => Ok(Source::Child),
        })
        .collect()
}

/// Returns a source with the owner that the sandbox is to see.
fn shown(
    host: &HostPath,
    mount: Result<OwnedFd, Errno>,
    writable: bool,
) -> Result<OwnedFd, LaunchError> {
    let failed = |source| LaunchError::Source { path: host.to_string(), source };
    let mount = mount.map_err(|errno| failed(errno.into()))?;
    if writable {
        idmap::show_owner_as(mount.as_fd(), identity::SUBORDINATE).map_err(failed)?;
    }
    Ok(mount)
}
