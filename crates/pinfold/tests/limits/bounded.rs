//! The limits of a command next to a session's own.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

use pinfold_testkit::{
    Session, Stage, User, behind_gvisor, behind_vm, engine, not_behind_gvisor, people, skip,
};

/// Holds so many megabytes for a second. Where nothing but init watches, it looks every 200 ms.
const HOLDS: &str = "(head -c $1M /dev/zero; sleep 1) | tail >/dev/null";

/// Why these are not tried behind gVisor.
const OF_NO_PART: &str =
    "gVisor's kernel does not tell what a part of a session uses up: it is refused";

/// Whether this user can have groups below a session's (cgroups(7)): by version 1 root, by version 2
/// a user who may make groups next to the one that this test is in. Others have init's watch.
fn has_groups(user: User) -> bool {
    let is_the_engines =
        engine().is_some_and(|engine| ["docker", "podman"].contains(&engine.as_str()));
    if is_the_engines {
        return false;
    }
    user.is_root() && Path::new("/sys/fs/cgroup/memory/tasks").exists()
        || has_delegated(user).unwrap_or(false)
}

fn has_delegated(user: User) -> Option<bool> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let parent = Path::new("/sys/fs/cgroup").join(own).parent()?.to_owned();
    let handed = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
    let has = |wanted| handed.split_whitespace().any(|word| word == wanted);
    let may = user.is_root() || fs::metadata(&parent).ok()?.uid() == user.uid;
    Some(may && ["memory", "pids", "cpu"].into_iter().all(has))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn memory_of_its_own_ends_it_with_all_that_it_has_started_and_nothing_else() {
    if not_behind_gvisor(
        "memory_of_its_own_ends_it_with_all_that_it_has_started_and_nothing_else",
        OF_NO_PART,
    ) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        // Something survives what the kernel kills, and would go on for long.
        let script = format!("({HOLDS}); sleep 1000");
        let begun = Instant::now();
        let output = session.exec(&["--memory", "32M"], &["sh", "-c", &script, "sh", "200"]);
        assert!(errors(&output).contains("the memory limit ended the run"), "{}", errors(&output));
        assert!(!output.status.success());
        assert!(begun.elapsed().as_secs() < 100, "{:?}", begun.elapsed());
        let within = session.exec(&["--memory", "300M"], &["sh", "-c", HOLDS, "sh", "100"]);
        assert_eq!((within.status.code(), errors(&within).as_str()), (Some(0), ""));
        let without = session.exec(&[], &["sh", "-c", HOLDS, "sh", "100"]);
        assert_eq!((without.status.code(), errors(&without).as_str()), (Some(0), ""));
        session.end();
    }
}

#[test]
fn orphaned_process_counts_wherever_its_memory_lies() {
    if not_behind_gvisor("orphaned_process_counts_wherever_its_memory_lies", OF_NO_PART) {
        return;
    }
    let held = [
        "held = b'x' * (200 << 20)",
        "held = mmap.mmap(-1, 200 << 20); held.write(b'x' * (200 << 20))",
        "held = os.memfd_create('m'); [os.write(held, b'x' * (1 << 20)) for _ in range(200)]",
    ];
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        for held in held {
            let script = format!(
                "import mmap, os, time\nif os.fork() or os.setsid() and os.fork(): os._exit(0)\n{held}\n\
                 time.sleep(1000)"
            );
            let begun = Instant::now();
            let sh = "python3 -c \"$1\"; sleep 1000";
            let output = session.exec(&["--memory", "64M"], &["sh", "-c", sh, "sh", &script]);
            assert!(errors(&output).contains("the memory limit ended"), "{}", errors(&output));
            assert!(begun.elapsed().as_secs() < 100, "{:?}", begun.elapsed());
        }
        session.end();
    }
}

#[test]
fn processes_of_its_own_are_counted_alone() {
    if not_behind_gvisor("processes_of_its_own_are_counted_alone", OF_NO_PART) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let script =
            "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 >/dev/null 2>&1 & done; echo all; sleep 1";
        let few = session.exec(&["--pids", "5"], &["sh", "-c", script]);
        assert!(errors(&few).contains("the pids limit was reached"), "{}", errors(&few));
        let enough = session.exec(&["--pids", "20"], &["sh", "-c", script]);
        assert_eq!(String::from_utf8_lossy(&enough.stdout), "all\n", "{}", errors(&enough));
        assert!(!errors(&enough).contains("limit"), "{}", errors(&enough));
        session.end();
    }
}

#[test]
fn a_share_of_the_processors_holds_for_all_that_it_starts() {
    if not_behind_gvisor("a_share_of_the_processors_holds_for_all_that_it_starts", OF_NO_PART) {
        return;
    }
    if behind_vm() {
        return skip(
            "a share of the processors",
            "no part of a machine's session has one: it is refused",
        );
    }
    for user in people() {
        if !has_groups(user) {
            eprintln!("SKIPPED for uid {}: no control groups to be made", user.uid);
            continue;
        }
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let script =
            "timeout 1 sh -c 'while :; do :; done' & timeout 1 sh -c 'while :; do :; done' &
            wait; times | tail -n 1";
        let output = session.exec(&["--cpus", "0.2"], &["sh", "-c", script]);
        let times = String::from_utf8_lossy(&output.stdout).into_owned();
        // Minutes and seconds that the children have had, in user mode first.
        let user = times.split(' ').next().and_then(|user| user.strip_prefix("0m")).unwrap();
        let user: f64 = user.trim_end_matches('s').parse().unwrap();
        assert!(user < 0.6, "{times}");
        session.end();
    }
}

#[test]
fn limits_of_the_session_bound_each_of_its_parts() {
    if not_behind_gvisor("limits_of_the_session_bound_each_of_its_parts", OF_NO_PART) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &["--memory", "64M"]);
        let output = session.exec(&["--memory", "4G"], &["sh", "-c", HOLDS, "sh", "300"]);
        assert!(!output.status.success());
        assert!(!errors(&output).contains("the memory limit ended"), "{}", errors(&output));
        // It is the session that has used too much, and has ended for that.
        let gone = session.exec(&[], &["true"]);
        assert_eq!(gone.status.code(), Some(125), "{}", errors(&gone));
        session.end();
    }
}

#[test]
fn limits_that_would_not_hold_are_refused() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let all = ["--memory", "64M", "--pids", "9", "--cpus", "0.5"];
        for options in [&all[..2], &all[2..4], &all[4..], &all] {
            let output = session.exec(options, &["echo", "ran"]);
            let refused = match options {
                _ if behind_gvisor() => Some(options[0].trim_start_matches('-')),
                _ if has_groups(user) => None,
                _ => options.contains(&"--cpus").then_some("cpus"),
            };
            if let Some(limit) = refused {
                let says = format!("cannot enforce the {limit} limit");
                assert!(errors(&output).contains(&says), "{}", errors(&output));
                assert_eq!((output.stdout.len(), output.status.code()), (0, Some(125)));
            } else {
                assert_eq!(output.stdout, b"ran\n", "{}", errors(&output));
            }
        }
        let before = session.exec(&["--pids", "0"], &["true"]);
        assert_eq!(before.status.code(), Some(2), "{}", errors(&before));
        session.end();
    }
}
