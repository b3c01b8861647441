//! Each limit fires, as root by a control group where there is one and as a user without, and is
//! named.

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{
    OWN_PROCESSES, Stage, behind_gvisor, behind_vm, engine, installed, not_behind_gvisor, patience,
    people, processes_with, skip,
};

/// Why a machine skips a test that counts CPU time in the sandbox.
const OF_GUEST: &str =
    "a guest's kernel counts the time in which its processors wait for the host's";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn named(output: &Output, limit: &str, what: &str) {
    let errors = text(&output.stderr);
    assert!(errors.contains(&format!("the {limit} limit {what}")), "{}: {errors}", output.status);
}

#[test]
fn the_time_limit_ends_the_whole_tree() {
    for user in people() {
        let stage = Stage::new(user);
        let marker = format!("7{}", std::process::id());
        let script = format!("setsid sleep {marker} & sleep {marker}");
        let started = Instant::now();
        let output = stage.run_shell(&["--timeout", "1s"], &script);
        named(&output, "timeout", "ended the run");
        assert_eq!(output.status.code(), Some(124));
        let took = started.elapsed();
        // Some engines take longer to begin and to end than others.
        let most = if engine().is_some() { 9000 } else { 1900 };
        let most = patience(Duration::from_millis(most));
        assert!((Duration::from_secs(1)..most).contains(&took), "{took:?}");
        assert_eq!(processes_with(&format!("sleep\0{marker}")), Vec::<u32>::new());
    }
}

#[test]
fn a_command_deaf_to_the_time_limit_is_killed() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "trap '' TERM HUP INT; while :; do sleep 0.1; done";
        let output = stage.run_shell(&["--timeout", "1s"], script);
        named(&output, "timeout", "ended the run");
        assert_eq!(output.status.code(), Some(124));
    }
}

#[test]
fn the_memory_limit_counts_the_whole_tree() {
    if !installed("python3") {
        return skip("memory", "python3 is not installed");
    }
    // Each below the limit, both together above it. A machine has some memory at least.
    let (size, limit) = if behind_vm() { (250, "450M") } else { (90, "150M") };
    let hog = format!("exec python3 -c 'import time; a=b\"x\"*({size}<<20); time.sleep(20)'");
    let script = format!("({hog}) & ({hog}) & wait; sleep 20");
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run_shell(&["--memory", limit], &script);
        named(&output, "memory", "ended the run");
        assert_eq!(output.status.code(), Some(128 + 9));
        let enough = stage.run_shell(&["--memory", "400M"], "python3 -c 'a=b\"x\"*(90<<20)'");
        assert!(enough.status.success(), "{}", text(&enough.stderr));
        assert!(!text(&enough.stderr).contains("limit"), "{}", text(&enough.stderr));
    }
}

#[test]
fn a_process_name_that_is_not_utf_8_hits_no_limit() {
    for user in people() {
        let stage = Stage::new(user);
        // The kernel cuts a name after 15 bytes, here within a character.
        let script = "#!/bin/sh\nsleep 1\ncat /proc/$$/comm\n";
        let path = stage.write("ws/a-メインプログラム.sh", script);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let output = stage.run(&["--memory", "400M"], &["./a-メインプログラム.sh"]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        assert_eq!(
            output.stdout,
            "a-メインプログラム".as_bytes()[..15].iter().chain(b"\n").copied().collect::<Vec<u8>>()
        );
        let started =
            stage.pinfold(&["run", "--detach", "--idle", "--name", "box"]).status().unwrap();
        assert!(started.success());
        let next_to_it =
            stage.pinfold(&["exec", "box", "--", "./a-メインプログラム.sh"]).output().unwrap();
        assert!(next_to_it.status.success(), "{}", text(&next_to_it.stderr));
        // Behind gVisor one part of a session cannot be bounded.
        if !behind_gvisor() {
            let bounded = ["exec", "--memory", "400M", "--pids", "50", "box", "--"];
            let mut exec = stage.pinfold(&bounded);
            let bounded = exec.arg("./a-メインプログラム.sh").output().unwrap();
            assert!(bounded.status.success(), "{}", text(&bounded.stderr));
        }
        assert!(stage.pinfold(&["stop", "box"]).status().unwrap().success());
    }
}

#[test]
fn signals_and_timers_that_wait_are_bounded() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "sed -n 's/^Max pending signals *\\([0-9]*\\) *\\([0-9]*\\).*/\\1 \\2/p' /proc/self/limits";
        let output = stage.run(&[], &["sh", "-c", script]);
        let bounds = text(&output.stdout);
        let mut bounds = bounds.split_whitespace().map(str::parse::<u64>);
        for _ in ["soft", "hard"] {
            assert!(matches!(bounds.next(), Some(Ok(1..=8192))), "{}", text(&output.stdout));
        }
    }
}

