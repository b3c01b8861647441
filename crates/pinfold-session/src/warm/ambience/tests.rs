use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use super::{Ambience, Groups};

/// A process that waits, started by a shell that does this first.
#[expect(clippy::disallowed_methods, reason = "the test starts what a caller would")]
fn after(first: &str) -> Child {
    let script = format!("{first}; echo ready; exec cat");
    let mut child = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    child
}

fn ambience(first: &str) -> Ambience {
    let mut child = after(first);
    // The shell has said that it is about to become `cat`.
    let is_cat = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap() == "cat\n";
    while !is_cat() {
        std::thread::yield_now();
    }
    let found = Ambience::of(&child.id().to_string(), Groups::Own).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    found
}

#[test]
fn what_a_caller_sets_for_a_run_is_a_difference() {
    let plain = ambience("true");
    assert_eq!(plain, ambience("true"));
    for setting in ["umask 77", "ulimit -n 100", "ulimit -c 5", "renice -n 7 $$ >/dev/null"] {
        assert_ne!(plain, ambience(setting), "{setting}");
    }
}
