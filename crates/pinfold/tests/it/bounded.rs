//! What a command beside a session's own may use up.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

use crate::common::{Person, Stage, people};
use crate::exec::Session;

/// Holds so many megabytes.
const HOLDS: &str = "head -c $1M /dev/zero | tail >/dev/null";

/// Whether this person can have groups below a session's (cgroups(7)): by version 1 root, by version 2
/// whoever may make groups beside the one that this test is in.
fn can_bound(person: Person) -> bool {
    let can = person.is_root() && Path::new("/sys/fs/cgroup/memory/tasks").exists()
        || has_delegated(person).unwrap_or(false);
    if !can {
        eprintln!("SKIPPED for uid {}: no control groups to be made", person.uid);
    }
    can
}

fn has_delegated(person: Person) -> Option<bool> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let parent = Path::new("/sys/fs/cgroup").join(own).parent()?.to_owned();
    let handed = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
    let has = |wanted| handed.split_whitespace().any(|word| word == wanted);
    let may = person.is_root() || fs::metadata(&parent).ok()?.uid() == person.uid;
    Some(may && ["memory", "pids", "cpu"].into_iter().all(has))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn memory_of_its_own_ends_it_with_all_that_it_has_started_and_nothing_else() {
    for person in people().into_iter().filter(|person| can_bound(*person)) {
        let stage = Stage::new(person);
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
        let without = session.exec(&[], &["sh", "-c", HOLDS, "sh", "200"]);
        assert_eq!((without.status.code(), errors(&without).as_str()), (Some(0), ""));
        session.end();
    }
}

#[test]
fn processes_of_its_own_are_counted_alone() {
    for person in people().into_iter().filter(|person| can_bound(*person)) {
        let stage = Stage::new(person);
        let session = Session::start(&stage, &[]);
        let script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 >/dev/null 2>&1 & done; echo all";
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
    for person in people().into_iter().filter(|person| can_bound(*person)) {
        let stage = Stage::new(person);
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
fn what_the_whole_session_may_use_up_bounds_each_of_its_parts() {
    for person in people().into_iter().filter(|person| can_bound(*person)) {
        let stage = Stage::new(person);
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
    for person in people() {
        let stage = Stage::new(person);
        let session = Session::start(&stage, &[]);
        for options in [["--memory", "64M"], ["--pids", "9"], ["--cpus", "0.5"]] {
            let output = session.exec(&options, &["echo", "ran"]);
            let limit = options[0].trim_start_matches('-');
            match can_bound(person) {
                true => assert_eq!(output.stdout, b"ran\n", "{}", errors(&output)),
                false => {
                    let says = format!("cannot enforce the {limit} limit");
                    assert!(errors(&output).contains(&says), "{}", errors(&output));
                    assert_eq!((output.stdout.len(), output.status.code()), (0, Some(125)));
                }
            }
        }
        let before = session.exec(&["--pids", "0"], &["true"]);
        assert_eq!(before.status.code(), Some(2), "{}", errors(&before));
        session.end();
    }
}
