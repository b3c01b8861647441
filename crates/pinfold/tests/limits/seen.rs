//! Limits as programs in the sandbox see them.

use pinfold_testkit::{Stage, engine, installed, people, skip};

/// Prints what programs take for the machine's memory, in bytes, and its CPUs.
const JVM: &str = "public class Seen { public static void main(String[] a) {
    System.out.println(Runtime.getRuntime().maxMemory() + \" \" + Runtime.getRuntime().availableProcessors()); } }";
const NODE: &str = "const v8 = require('v8'), os = require('os');
    console.log(process.constrainedMemory(), v8.getHeapStatistics().heap_size_limit, os.availableParallelism())";
const LIMIT: u64 = 1 << 30;

fn numbers(stage: &Stage, options: &[&str], script: &str) -> Vec<u64> {
    let output = stage.run_shell(options, script);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}{errors}");
    said.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn programs_size_themselves_by_the_memory_limit() {
    for user in people() {
        let stage = Stage::new(user);
        let options = ["--memory", "1G"];
        if engine().is_none() {
            let free = numbers(&stage, &options, "free -b | sed -n 2p");
            assert_eq!(free[0], LIMIT, "{free:?}");
            assert!(free.iter().all(|bytes| *bytes <= LIMIT), "{free:?}");
        }
        let max = numbers(&stage, &options, "cat /sys/fs/cgroup/memory.max");
        assert_eq!(max, [LIMIT]);
        if installed("node") {
            stage.write("ws/seen.js", NODE);
            let seen = numbers(&stage, &options, "node seen.js");
            assert_eq!(seen[0], LIMIT, "{seen:?}");
            assert!(seen[1] <= LIMIT, "{seen:?}");
        } else {
            skip("Node's view of a memory limit", "node is not installed")
        }
        match installed("javac") {
            // An engine's control group file system is not mounted.
            true if engine().is_none() => {
                stage.write("ws/Seen.java", JVM);
                let seen = numbers(&stage, &options, "java Seen.java");
                assert!(seen[0] <= LIMIT / 2, "a quarter of the limit by default: {seen:?}");
            }
            true => {}
            false => skip("the JVM's view of a memory limit", "javac is not installed"),
        }
    }
}

/// Go's runtime looks for no limit but this variable.
#[test]
fn go_is_given_the_memory_limit_unless_the_user_decides() {
    for user in people() {
        let stage = Stage::new(user);
        let value = |options: &[&str]| {
            let output = stage.run_shell(options, "echo ${GOMEMLIMIT-unset}");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        assert_eq!(value(&["--memory", "1G"]), (LIMIT / 10 * 9).to_string());
        assert_eq!(value(&["--memory", "1G", "--env", "GOMEMLIMIT=off"]), "off");
    }
}

#[test]
fn programs_count_as_many_cpus_as_the_share_makes_up() {
    for user in people() {
        let stage = Stage::new(user);
        let options = ["--cpus", "1"];
        if !stage.run(&options, &["true"]).status.success() {
            skip("CPUs as programs count them", "this user can make no control group for CPUs");
            continue;
        }
        assert_eq!(numbers(&stage, &options, "nproc; getconf _NPROCESSORS_ONLN"), [1, 1]);
        let max = numbers(&stage, &options, "cat /sys/fs/cgroup/cpu.max");
        assert_eq!(max, [100_000, 100_000]);
        if engine().is_none() {
            assert_eq!(numbers(&stage, &options, "grep -c ^processor /proc/cpuinfo"), [1]);
            let lscpu = numbers(&stage, &options, "lscpu | sed -n 's/^CPU(s): *//p'");
            assert_eq!(lscpu, [1]);
        }
    }
}

#[test]
fn lscpu_works_without_a_limit() {
    for user in people() {
        let stage = Stage::new(user);
        let seen = numbers(&stage, &[], "nproc; lscpu | sed -n 's/^CPU(s): *//p'");
        assert_eq!(seen[0], seen[1]);
    }
}

/// A hostile sandbox tries to change what is shown, to see the control groups below, and to hide its use of
/// memory from what watches it.
#[test]
fn limits_view_cannot_be_changed_or_removed() {
    if engine().is_some() {
        return skip("the control groups below what is shown", "an engine has none there");
    }
    for user in people() {
        let stage = Stage::new(user);
        let script = "
            for file in /sys/fs/cgroup/memory.max /proc/meminfo /proc/cgroups /run/pinfold/host-meminfo \\
                /run/pinfold/limits/meminfo /sys/devices/system/cpu/online; do
                chmod u+w $file && echo changed; echo 1 > $file && echo changed
                rm -f $file && echo changed; mv $file /tmp/ && echo changed
            done
            mkdir /sys/fs/cgroup/own && echo changed
            umount /sys/fs/cgroup && echo changed
            unshare -Ur umount /sys/fs/cgroup && echo changed
            mount -t cgroup2 none /tmp && echo changed
            find /sys/fs/cgroup -name cgroup.procs
            find /sys/fs/cgroup -mindepth 1 -type d ! -name cpu ! -name memory
            exit 0";
        let output = stage.run_shell(&["--memory", "1G"], script);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "");
    }
}
