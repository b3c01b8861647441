//! What a user of its own costs: the boundary `systemd`, with systemd as process 1 in namespaces.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use pinfold_testkit::systemd::{PINFOLD, Systemd};

use super::sample::{Contender, in_turns, print};
use super::{Effort, Outcome, command};

const POLICY: &str = r#"{"user": "pi-agent", "stateDir": "/var/lib/pi-agent", "program": "/opt/pinfold",
    "hostUsers": {"alice": {"projectRoots": ["~/work"]}}}"#;
const BOUNDARIES: [&str; 2] = ["namespace", "systemd"];

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    let profile = if pinfold.iter().any(|part| part == "dist") { "dist" } else { "release" };
    let mut build = command("cargo");
    build.args(["build", "--quiet", "--profile", profile, "--package", "pinfold-runner"]);
    if !build.status()?.success() {
        return Err("cannot build the runner".into());
    }
    // It says itself what is missing.
    let Some(system) = Systemd::boot_programs("bench systemd", POLICY, pinfold) else {
        return Ok(());
    };
    system.project("alice", "/home/alice/work/proj");
    println!("\nstart to exit of `true` as another user ({} starts each, in turns)", effort.starts);
    println!(
        "  `entering` is what it takes to get into the system of the benchmark: it is in all others"
    );
    let run = |boundary: &str, line: &str| {
        alice(&system, &format!("exec {PINFOLD} run --boundary {boundary} -- {line}"))
    };
    let mut contenders = vec![Contender::new("entering", alice(&system, "exec true"))];
    let starts = BOUNDARIES.map(|name| Contender::new(name, run(name, "/usr/bin/true")));
    contenders.extend(starts);
    in_turns(&mut contenders, effort.starts)?;
    print(&contenders, "entering");

    println!("\n500 × fork and exec ({} rounds, in turns)", effort.rounds);
    let line = "sh -c 'for n in $(seq 500); do /usr/bin/true; done'";
    let mut contenders = BOUNDARIES.map(|name| Contender::new(name, run(name, line)));
    in_turns(&mut contenders, effort.rounds)?;
    print(&contenders, BOUNDARIES[0]);

    println!("\n`true` in a live session ({} times, in turns)", effort.starts);
    let mut sessions = Vec::new();
    for name in BOUNDARIES {
        let line = format!("exec {PINFOLD} run --boundary {name} --name {name} --idle");
        let mut session = alice(&system, &line);
        session.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        sessions.push(Session(session.spawn()?));
        let exec = format!("exec {PINFOLD} exec {name} -- true");
        while !alice(&system, &exec).stderr(Stdio::null()).status()?.success() {
            if sessions.iter_mut().any(|session| !matches!(session.0.try_wait(), Ok(None))) {
                return Err(format!("the session behind {name} has ended").into());
            }
        }
    }
    let exec = |name: &str| alice(&system, &format!("exec {PINFOLD} exec {name} -- true"));
    let mut contenders = BOUNDARIES.map(|name| Contender::new(name, exec(name)));
    in_turns(&mut contenders, effort.starts)?;
    print(&contenders, BOUNDARIES[0]);
    Ok(())
}

/// Returns a shell line of alice's in a project.
fn alice(system: &Systemd, line: &str) -> Command {
    let mut command = system.as_user("alice");
    command.args(["sh", "-c", &format!("cd ~/work/proj && {line}")]);
    command
}

/// A session that ends with this value.
struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        // Nothing is left to do where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
