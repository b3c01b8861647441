use std::process::Stdio;
use std::time::Duration;

use super::{end_descendants, parent_of, reap, set_child_subreaper, wait_for};
use crate::cargo::command;

#[test]
fn a_parent_is_read_past_a_name_with_brackets() {
    assert_eq!(parent_of(b"7 (a) Z 1 (b) S 42 7 7 0"), Some(42));
    assert_eq!(parent_of(b"7 (a) Z 42 7 7 0"), None);
    assert_eq!(parent_of(b"7 (a"), None);
}

#[test]
fn an_orphan_in_a_session_of_its_own_is_reaped() {
    set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let mut shell = command("sh");
    // The orphan ends after its parent.
    shell.args(["-c", "setsid sleep 0.2 &"]);
    #[expect(clippy::zombie_processes, reason = "`wait_for` reaps it")]
    let child = shell.spawn().unwrap();
    wait_for(rustix::process::Pid::from_child(&child)).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    reap();
    let own = std::process::id().to_string();
    let is_child = |stat: &str| {
        stat.rsplit(") ").next().is_some_and(|rest| rest.split(' ').nth(1) == Some(own.as_str()))
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut stats =
        entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    assert!(!stats.any(|stat| is_child(&stat)));
}

#[test]
fn a_daemon_that_outlives_its_command_is_found_and_ended() {
    set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let mut shell = command("sh");
    shell.args(["-c", "setsid sleep 4321 & exit 3"]).stdout(Stdio::null());
    #[expect(clippy::zombie_processes, reason = "`wait_for` reaps it")]
    let child = shell.spawn().unwrap();
    let status = wait_for(rustix::process::Pid::from_child(&child)).unwrap();
    assert_eq!(status, Some(3));
    let left = end_descendants(Duration::from_millis(200)).unwrap();
    assert!(left.iter().any(|line| line.ends_with("sleep 4321")), "{left:?}");
    reap();
    assert!(end_descendants(Duration::from_millis(200)).unwrap().is_empty());
}
