//! Nothing is left, whatever is killed.

use std::os::unix::process::ExitStatusExt as _;

use crate::{nothing_is_left, run, system, text, waiting};

#[test]
fn kill_of_the_supervisor_leaves_nothing() {
    let Some(system) = system("kill_of_the_supervisor_leaves_nothing") else { return };
    let mut session = waiting(&system, "");
    assert!(system.agents().contains("sleep 1000"));
    // Below nsenter(1), which forks: by its name.
    let output = system.shell("root", "pkill --signal KILL --uid alice --full /opt/pinfold");
    assert!(output.status.success());
    session.wait().unwrap();
    nothing_is_left(&system);
}

#[test]
fn kill_of_init_or_of_the_unit_ends_the_session_with_a_word() {
    let Some(system) = system("kill_of_init_or_of_the_unit_ends_the_session") else { return };
    for line in [
        "pkill --signal KILL --uid pi-agent --full unit-init",
        "pkill --signal KILL --uid pi-agent --full \"sleep 1000\"",
        "systemctl kill --signal=KILL 'pinfold-????????????.service'",
        "systemctl stop 'pinfold-????????????.service'",
    ] {
        let session = waiting(&system, "");
        std::fs::remove_file(system.path("/home/alice/work/proj/runs")).unwrap();
        let output = system.shell("root", line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let output = session.wait_with_output().unwrap();
        assert!(!output.status.success() && output.status.signal().is_none(), "{line}");
        nothing_is_left(&system);
    }
}

#[test]
fn kill_of_the_runner_leaves_nothing_and_the_next_request_is_served() {
    let Some(system) = system("kill_of_the_runner_leaves_nothing") else { return };
    // Whenever it comes: before the request, while the unit starts, or after.
    for pause in ["0", "0.005", "0.01", "0.02", "0.03", "0.05"] {
        let line = run("", "exit 3");
        let mut session = system.as_user("alice");
        let session =
            session.args(["sh", "-c", &line]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let _ = system.shell(
            "root",
            &format!("sleep {pause}; pkill --signal KILL --full /opt/pinfold-runner"),
        );
        let output = session.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(3) || said.contains("pinfold-runner"),
            "{pause}: {said}"
        );
        nothing_is_left(&system);
    }
    let output = system.shell("alice", &run("", "exit 3"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
