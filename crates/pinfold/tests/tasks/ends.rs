//! Tasks and workers that end before their time.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::{people, processes_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{Scene, printed, until};

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

/// Has the first attempt at a task be lost while its agent works, and returns what the worker said and the task's id.
/// `kill` ends it.
fn lost_once(scene: &Scene, kill: impl Fn(&str, u32)) -> (String, String) {
    let marker = format!("200{}.{}", std::process::id(), scene.stage.user.uid);
    let script = format!(
        "case $(git symbolic-ref HEAD) in *-1) echo half >half; sleep {marker} ;; esac; echo right >answer"
    );
    let id = scene.add(&script, &[]);
    let mut worker = scene.command(&["work"]);
    let worker = worker.stderr(Stdio::piped()).spawn().unwrap();
    let sleeps = format!("sleep\0{marker}");
    until("the agent runs", || !processes_with(&sleeps).is_empty());
    kill(&marker, worker.id());
    until("the agent is gone", || processes_with(&sleeps).is_empty());
    (printed(&worker.wait_with_output().unwrap()), id)
}

#[test]
fn run_that_is_killed_is_tried_again_and_what_it_had_not_committed_stays() {
    for user in people() {
        let scene = Scene::new(user);
        let (said, id) = lost_once(&scene, |marker, _| {
            let is_run = |pid: &u32| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains("\0run\0--result\0")
            };
            for pid in processes_with(marker).into_iter().filter(is_run) {
                let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
            }
        });
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
        let next = format!("repo-task-{}.attempt-1", &id[..8]);
        let half = scene.stage.workspace().join(&next).join("half");
        assert_eq!(std::fs::read_to_string(half).unwrap(), "half\n", "{said}");
        let shown = printed(&scene.run(&["task", "show", &id]));
        assert!(shown.contains(&next) && shown.contains("not committed"), "{shown}");
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

#[test]
fn result_of_a_worker_that_dies_before_it_publishes_it_is_published_by_the_next_one() {
    for user in people() {
        let scene = Scene::new(user);
        let id = scene.add("echo right >answer", &[]);
        let branch = format!("task/{}", id.split('-').next().unwrap());
        // The worker alone moves that branch.
        let git = "#!/bin/sh\ncase \"$*\" in *.attempt-*|*.verify-*) ;; *update-ref*refs/heads/task/*) \
                   kill -9 $PPID; exit 1 ;; esac\nexec /usr/bin/git \"$@\"\n";
        let program = scene.stage.write("deadly/git", git);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", scene.stage.path("deadly").display());
        let mut worker = scene.command(&["work"]);
        let killed = worker.env("PATH", path).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{}", printed(&killed));
        assert_eq!(scene.ended(&id).0, "completed");
        assert!(!scene.left().0.contains(&branch), "it has no branch yet");
        let said = scene.work();
        assert!(said.contains("published the result of a worker that was killed"), "{said}");
        assert_eq!(scene.git(&["show", &format!("{branch}:answer")]), "right");
        assert_eq!(scene.left().0, ["main", &branch]);
        let said = scene.work();
        assert!(!said.contains("published"), "once: {said}");
        let notes = scene.stage.state().join("tasks/unpublished");
        assert_eq!(std::fs::read_dir(notes).unwrap().count(), 0);
    }
}

/// git keeps the git directory of a submodule in that of the worktree, and removes both together.
#[test]
fn worktree_of_an_attempt_stays_while_a_submodule_in_it_has_commits() {
    const SCRIPT: &str = "set -e; export HOME=/tmp; for key in user.name user.email; do git config --global $key a; done; \
        git config --global protocol.file.allow always; git init -q -b main /tmp/lib; \
        git -C /tmp/lib commit -q --allow-empty -m lib; git submodule --quiet add /tmp/lib lib; cd lib; \
        MORE; cd ..; git add lib; git commit -qm with";
    for user in people() {
        for (more, stays) in [("git commit -q --allow-empty -m more", true), ("true", false)] {
            let scene = Scene::new(user);
            let id = scene.add(&SCRIPT.replace("MORE", more), &[]);
            let said = scene.work();
            assert_eq!(scene.ended(&id).0, "completed", "{said}");
            let (_, next) = scene.left();
            assert_eq!(next.len() == 2, stays, "{next:?} {said}");
            assert_eq!(said.contains("submodules in it have commits"), stays, "{said}");
            let result = format!("task/{}", &id[..8]);
            assert_eq!(scene.git(&["log", "-1", "--format=%s", &result]), "with", "{said}");
            if stays {
                let path = scene.repository().join("..").join(&next[1]).join("lib");
                let commit = scene.git(&["rev-parse", &format!("{result}:lib")]);
                let path = path.to_str().unwrap();
                assert_eq!(scene.git(&["-C", path, "rev-parse", "HEAD"]), commit, "{said}");
            }
        }
    }
}