#[test]
fn ids_of_others_are_refused_as_natively() {
    if !installed("python3") {
        return skip("ids of others", "python3 is not installed");
    }
    // Each fails with EPERM, or does nothing.
    let script = "import errno, os\nopen('f', 'w').close()\n\
                  own = (os.getuid(), os.getgid())\n\
                  for call in (lambda: os.chown('f', 65534, -1), lambda: os.chown('f', -1, 65534),\n\
                  \x20 lambda: os.lchown('f', 0, 0), lambda: os.setuid(65534), lambda: os.setgid(0),\n\
                  \x20 lambda: os.setresuid(-1, 65534, -1), lambda: os.setregid(65534, -1)):\n\
                  \x20 try: call(); print('done')\n\
                  \x20 except OSError as error: print(errno.errorcode[error.errno])\n\
                  os.chown('f', *own); os.chown('f', -1, -1); os.setresuid(own[0], -1, -1)\n";
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run(&[], &["python3", "-c", script]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "EPERM\n".repeat(7));
    }
}

/// Ways to fill shared memory that no process then holds for itself.
const SHARED: [(&str, &str); 4] = [
    (
        "a memfd that is only written",
        "fd = os.memfd_create('m'); [os.write(fd, mb) for _ in range(200)]",
    ),
    ("an anonymous mapping", "m = mmap.mmap(-1, 200 << 20); [m.write(mb) for _ in range(200)]"),
    (
        "a memfd that is mapped and closed",
        "fd = os.memfd_create('m'); os.ftruncate(fd, 200 << 20); m = mmap.mmap(fd, 200 << 20); \
         os.close(fd); [m.write(mb) for _ in range(200)]",
    ),
    (
        "a segment that nobody has mapped",
        "c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; \
         s = c.shmget(0, ctypes.c_size_t(200 << 20), 0o1600); a = c.shmat(s, None, 0); \
         ctypes.memset(a, 1, 200 << 20); c.shmdt(ctypes.c_void_p(a))",
    ),
];

