//! What the supervisor of a session holds in memory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Outcome, command};

/// What a session runs that waits for its input.
pub(super) const IDLE: [&str; 4] = ["--", "/bin/sh", "-c", "echo ready; read line"];

/// Sessions in an empty directory.
pub(super) fn run(pinfold: &Path) -> Outcome {
    println!();
    ["shared_mount", "overlay"].into_iter().try_for_each(|mode| {
        let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(super::start::base())?;
        let mut session = command(pinfold);
        session.args(["run", "--workspace", mode]).args(IDLE).current_dir(workspace.path());
        of(mode, session)
    })
}

/// Starts a session that runs [`IDLE`], looked at once the command runs.
pub(super) fn of(what: &str, mut session: Command) -> Outcome {
    println!("memory of a session's processes, {what}");
    let started = Instant::now();
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut ready = [0_u8; 6];
    if let Some(stdout) = &mut session.stdout {
        std::io::Read::read_exact(stdout, &mut ready)?;
    }
    println!("  ready after {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    // Its threads settle.
    std::thread::sleep(Duration::from_millis(50));
    show_memory(session.id())?;
    drop(session.stdin.take());
    session.wait()?;
    Ok(())
}

/// Prints what a process and all below it hold, and what a manager of containers runs for it.
pub(super) fn show_memory(pid: u32) -> Outcome {
    let mut pids = below(pid);
    if let Some(init) = managed_init() {
        pids.extend(parent_of(init));
        pids.extend(below(init));
    }
    for pid in pids {
        let Some(status) = read(format!("/proc/{pid}/status")) else { continue };
        let line = |key: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        println!(
            "  {:<14} resident {}, of which its own {}",
            line("Name:"),
            line("VmRSS:"),
            line("RssAnon:")
        );
    }
    Ok(())
}

/// Returns a process and those below it. The kernel lists the children of each thread (proc_pid_task(5)).
fn below(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: String =
        threads.filter_map(|thread| read(thread.path().join("children"))).collect();
    let below = children.split_whitespace().filter_map(|pid| pid.parse().ok()).flat_map(below);
    [pid].into_iter().chain(below.collect::<Vec<_>>()).collect()
}

/// Returns the first process of the container that a daemon runs. The init in it has the same arguments, and a
/// later parent.
fn managed_init() -> Option<u32> {
    let is_init = |pid: &u32| {
        let line = read(format!("/proc/{pid}/cmdline"));
        line.is_some_and(|line| line.starts_with("/run/pinfold/init\0managed-init"))
    };
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_init).min_by_key(|pid| parent_of(*pid))
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = read(format!("/proc/{pid}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
