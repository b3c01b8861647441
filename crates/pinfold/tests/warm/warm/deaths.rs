//! A keeper or a run that dies, or does not answer.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, people, processes_with};

use super::{
    Keeper, PATIENCE, errors, names, run, said, sessions, spawn_quietly, taken, wait_until,
};

/// A run whose command has said that it is there.
fn running(stage: &Stage, script: &str) -> Child {
    let begun = Instant::now();
    loop {
        let script = format!("echo ready >&2; {script}");
        let mut run = stage.pinfold(&["run", "--timings", "--", "sh", "-c", &script]);
        let mut process = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        if is_child_of(process.id()) {
            // It made its own inside.
            process.kill().unwrap();
            process.wait().unwrap();
            assert!(begun.elapsed() < PATIENCE);
            continue;
        }
        return process;
    }
}

/// Whether a run's inside is its own child. What keeps its masks is one, too.
fn is_child_of(pid: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_inside = |child: &str| {
        let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        !command.split(|byte| *byte == 0).any(|word| word == b"keep-masks")
    };
    children.split_whitespace().any(is_inside)
}

#[test]
fn a_run_outlives_its_keeper() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &["-n", "3"]);
        let mut process = running(&stage, "cat; setsid sleep 0.1; echo end");
        keeper.signal(rustix::process::Signal::KILL);
        drop(keeper);
        drop(process.stdin.take());
        let mut rest = String::new();
        process.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "end\n");
        assert!(process.wait().unwrap().success());
        // What was prepared and not taken has gone, and the next start removes the traces.
        let (output, is_taken) = run(&stage, &[], "true");
        assert!(output.status.success() && !is_taken);
        assert_eq!((sessions(&stage), names(stage.state().join("warm")).len()), (0, 0));
    }
}

#[test]
fn everything_inside_dies_with_a_run_that_took_it() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        let mark = format!("{}", 100_000 + std::process::id());
        let script = format!("(trap '' TERM HUP; setsid sleep {mark}) & cat");
        let mut process = running(&stage, &script);
        wait_until("it runs", || !processes_with(&mark).is_empty());
        process.kill().unwrap();
        process.wait().unwrap();
        wait_until("it is gone", || processes_with(&mark).is_empty());
        assert!(taken(&stage, &[], "true").status.success());
        keeper.end();
        assert_eq!(sessions(&stage), 0);
    }
}

/// A keeper that is stopped, or that dies at any moment, costs a run some time at most.
#[test]
fn a_keeper_that_does_not_answer_is_not_waited_for() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        keeper.signal(rustix::process::Signal::STOP);
        let begun = Instant::now();
        let (output, is_taken) = run(&stage, &[], "echo own");
        assert_eq!((said(&output).as_str(), is_taken), ("own\n", false));
        assert!(begun.elapsed() < Duration::from_secs(5));
        keeper.signal(rustix::process::Signal::CONT);
        assert!(taken(&stage, &[], "true").status.success());
    }
}

#[test]
fn a_keeper_killed_at_any_moment_fails_no_run_and_leaves_nothing() {
    for person in people() {
        let stage = Stage::new(person);
        for moment in 0..10 {
            let keeper = Keeper::start(&stage, &["-n", "2"]);
            let script = stage.pinfold(&["run", "--", "echo", "ran"]);
            let run = spawn_quietly(script);
            std::thread::sleep(Duration::from_millis(moment * 3));
            keeper.signal(rustix::process::Signal::KILL);
            drop(keeper);
            let output = run.wait_with_output().unwrap();
            // In the moment of the change of hands it may be told that init has gone.
            assert!(
                said(&output) == "ran\n" || errors(&output).contains("init ended"),
                "{moment}: {}",
                errors(&output)
            );
        }
        // A copy of the keeper that was just being made may hold its socket a little longer.
        wait_until("nothing is left", || {
            assert!(run(&stage, &[], "true").0.status.success());
            (sessions(&stage), names(stage.state().join("warm")).len()) == (0, 0)
        });
    }
}
