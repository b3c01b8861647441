//! Tasks and workers that end before their time.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::{people, processes_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::Scene;

/// Waits until a condition holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a worker on a task that sleeps, ends it with a signal when the agent runs, and returns the task's state.
fn ended_by(scene: &Scene, signal: Signal) -> String {
    let marker =
        format!("{}.{}", std::process::id(), scene.stage.user.uid + signal.as_raw() as u32);
    let id = scene.add(
        &format!("echo half >answer; git add answer; git commit -qm half; sleep 100{marker}"),
        &[],
    );
    let mut worker = scene.command(&["work"]).stderr(Stdio::null()).spawn().unwrap();
    let sleeps = format!("sleep\0100{marker}");
    until("the agent runs", || !processes_with(&sleeps).is_empty());
    kill_process(Pid::from_child(&worker), signal).unwrap();
    worker.wait().unwrap();
    until("the agent is gone", || processes_with(&sleeps).is_empty());
    until("all processes are gone", || processes_with(&marker).is_empty());
    scene.ended(&id).0
}

#[test]
fn worker_that_is_asked_to_end_gives_its_task_back_and_loses_nothing() {
    for user in people() {
        let scene = Scene::new(user);
        assert_eq!(ended_by(&scene, Signal::TERM), "queued");
        let (branches, next) = scene.left();
        assert_eq!(next, ["repo"]);
        let kept = branches.iter().find(|branch| branch.ends_with(".attempt-1")).unwrap();
        assert_eq!(scene.git(&["show", &format!("{kept}:answer")]), "half");
    }
}

#[test]
fn worker_that_is_killed_leaves_no_process() {
    for user in people() {
        let scene = Scene::new(user);
        // The lease decides when it is queued again.
        assert_eq!(ended_by(&scene, Signal::KILL), "running");
    }
}

#[test]
fn cancelled_task_ends_at_the_next_heartbeat() {
    for user in people() {
        let scene = Scene::new(user);
        let marker = format!("100{}.9", std::process::id());
        let id = scene.add(&format!("sleep {marker}"), &[]);
        let mut worker = scene.command(&["work"]).stderr(Stdio::null()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        until("the agent runs", || !processes_with(&sleeps).is_empty());
        assert!(scene.run(&["task", "cancel", &id]).status.success());
        worker.wait().unwrap();
        assert!(processes_with(&sleeps).is_empty());
        assert_eq!(scene.ended(&id).0, "cancelled");
    }
}

#[test]
fn attempt_that_takes_too_long_is_ended() {
    for user in people() {
        let scene = Scene::new(user);
        let id = scene.add("sleep 100", &["--timeout", "3s", "--attempts", "1"]);
        let began = Instant::now();
        scene.work();
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(scene.ended(&id).0, "failed");
    }
}
