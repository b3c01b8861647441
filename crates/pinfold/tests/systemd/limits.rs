//! Limits of units, looked at from outside.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{failure, nothing_is_left, run, system, waiting};

/// The group of a unit in the hierarchy of a controller; none where the machine has no such controller to give.
fn group(process: u32, controller: &str) -> Option<PathBuf> {
    let listed = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.to_owned());
        controllers.split(',').any(|one| one == controller).then_some(path)
    };
    let path = listed.lines().find_map(of)?;
    let group = Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/'));
    group.exists().then_some(group)
}

#[test]
fn unit_has_the_limits_that_were_asked_for() {
    let Some(system) = system("unit_has_the_limits_that_were_asked_for") else { return };
    let mut session = waiting(&system, "--memory 64M --cpus 0.5 --pids 40");
    let pids = system.processes_with("unit-init");
    // systemd-run has the word among its arguments, too.
    let is_unit = |group: PathBuf| !group.to_str().unwrap().contains("/pinfold-runner");
    let init = pids.into_iter().find(|pid| group(*pid, "memory").is_some_and(is_unit));
    let read = |controller: &str, name: &str| {
        let group = group(init?, controller)?;
        assert!(group.to_str().unwrap().contains("pinfold-"), "{}", group.display());
        Some(fs::read_to_string(group.join(name)).unwrap().trim().to_owned())
    };
    let limits = [
        read("memory", "memory.limit_in_bytes"),
        read("cpu", "cpu.cfs_quota_us"),
        read("pids", "pids.max"),
    ];
    session.kill().unwrap();
    session.wait().unwrap();
    if init.is_none() {
        pinfold_testkit::skip("unit_has_the_limits", "needs control groups of version 1");
    } else {
        assert_eq!(limits, [(64 << 20).to_string(), "50000".into(), "72".into()].map(Some));
    }
}

#[test]
fn share_of_the_cpus_that_systemd_silently_leaves_out_is_refused() {
    let Some(system) = system("share_of_the_cpus_that_systemd_silently_leaves_out") else { return };
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
