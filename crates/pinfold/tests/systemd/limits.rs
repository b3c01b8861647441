//! Limits of units, looked at from outside.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_testkit::skip;

use crate::{failure, nothing_is_left, run, system, text, waiting};

/// The group that a process is in, in the hierarchy of a controller (version 1), or in the one of all (version 2).
fn group(process: u32, controller: &str) -> PathBuf {
    let groups = Path::new("/sys/fs/cgroup");
    let listed = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let is_meant = controllers.split(',').any(|one| one == controller);
        let top = groups.join(controller);
        if is_meant {
            Some(top.join(path))
        } else {
            (controllers.is_empty() && !top.exists()).then(|| groups.join(path))
        }
    };
    listed.lines().find_map(of).unwrap()
}

/// The first of these files of a process's group that is there, without the line's end.
fn limit(process: u32, controller: &str, files: [&str; 2]) -> String {
    let group = group(process, controller);
    assert!(group.to_str().unwrap().contains("pinfold-"), "{}", group.display());
    let read = |file: &&str| fs::read_to_string(group.join(file)).ok();
    files.iter().find_map(read).unwrap().trim().to_owned()
}

#[test]
fn unit_has_the_limits_that_were_asked_for() {
    let Some(system) = system("unit_has_the_limits_that_were_asked_for") else { return };
    let mut session = waiting(&system, "--memory 64M --cpus 0.5 --pids 40");
    // systemd-run has the word among its arguments, too.
    let is_unit = |pid: &u32| {
        let group = group(*pid, "memory");
        !group.to_str().unwrap().contains("/pinfold-runner")
    };
    let init = system.processes_with("unit-init").into_iter().find(is_unit).unwrap();
    let limits = [
        limit(init, "memory", ["memory.limit_in_bytes", "memory.max"]),
        limit(init, "cpu", ["cpu.cfs_quota_us", "cpu.max"]),
        limit(init, "pids", ["pids.max"; 2]),
    ];
    session.kill().unwrap();
    session.wait().unwrap();
    let [memory, cpus, tasks] = limits;
    assert_eq!([memory, tasks], [(64 << 20).to_string(), "72".to_owned()]);
    assert_eq!(cpus.split(' ').next(), Some("50000"));
}

#[test]
fn session_that_needs_more_memory_is_ended_and_the_limit_is_named() {
    let Some(system) = system("session_that_needs_more_memory_is_ended") else { return };
    let line = run("--memory 64M", "python3 -c \"bytearray(200000000)\"; echo ended with $?");
    let output = system.shell("alice", &line);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(!said.contains("ended with 0"), "{said}{errors}");
    assert!(errors.contains("the memory limit ended the run"), "{said}{errors}");
    nothing_is_left(&system);
}

#[test]
fn share_of_the_cpus_that_systemd_silently_leaves_out_is_refused() {
    let Some(system) = system("share_of_the_cpus_that_systemd_silently_leaves_out") else { return };
    if !system.live_path("/sys/fs/cgroup/cpu").is_dir() {
        skip(
            "share_of_the_cpus_that_systemd_silently_leaves_out",
            "needs control groups of version 1",
        );
        return;
    }
    let _ = system.shell("root", "umount /sys/fs/cgroup/cpu");
    let _ = system.shell("root", "systemctl daemon-reexec");
    let said = failure(&system.shell("alice", &run("--cpus 0.5", "echo ran")));
    assert!(said.contains("cannot enforce the cpus limit: systemd was asked for it"), "{said}");
    nothing_is_left(&system);
}

#[test]
fn session_ends_with_the_time_that_the_policy_gives() {
    let Some(system) = system("session_ends_with_the_time_that_the_policy_gives") else { return };
    system.set_policy(&crate::POLICY.replacen('{', r#"{ "runtimeMaxSec": 2,"#, 1));
    let said = failure(&system.shell("alice", &run("", "sleep 1000")));
    assert!(said.contains("ended before the command did"), "{said}");
    nothing_is_left(&system);
}
