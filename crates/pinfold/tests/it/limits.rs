//! Each limit fires, as root by a control group where there is one and as a user without, and is
//! named.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Stage, installed, people, processes_with, skip};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn named(output: &Output, limit: &str, what: &str) {
    let errors = text(&output.stderr);
    assert!(errors.contains(&format!("the {limit} limit {what}")), "{}: {errors}", output.status);
}

#[test]
fn the_time_limit_ends_the_whole_tree() {
    for person in people() {
        let stage = Stage::new(person);
        let marker = format!("7{}", std::process::id());
        let script = format!("setsid sleep {marker} & sleep {marker}");
        let started = Instant::now();
        let output = stage.run_shell(&["--timeout", "1s"], &script);
        named(&output, "timeout", "ended the run");
        assert_eq!(output.status.code(), Some(128 + 15));
        let took = started.elapsed();
        assert!((1.0..1.9).contains(&took.as_secs_f64()), "{took:?}");
        assert_eq!(processes_with(&format!("sleep\0{marker}")), Vec::<u32>::new());
    }
}

#[test]
fn a_command_deaf_to_the_time_limit_is_killed() {
    for person in people() {
        let stage = Stage::new(person);
        let script = "trap '' TERM HUP INT; while :; do sleep 0.1; done";
        let output = stage.run_shell(&["--timeout", "1s"], script);
        named(&output, "timeout", "ended the run");
        assert_eq!(output.status.code(), Some(128 + 9));
    }
}

#[test]
fn the_memory_limit_counts_the_whole_tree() {
    if !installed("python3") {
        return skip("memory", "python3 is not installed");
    }
    // Each below the limit, both together above it.
    let script = "hog() { exec python3 -c 'import time; a=b\"x\"*(90<<20); time.sleep(20)'; }; \
                  (hog) & (hog) & wait; sleep 20";
    for person in people() {
        let stage = Stage::new(person);
        let output = stage.run_shell(&["--memory", "150M"], script);
        named(&output, "memory", "ended the run");
        assert_eq!(output.status.code(), Some(128 + 9));
        let enough = stage.run_shell(&["--memory", "400M"], "python3 -c 'a=b\"x\"*(90<<20)'");
        assert!(enough.status.success(), "{}", text(&enough.stderr));
        assert_eq!(text(&enough.stderr), "");
    }
}

#[test]
fn what_lies_in_private_directories_counts_as_memory() {
    for person in people() {
        let stage = Stage::new(person);
        let script = "head -c 200M /dev/zero >/tmp/large; sleep 20";
        let output = stage.run_shell(&["--memory", "100M"], script);
        named(&output, "memory", "ended the run");
    }
}

#[test]
fn the_task_limit_stops_a_fork_bomb() {
    if !installed("python3") {
        return skip("a fork bomb", "python3 is not installed");
    }
    // Every process goes on trying, for ever; the marker makes them known outside.
    let bomb = "import os, time\n\
                while True:\n\
                \x20 try: os.fork()\n\
                \x20 except OSError: time.sleep(0.01)\n";
    for person in people() {
        let stage = Stage::new(person);
        let marker = format!("bomb-{}-{}", person.uid, std::process::id());
        let mut run = stage.pinfold(&["run", "--pids", "60", "--timeout", "2s", "--"]);
        run.args(["python3", "-c", bomb, &marker]).stderr(Stdio::piped());
        let run = run.spawn().unwrap();
        let mut most = 0;
        // pinfold's own command line holds the marker, too.
        while let count @ 1.. = processes_with(&format!("{bomb}\0{marker}")).len() {
            most = most.max(count);
        }
        let output = run.wait_with_output().unwrap();
        named(&output, "timeout", "ended the run");
        assert!((30..=61).contains(&most), "{most} processes at a time");
    }
}

#[test]
fn a_task_too_many_is_refused_and_named() {
    if !installed("python3") {
        return skip("pids", "python3 is not installed");
    }
    let script = "import os, time\n\
                  children = 0\n\
                  try:\n\
                  \x20 while True:\n\
                  \x20   if os.fork() == 0: time.sleep(60)\n\
                  \x20   children += 1\n\
                  except OSError: print(children, flush=True)\n\
                  time.sleep(0.5)\n";
    for person in people() {
        let stage = Stage::new(person);
        let output = stage.run(&["--pids", "40"], &["python3", "-c", script]);
        let children: u32 = text(&output.stdout).trim().parse().unwrap();
        // Init and the parent count, too.
        assert!((35..=39).contains(&children), "{children}");
        named(&output, "pids", "was reached");
        assert_eq!(output.status.code(), Some(0), "refusing a task ends nothing");
    }
}

#[test]
fn the_disk_limit_bounds_all_private_directories_together() {
    let script = "head -c 6M /dev/zero >/tmp/a && head -c 6M /dev/zero >$HOME/b 2>/dev/null; \
                  echo $?; sleep 0.5";
    for person in people() {
        let stage = Stage::new(person);
        let output = stage.run_shell(&["--disk", "8M"], script);
        assert_eq!(text(&output.stdout), "1\n", "{}", text(&output.stderr));
        named(&output, "disk", "was reached");
    }
}

#[test]
fn the_limit_of_open_files_holds_for_each_process() {
    if !installed("python3") {
        return skip("files", "python3 is not installed");
    }
    let script = "import os, resource\n\
                  held = []\n\
                  try:\n\
                  \x20 while True: held.append(os.open('/dev/null', os.O_RDONLY))\n\
                  except OSError as error: print(len(held), error.errno)\n\
                  print(resource.getrlimit(resource.RLIMIT_NOFILE))\n";
    for person in people() {
        let stage = Stage::new(person);
        let output = stage.run(&["--files", "64"], &["python3", "-c", script]);
        // 24 is EMFILE; the standard streams count.
        assert_eq!(text(&output.stdout), "61 24\n(64, 64)\n", "{}", text(&output.stderr));
    }
}

#[test]
fn a_share_of_the_cpu_is_enforced_or_refused() {
    if !installed("python3") {
        return skip("cpus", "python3 is not installed");
    }
    let spin = "import time\n\
                end = time.monotonic() + 1\n\
                while time.monotonic() < end: pass\n\
                print(time.process_time())\n";
    for person in people() {
        let stage = Stage::new(person);
        let output = stage.run(&["--cpus", "0.2"], &["python3", "-c", spin]);
        if output.status.success() {
            let used: f64 = text(&output.stdout).trim().parse().unwrap();
            assert!(used < 0.45, "{used} s of CPU time in 1 s with a share of 0.2");
            continue;
        }
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(errors.contains("cpus") && errors.contains("hint: "), "{errors}");
        assert!(!person.is_root() || !control_groups(), "root can make groups: {errors}");
    }
}

fn control_groups() -> bool {
    let writable = |path: &str| {
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
            && rustix::fs::statvfs(path)
                .is_ok_and(|fs| !fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    };
    writable("/sys/fs/cgroup/cpu") || writable("/sys/fs/cgroup/cgroup.subtree_control")
}

#[test]
fn a_limit_ends_a_run_at_once() {
    for person in people() {
        let stage = Stage::new(person);
        let started = Instant::now();
        let output = stage.run_shell(&["--memory", "60M"], "head -c 200M /dev/zero | tail -n 1");
        named(&output, "memory", "ended the run");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }
}
