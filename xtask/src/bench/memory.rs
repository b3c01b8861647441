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

/// A session that runs [`IDLE`], looked at once the command runs.
pub(super) fn of(what: &str, mut session: Command) -> Outcome {
    println!("memory of a session's two processes, {what}");
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

/// Prints what a process and its first child hold.
pub(super) fn show_memory(pid: u32) -> Outcome {
    for pid in [pid].into_iter().chain(child_of(pid)) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
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

fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
