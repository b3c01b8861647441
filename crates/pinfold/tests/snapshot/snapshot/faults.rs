//! Builds that are killed, interrupted, or made twice at once; caches that are not as they were left.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Child, Stdio};

use pinfold_testkit::snapshot::{commands, possible};
use pinfold_testkit::tracer::kill_at;
use pinfold_testkit::{Stage, User, people, processes_with, skip};
use rustix::process::{Pid, Signal, kill_process};

use super::{build, cache, kept, refused, said, session, stderr};

/// A build that has come to a command that never ends, and what tells that command apart.
fn endless(stage: &Stage, user: User) -> (Child, String) {
    let marker = format!("6{}{}", std::process::id(), user.uid);
    commands(
        stage,
        &["echo x >/opt/x", &format!("touch /bin/s; chmod u+s /bin/s; sleep {marker}")],
    );
    let mut command = stage.pinfold(&["snapshot", "build"]);
    let mut build = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let marker = format!("sleep\0{marker}");
    while processes_with(&marker).is_empty() {
        assert_eq!(build.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    (build, marker)
}

fn gone(marker: &str) {
    while !processes_with(marker).is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_build_leaves_no_process_and_the_next_call_no_file() {
    if !possible("a_killed_build_leaves_no_process") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let (mut child, marker) = endless(&stage, user);
        child.kill().unwrap();
        child.wait().unwrap();
        gone(&marker);
        // Until then nobody else can enter the place where it lies.
        let mode = fs::metadata(cache(&stage, "snapshots")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        commands(&stage, &["echo other >/opt/x"]);
        said(&build(&stage));
        let left = kept(&stage, "snapshots");
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(session(&stage, "cat /opt/x"), "other\n");
    }
}

#[test]
fn a_build_whose_processes_are_killed_at_any_step_is_made_by_the_next() {
    /// Odd, so that beginnings and ends of calls take turns.
    const STRIDE: u32 = 601;
    if !possible("a_build_whose_processes_are_killed_at_any_step") {
        return;
    }
    for user in people() {
        let mut killed = 0;
        // The builder, the unpacker and its init, the command and its init.
        for nth in 0..5 {
            let mut step = 1;
            loop {
                let stage = Stage::new(user);
                commands(&stage, &["echo whole >/opt/x"]);
                let mut build = stage.pinfold(&["snapshot", "build"]);
                build.stdout(Stdio::null()).stderr(Stdio::null());
                if !kill_at(build, nth, step).killed {
                    break;
                }
                killed += 1;
                assert_eq!(session(&stage, "cat /opt/x"), "whole\n", "{nth}, step {step}");
                said(&stage.pinfold(&["snapshot", "prune"]).output().unwrap());
                let left = (kept(&stage, "snapshots").len(), kept(&stage, "bases").len());
                assert_eq!(left, (1, 1), "{nth}, step {step}");
                step += STRIDE;
            }
        }
        assert!(killed > 5, "{killed} killed");
    }
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    if !possible("an_interrupted_build_leaves_nothing") {
        return;
    }
    for user in people() {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let stage = Stage::new(user);
            let (mut child, marker) = endless(&stage, user);
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert!(!child.wait().unwrap().success());
            gone(&marker);
            assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new(), "{signal:?}");
        }
    }
}

#[test]
fn builds_of_one_hash_at_once_share_the_work() {
    if !possible("builds_of_one_hash_at_once_share_the_work") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(&stage, &["echo made; sleep 1"]);
        let start = || {
            let mut build = stage.pinfold(&["snapshot", "build"]);
            build.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let outputs = [start(), start(), start()].map(|build| build.wait_with_output().unwrap());
        let made = outputs.iter().filter(|output| stderr(output).contains("\nmade\n")).count();
        assert_eq!(made, 1);
        let paths = outputs.each_ref().map(said);
        assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
        assert_eq!(kept(&stage, "snapshots").len(), 1);
    }
}

#[test]
fn half_written_or_damaged_layer_is_made_again() {
    if !possible("half_written_or_damaged_layer_is_made_again") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(&stage, &["echo whole >/opt/x"]);
        said(&build(&stage));
        let whole = |shelf: &str| cache(&stage, shelf).join(&kept(&stage, shelf)[0]);
        for (shelf, summary) in [("snapshots", "snapshot.json"), ("bases", "base.json")] {
            let home = whole(shelf);
            let text = fs::read_to_string(home.join(summary)).unwrap();
            for damage in
                ["", "{", &text[..text.len() / 2], &text.replace("\"id\": \"", "\"id\": \"0")]
            {
                fs::write(home.join(summary), damage).unwrap();
                said(&stage.pinfold(&["snapshot", "ls"]).output().unwrap());
                assert_eq!(session(&stage, "cat /opt/x"), "whole\n", "{shelf}: {damage}");
            }
            fs::remove_file(home.join(summary)).unwrap();
            assert_eq!(session(&stage, "cat /opt/x"), "whole\n", "{shelf}");
            fs::rename(home.join("tree"), home.join("moved")).unwrap();
            assert_eq!(session(&stage, "cat /opt/x"), "whole\n", "{shelf}");
        }
        for entry in fs::read_dir(cache(&stage, "bases/names")).unwrap() {
            fs::write(entry.unwrap().path(), "nonsense").unwrap();
        }
        assert_eq!(session(&stage, "cat /opt/x"), "whole\n");
        assert_eq!(kept(&stage, "snapshots").len(), 1);
    }
}

#[test]
fn a_cache_of_somebody_else_is_refused() {
    const TEST: &str = "a_cache_of_somebody_else_is_refused";
    if !possible(TEST) || !rustix::process::geteuid().is_root() {
        return skip(TEST, "it takes root, who can give files away");
    }
    for user in people() {
        let stage = Stage::new(user);
        commands(&stage, &["echo theirs >/opt/x"]);
        said(&build(&stage));
        for shelf in ["snapshots", "bases"] {
            let dir = cache(&stage, shelf);
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
            chown(&dir, Some(65534), None).unwrap();
            let error = refused(&stage.run_shell(&[], "cat /opt/x"));
            assert!(error.contains("belongs to another user"), "{error}");
            chown(&dir, Some(user.uid), None).unwrap();
            assert_eq!(session(&stage, "cat /opt/x"), "theirs\n");
            let mode = fs::metadata(&dir).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "closed again");
        }
    }
}

#[test]
fn directories_deeper_than_a_path_are_removed_as_well() {
    if !possible("directories_deeper_than_a_path_are_removed_as_well") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        // A hundred of 60 bytes each are longer than PATH_MAX; 3 000 are more than descriptors.
        let deep = "cd /opt; i=0; while [ $i -lt 3000 ]; do \
                    mkdir 0123456789012345678901234567890123456789; \
                    cd 0123456789012345678901234567890123456789; i=$((i+1)); done; chmod 0 ../..";
        commands(&stage, &[deep]);
        refused(&build(&stage));
        assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new());
    }
}