#[test]
fn shared_memory_counts_wherever_it_lies() {
    if !installed("python3") {
        return skip("shared memory", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        for (what, fill) in SHARED {
            let script = format!(
                "import ctypes, mmap, os, time\nmb = b'x' * (1 << 20)\n{fill}\ntime.sleep(20)"
            );
            let output = stage.run(&["--memory", "100M"], &["python3", "-c", &script]);
            let errors = text(&output.stderr);
            assert!(errors.contains("the memory limit ended the run"), "{what}: {errors}");
            assert_eq!(output.status.code(), Some(128 + 9), "{what}");
        }
    }
}

#[test]
fn memory_that_processes_share_counts_once() {
    if !installed("python3") {
        return skip("shared memory", "python3 is not installed");
    }
    let script = "import mmap, os, time\n\
                  fd = os.memfd_create('m'); os.ftruncate(fd, 60 << 20)\n\
                  for _ in range(4): os.fork()\n\
                  m = mmap.mmap(fd, 60 << 20)\n\
                  for at in range(0, 60 << 20, 4096): m[at] = 1\n\
                  time.sleep(1)\n";
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run(&["--memory", "250M"], &["python3", "-c", script]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
}

#[test]
fn files_in_private_directories_count_as_memory() {
    for user in people() {
        let stage = Stage::new(user);
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
    if not_behind_gvisor("a fork bomb", OWN_PROCESSES) {
        return;
    }
    // Every process goes on trying, for ever; the marker makes them known outside.
    let bomb = "import os, time\n\
                while True:\n\
                \x20 try: os.fork()\n\
                \x20 except OSError: time.sleep(0.01)\n";
    for user in people() {
        let stage = Stage::new(user);
        let marker = format!("bomb-{}-{}", user.uid, std::process::id());
        let mut run = stage.pinfold(&["run", "--pids", "60", "--timeout", "60s", "--"]);
        run.args(["python3", "-c", bomb, &marker]).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let began = Instant::now();
        let (mut most, mut reached) = (0, None);
        // Two seconds more, in which the limit has to hold. An emulated machine needs a while to reach it.
        while reached.is_none_or(|at: Instant| at.elapsed() < Duration::from_secs(2)) {
            // pinfold's own command line holds the marker, too.
            most = most.max(processes_with(&format!("{bomb}\0{marker}")).len());
            if most >= 30 {
                reached.get_or_insert_with(Instant::now);
            }
            assert!(began.elapsed() < Duration::from_secs(50), "only {most} processes");
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&run),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        run.wait().unwrap();
        assert!((30..=61).contains(&most), "{most} processes at a time");
    }
}

/// Starts tasks until one is refused, says how many there were, and waits for its input's end.
const TASKS: &str = "import os, sys, time\n\
                     children = 0\n\
                     try:\n\
                     \x20 while True:\n\
                     \x20   if os.fork() == 0: time.sleep(60)\n\
                     \x20   children += 1\n\
                     except OSError: print(children, flush=True)\n\
                     sys.stdin.read()\n";

#[test]
fn only_the_sessions_own_tasks_count() {
    if !installed("python3") {
        return skip("pids", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        // More processes of the same user than the limit, outside; they end with their input.
        let mut others = stage.command("sh");
        others.args([
            "-c",
            "for i in $(seq 80); do sleep 60 & p=\"$p $!\"; done; echo; read x; kill $p",
        ]);
        let mut others = others.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        line(&mut others);
        let start = || {
            let mut run = stage.pinfold(&["run", "--pids", "40", "--", "python3", "-c", TASKS]);
            run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        };
        // The second starts when the first has all that it may have.
        let (mut first, mut second) = (start(), None);
        let mut counts = vec![line(&mut first)];
        counts.push(line(second.insert(start())));
        for mut run in [Some(first), second, Some(others)].into_iter().flatten() {
            drop(run.stdin.take());
            run.wait().unwrap();
        }
        for count in counts {
            let children: u32 = count.trim().parse().unwrap();
            assert!((35..=39).contains(&children), "{children}, as uid {}", user.uid);
        }
    }
}

/// The next line of a child's output.
fn line(child: &mut std::process::Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
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
                  time.sleep(2)\n";
    for user in people() {
        let stage = Stage::new(user);
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
    for user in people() {
        let stage = Stage::new(user);
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
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run(&["--files", "64"], &["python3", "-c", script]);
        // 24 is EMFILE; the standard streams count.
        assert_eq!(text(&output.stdout), "61 24\n(64, 64)\n", "{}", text(&output.stderr));
    }
}

#[test]
fn a_process_that_runs_out_of_descriptors_is_named() {
    if !installed("python3") {
        return skip("files", "python3 is not installed");
    }
    let script = "import os, time\n\
                  held = []\n\
                  try:\n\
                  \x20 while True: held.append(os.open('/dev/null', os.O_RDONLY))\n\
                  except OSError: pass\n\
                  time.sleep(0.5)\n\
                  os._exit(3)\n";
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run(&["--files", "64"], &["python3", "-c", script]);
        named(&output, "files", "was reached");
        assert_eq!(output.status.code(), Some(3), "it ended by itself");
        let output = stage.run(&["--files", "4096"], &["python3", "-c", script]);
        named(&output, "files", "was reached");
    }
}

#[test]
fn a_share_of_the_cpu_is_enforced_or_refused() {
    if not_behind_gvisor(
        "a_share_of_the_cpu_is_enforced_or_refused",
        "gVisor's processes tell the time of its own clock",
    ) {
        return;
    }
    if behind_vm() {
        return skip("cpus", OF_GUEST);
    }
    if !installed("python3") {
        return skip("cpus", "python3 is not installed");
    }
    let spin = "import time\n\
                end = time.monotonic() + 1\n\
                while time.monotonic() < end: pass\n\
                print(time.process_time())\n";
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run(&["--cpus", "0.2"], &["python3", "-c", spin]);
        if output.status.success() {
            let used: f64 = text(&output.stdout).trim().parse().unwrap();
            assert!(used < 0.45, "{used} s of CPU time in 1 s with a share of 0.2");
            continue;
        }
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(errors.contains("cpus") && errors.contains("hint: "), "{errors}");
        // The example of a plug-in says that it shares no CPUs.
        let is_external = engine().is_some_and(|engine| engine == "external");
        let makes_groups = user.is_root() && control_groups() && !is_external;
        assert!(!makes_groups, "root can make groups: {errors}");
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
    for user in people() {
        let stage = Stage::new(user);
        let started = Instant::now();
        let output = stage.run_shell(&["--memory", "60M"], "head -c 200M /dev/zero | tail -n 1");
        named(&output, "memory", "ended the run");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }
}

#[test]
fn a_caller_that_may_write_no_core_dumps_can_start_a_sandbox() {
    for user in people() {
        let stage = Stage::new(user);
        let line = format!("ulimit -c 0; {} -- sh -c 'ulimit -Hc'", pinfold_testkit::run_line());
        let output = stage
            .command("setpriv")
            .args(["--bounding-set=-sys_resource", "/bin/sh", "-c", &line])
            .output()
            .unwrap();
        // Root keeps the right to raise it.
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            ["0\n", "1\n"].contains(&text(&output.stdout).as_str()),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn the_soft_limit_of_open_files_stays_the_callers() {
    for user in people() {
        let stage = Stage::new(user);
        let limits = |options: &str| {
            let run = pinfold_testkit::run_line();
            let line = format!("ulimit -Sn 300; {run} {options} -- sh -c 'ulimit -Sn; ulimit -Hn'");
            text(&stage.command("/bin/sh").args(["-c", &line]).output().unwrap().stdout)
        };
        let usual = limits("");
        let (soft, hard) = usual.split_once('\n').unwrap();
        assert_eq!(soft, "300", "{usual}");
        assert!(hard.trim_end().parse::<u64>().unwrap() > 300, "{usual}");
        assert_eq!(limits("--files 400"), "300\n400\n");
        assert_eq!(limits("--files 200"), "200\n200\n");
    }
}
