//! Init's story, from the reaper's copy to the command.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_init::{Failure, Start, Surroundings, Watch, end_on_panic, kernel_text};
use pinfold_seccomp::Character;
use pinfold_wire::{Channel, LastSteps, LaunchOrder, Step};
use rustix::io::Errno;
use rustix::process::{getpid, getuid, set_child_subreaper};

use super::filter;
use super::layout::{Layout, OF_THE_MACHINE};
use crate::Capabilities;
use crate::namespace::{
    Allowed, Asked, Clock, INIT_NAME, Ruleset, apply_limits, caller_ids, close_all_others,
};
use crate::plan::LaunchPlan;
use crate::sys;

/// What init gets from the reaper, by being its copy.
pub(super) struct Init<'a> {
    pub(super) plan: &'a LaunchPlan,
    pub(super) layout: &'a Layout,
    pub(super) enforced: Capabilities,
    pub(super) asked: Asked,
}

/// Files of the kernel's that say something of the machine, and not of its processes.
pub const KERNEL: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/fs",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/uptime",
    "/proc/version",
];

/// Devices that everybody has. No terminal but a program's own is among them.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Runs the sandbox's programs and ends this process.
pub(super) fn enter(init: Init<'_>, channel: &Channel, reaper: Channel) -> ! {
    end_on_panic();
    if let Err(failure) = become_init(init, channel, reaper) {
        // A supervisor that is gone needs no report.
        let _ = channel.send(&failure.report(), &[]);
    }
    sys::exit(0)
}

fn become_init(init: Init<'_>, channel: &Channel, reaper: Channel) -> Result<(), Failure> {
    let Init { plan, layout, enforced, asked } = init;
    let mut clock = Clock::new();
    let (command, streams) = asked.ok_or(Errno::INVAL).map_err(Failure::at(Step::Execute))?;
    let kept: Vec<_> = streams.descriptors().chain([reaper.as_fd()]).collect();
    sys::wipe_arguments(INIT_NAME)
        .and_then(|()| close_all_others(&kept, channel))
        .and_then(|()| sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))
        .and_then(|_| set_child_subreaper(Some(getpid())))
        .map_err(Failure::at(Step::Identity))?;
    drop(kept);
    clock.done(Step::Identity);

    let limits = plan.limits;
    // The caller's own limit may be lower.
    let highest = sys::hard_limit(libc::RLIMIT_NPROC);
    let most = |pids: u64| tasks_of_this_user().saturating_add(pids).min(highest);
    let most = limits.pids.map(most);
    let steps = LastSteps { pids: most, files: limits.files, ..LastSteps::default() };
    apply_limits(&steps).map_err(Failure::at(Step::Limits))?;
    let unbounded = limits.memory.filter(|_| !enforced.memory);
    let watch = Watch::below(unbounded, limits.pids).map_err(Failure::at(Step::Limits))?;
    clock.done(Step::Limits);

    // No program gives capabilities any more (the reaper has set `no_new_privs`).
    sys::clear_capabilities().map_err(Failure::at(Step::Privileges))?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0).map_err(Failure::at(Step::Privileges))?;
    clock.done(Step::Privileges);

    let wall = walls(layout, enforced.landlock).map_err(Failure::at(Step::Landlock))?;
    clock.done(Step::Landlock);

    let character = Character { ids: Some(caller_ids()), ..Character::default() };
    let listener = pinfold_seccomp::load(character)
        .and_then(|_| filter::load())
        .map_err(Failure::at(Step::Seccomp))?;
    reaper
        .send(&LaunchOrder::Init, &[listener.as_fd()])
        .map_err(|_| Failure::at(Step::Seccomp)(Errno::PIPE))?;
    drop((listener, reaper));
    clock.done(Step::Seccomp);

    let surroundings = Surroundings { wall: Some(wall), moved: layout.moved.clone() };
    let variables =
        [("TMPDIR", "/tmp")].map(|(name, place)| format!("{name}={place}").into_bytes());
    let start = Start {
        command,
        streams,
        watch,
        moves: None,
        variables: variables.to_vec(),
        surroundings,
        times: clock.into_times(),
    };
    pinfold_init::run(start, channel)
}

/// Puts this process behind a wall, and returns the rules of the one that everything that it starts has in addition. Init also
/// reads what the kernel says of processes, and opens terminals.
fn walls(layout: &Layout, abi: u32) -> Result<OwnedFd, Errno> {
    let outer = rules(layout, abi)?;
    outer.allow("/proc", Allowed::Read)?;
    outer.allow("/dev/pts", Allowed::Device)?;
    outer.allow("/dev/ptmx", Allowed::Device)?;
    let inner = rules(layout, abi)?;
    outer.restrict()?;
    Ok(inner.into_rules())
}

fn rules(layout: &Layout, abi: u32) -> Result<Ruleset, Errno> {
    let rules = Ruleset::new(abi)?;
    for (paths, allowed) in [(&layout.read, Allowed::Read), (&layout.changed, Allowed::Change)] {
        for path in paths {
            rules.allow_real(path, allowed)?;
        }
    }
    for path in OF_THE_MACHINE.iter().chain(&KERNEL) {
        rules.allow(path, Allowed::Read)?;
    }
    rules.allow(&layout.root, Allowed::Read)?;
    for path in DEVICES {
        rules.allow(path, Allowed::Device)?;
    }
    Ok(rules)
}

/// Returns the tasks of all processes of this user, which the kernel counts together (getrlimit(2), `RLIMIT_NPROC`).
fn tasks_of_this_user() -> u64 {
    let own = getuid().as_raw().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let tasks = |number: String| {
        let status = kernel_text(format!("/proc/{number}/status")).ok()?;
        let field = |key| {
            let line = status.lines().find_map(|line: &str| line.strip_prefix(key))?;
            line.split_whitespace().next()
        };
        field("Threads:").filter(|_| field("Uid:") == Some(&own))?.parse::<u64>().ok()
    };
    numbers.filter(|name| is_number(name)).filter_map(tasks).sum()
}
