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
