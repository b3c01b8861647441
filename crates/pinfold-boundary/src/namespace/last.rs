//! The last steps before init runs: what gives away the rights that it took to make the sandbox.
//!
//! They are taken by the child itself, and by the process that a container engine has started.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use pinfold_init::{Command, Failure, Start, Streams, Surroundings, Watch, Watched, now};
use pinfold_seccomp::Character;
use pinfold_wire::{Channel, LastSteps, Step};
use rustix::io::Errno;

use super::landlock::{self, Ruleset};
use super::{bounds, overlay};
use crate::plan::{LaunchPlan, Place};
use crate::sys;

/// The command and its streams, once the supervisor has said them.
pub(crate) type Asked = Option<(Command, Streams)>;

/// The time at the end of each step, for `--timings`.
pub(crate) struct Clock(Vec<(Step, u64)>);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(Step::ALL.len()))
    }

    pub(crate) fn done(&mut self, step: Step) {
        self.0.push((step, now()));
    }

    pub(crate) fn into_times(self) -> Vec<(Step, u64)> {
        self.0
    }
}

/// Returns what is left to do for a plan.
pub(super) fn of_plan(plan: &LaunchPlan, watched: &Watched, owner_is_other: bool) -> LastSteps {
    let is_writable = |place: &Place| {
        matches!(place, Place::Writable(_) | Place::Overlay { .. } | Place::Private)
    };
    let writable = plan.tree.iter().filter(|entry| is_writable(&entry.place));
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    LastSteps {
        root_by_name: plan.identity.uid == 0,
        landlock: landlock::abi_for(plan),
        writable: writable.map(|entry| entry.path.as_bytes().to_vec()).collect(),
        memory: watched.memory,
        pids: watched.pids,
        files: watched.files,
        disk: watched.disk.as_deref().map(bytes),
        changes: watched.changes.as_deref().map(bytes),
        nested: plan.nested,
        leaves_nothing: plan.leaves_nothing,
        owner_is_other,
        own_kernel: false,
        // What makes namespaces or mounts of its own may not be what init takes it for.
        moves: overlay::has_views(&plan.tree) && !plan.nested,
    }
}

/// Takes the last steps and becomes init, whose programs all have these variables; returns when everything
/// inside is to end.
///
/// # Errors
/// Returns an error for the step that failed; no command.
pub(super) fn take(
    steps: LastSteps,
    asked: Asked,
    variables: Vec<Vec<u8>>,
    channel: &Channel,
    mut clock: Clock,
) -> Result<(), Failure> {
    apply_limits(&steps).map_err(Failure::at(Step::Limits))?;
    // Namespaces are memory of the kernel's, which a guest's cannot have more of than its machine.
    if steps.nested && !steps.own_kernel {
        bounds::bound_namespaces().map_err(Failure::at(Step::Limits))?;
    }
    clock.done(Step::Limits);

    drop_privileges().map_err(Failure::at(Step::Privileges))?;
    clock.done(Step::Privileges);

    second_wall(&steps)?;
    clock.done(Step::Landlock);

    let ids = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // A nested sandbox has ids of its own, and an engine's kernel may know more groups.
    let has_others = steps.nested || steps.own_kernel;
    let character = Character {
        ids: (!has_others).then_some(ids),
        nested: steps.nested,
        leaves_nothing: steps.nested && steps.leaves_nothing,
        root_by_name: steps.root_by_name,
        owner_is_other: steps.owner_is_other,
        moves: steps.moves,
        own_kernel: steps.own_kernel,
    };
    let moves = pinfold_seccomp::load(character).map_err(Failure::at(Step::Seccomp))?;
    clock.done(Step::Seccomp);

    let (command, streams) = asked.ok_or(Errno::INVAL).map_err(Failure::at(Step::Execute))?;
    let watch = Watch::new(watched(steps));
    let surroundings = Surroundings::default();
    let times = clock.into_times();
    let start = Start { command, streams, watch, moves, variables, surroundings, times };
    pinfold_init::run(start, channel)
}

fn watched(steps: LastSteps) -> Watched {
    let path = |path: Option<Vec<u8>>| path.map(|bytes| OsString::from_vec(bytes).into());
    Watched {
        memory: steps.memory,
        pids: steps.pids,
        files: steps.files,
        disk: path(steps.disk),
        changes: path(steps.changes),
    }
}

/// Signals that wait and POSIX timers (`RLIMIT_SIGPENDING`), of all processes: the kernel holds some hundred
/// bytes for each, and allows a user a hundred thousand.
pub(crate) const MOST_SIGNALS: u64 = 8192;

/// Sets the limits. A crash must not reach the host's core dump handler with the sandbox's memory: a limit of
/// exactly one byte is what the kernel takes as "never" for files and for pipes alike (core(5);
/// fs/coredump.c).
///
/// Tasks are counted for each user namespace since Linux 5.14: only the sandbox's own, and those of
/// namespaces made in it, whatever else runs as the same user. Where a control group counts them
/// this limit would come first, and the group would not know of it.
pub(crate) fn apply_limits(steps: &LastSteps) -> Result<(), Errno> {
    // A caller whose limit is 0 cannot raise it. Then no file is written, and a handler is given what it is given of all of the
    // caller's programs.
    let core = sys::hard_limit(libc::RLIMIT_CORE).min(1);
    sys::set_limit(libc::RLIMIT_CORE, core, core)?;
    if !steps.own_kernel {
        // The caller's own limit may be lower.
        let most = sys::hard_limit(libc::RLIMIT_SIGPENDING).min(MOST_SIGNALS);
        sys::set_limit(libc::RLIMIT_SIGPENDING, most, most)?;
    }
    if let Some(most) = steps.files {
        // A kernel of its own may allow fewer.
        let most = most.min(sys::hard_limit(libc::RLIMIT_NOFILE));
        // Some programs size tables by the soft limit, and those that need more raise it.
        let soft = sys::soft_limit(libc::RLIMIT_NOFILE).min(most);
        sys::set_limit(libc::RLIMIT_NOFILE, soft, most)?;
    }
    if let Some(most) = steps.pids {
        sys::set_limit(libc::RLIMIT_NPROC, most, most)?;
    }
    Ok(())
}

/// Drops all privileges: this process, like the command, is an ordinary user with nothing to gain from
/// any file. Non-dumpable keeps the command, which has the same user id, out of init's memory
/// and descriptors; it comes after the last change of credentials, which would reset it.
pub(super) fn drop_privileges() -> Result<(), Errno> {
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    sys::drop_capabilities()?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
    Ok(())
}

/// Puts up the second wall, where there is one; `launch` has refused a plan that requires it in vain. This
/// process stands behind it too, so that everything it starts is in one domain and can signal and
/// debug each other.
pub(super) fn second_wall(steps: &LastSteps) -> Result<(), Failure> {
    let failed = Failure::at(Step::Landlock);
    match steps.landlock {
        0 if steps.nested => landlock::scope().map_err(failed),
        0 => Ok(()),
        abi => Ruleset::of_root(abi, &steps.writable).and_then(Ruleset::restrict).map_err(failed),
    }
}
