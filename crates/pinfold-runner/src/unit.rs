//! The transient unit that a session runs in (systemd.exec(5), systemd.resource-control(5)).

use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::accounts::Account;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::request::Request;

/// The word after which pinfold's executable is init in a unit.
pub const SUBCOMMAND: &str = "unit-init";
/// What init says to the runner when it has the mounts.
pub const READY: &[u8] = b"R";
/// What the runner sends to init, followed by how many of the files that come with it hold variables: the user's directories,
/// these files, and the request's mounts.
pub const HANDED: u8 = b'M';

const PROGRAMS: [&str; 2] = ["/usr/bin/systemd-run", "/run/current-system/sw/bin/systemd-run"];
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// What every unit has: a property a line, between comments.
const PROPERTIES: &str = include_str!("../data/properties");

/// Returns the properties that every unit has.
fn properties() -> impl Iterator<Item = &'static str> {
    PROPERTIES.lines().filter(|line| !line.starts_with('#'))
}

/// Returns the arguments of systemd-run(1). Of the caller's they hold numbers and the session's id.
#[must_use]
pub fn arguments(policy: &Policy, service: &Account, request: &Request) -> Vec<String> {
    let mut arguments: Vec<String> = ["--quiet", "--pipe", "--wait"].map(str::to_owned).into();
    arguments.push(format!("--unit={}", name(&request.session)));
    let mut set = |property: String| arguments.push(format!("--property={property}"));
    properties().for_each(|property| set(property.to_owned()));
    set(format!("User={}", service.name));
    set(format!("Description=Sandbox {} of pinfold", request.session));
    // The minus sign is for a directory that is not there.
    set(format!("InaccessiblePaths=-{}", policy.state_dir.display()));
    // A caller may ask for less than the policy gives.
    let least = |asked: Option<u64>, most: Option<NonZeroU64>| {
        asked.into_iter().chain(most.map(NonZeroU64::get)).min()
    };
    if let Some(bytes) = least(request.memory, policy.memory_max) {
        set(format!("MemoryMax={bytes}"));
        set("MemorySwapMax=0".to_owned());
    }
    let others = [
        policy.private_pids.then(|| "PrivatePIDs=yes".to_owned()),
        request.cpus.map(|it| format!("CPUQuota={}.{}%", it / 10, it % 10)),
        least(request.tasks, policy.tasks_max).map(|tasks| format!("TasksMax={tasks}")),
        policy.runtime_max_sec.map(|seconds| format!("RuntimeMaxSec={seconds}")),
    ];
    others.into_iter().flatten().for_each(set);
    let program = policy.program.display().to_string();
    arguments.extend(["--", &program, SUBCOMMAND].map(str::to_owned));
    arguments
}

/// Returns the name of a session's unit.
#[must_use]
pub fn name(session: &str) -> String {
    format!("pinfold-{session}.service")
}

/// Starts a unit with these as init's standard input and output, and waits until init says that it has the mounts.
///
/// # Errors
/// Returns that systemd-run cannot be executed, what systemd said, or that init did not come.
#[expect(
    clippy::disallowed_methods,
    reason = "the runner has no launcher: one program by its path"
)]
pub(crate) fn start(
    arguments: &[String],
    input: OwnedFd,
    output: OwnedFd,
    mounts: BorrowedFd<'_>,
) -> Result<(), Refusal> {
    let (said, errors) = pipe_with(PipeFlags::CLOEXEC).map_err(Refusal::at("systemd-run"))?;
    let program = PROGRAMS
        .into_iter()
        .find(|program| Path::new(program).exists())
        .ok_or_else(|| Refusal::new("systemd-run is not installed", "install systemd"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().current_dir("/");
    command.stdin(input).stdout(output).stderr(errors);
    let mut client =
        command.spawn().map_err(|error| Refusal::plain(format!("{program}: {error}")))?;
    let is_ready = is_ready(&client, mounts);
    // The unit's copy of the socket keeps it open as long as init runs.
    let _ = client.kill();
    let _ = client.wait();
    if is_ready {
        return Ok(());
    }
    // Init may still have the other end: whatever there is is enough.
    let _ = rustix::io::ioctl_fionbio(&said, true);
    let mut text = [0; 4096];
    let length = rustix::io::read(&said, &mut text).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    Err(Refusal::new(
        format!("systemd started no unit: {}", last.unwrap_or("init did not answer")),
        "`journalctl --unit='pinfold-*'` may say more",
    ))
}

fn is_ready(client: &Child, mounts: BorrowedFd<'_>) -> bool {
    let Ok(client) = pidfd_open(Pid::from_child(client), PidfdFlags::empty()) else { return false };
    let mut events =
        [PollFd::from_borrowed_fd(mounts, PollFlags::IN), PollFd::new(&client, PollFlags::IN)];
    let polled = rustix::io::retry_on_intr(|| poll(&mut events, Some(&PATIENCE)));
    if polled.is_err() || events[0].revents().is_empty() {
        return false;
    }
    let mut answer = [0; 2];
    let read = rustix::io::read(mounts, &mut answer);
    read.is_ok_and(|length| &answer[..length] == READY)
}

#[cfg(test)]
mod tests;
