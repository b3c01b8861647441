//! Container engines behind the same policy: what is theirs alone. That everything else holds behind them
//! too is what `scripts/conformance` shows.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User, has_engine, people, processes_with, skip};
use rustix::process::{Pid, Signal};

/// OCI runtimes; Debian has all but youki.
const ENGINES: [&str; 4] = ["runc", "crun", "youki", "runsc"];

/// Each engine that is there, for each kind of user.
fn engines() -> Vec<(User, &'static str)> {
    let mut all = Vec::new();
    for engine in ENGINES {
        if has_engine(engine) {
            all.extend(people().into_iter().map(|user| (user, engine)))
        } else {
            skip("container", &format!("{engine} is not installed"))
        }
    }
    all
}

fn run(stage: &Stage, engine: &str, script: &str) -> Output {
    let mut run = stage.pinfold(&["run"]);
    run.args(["--engine", engine, "--", "sh", "-c", script]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program of this name that the user's PATH leads to before the real one.
fn impostor(stage: &Stage, engine: &str, script: &str) -> String {
    let program = stage.write(&format!("bin/{engine}"), format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", stage.path("bin").display())
}

#[test]
fn run_behind_an_engine_has_its_streams_and_status_and_is_named() {
    for (user, engine) in engines() {
        let stage = Stage::new(user);
        let mut run = stage.pinfold(&["run"]);
        run.args(["--engine", engine, "--", "sh", "-c"]);
        run.arg("cat; pwd; echo $PINFOLD_HANDLED_BY; echo no >&2; id -u; touch made; exit 7");
        let mut run = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut run.stdin.take().unwrap(), b"in\n").unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let workspace = stage.workspace();
        let uid = if stage.user.uid == 0 { 1000 } else { stage.user.uid };
        let said = format!("in\n{}\ncontainer ({engine})\n{uid}\n", workspace.display());
        assert_eq!(text(&output.stdout), said);
        assert!(text(&output.stderr).contains("no\n"));
        let made = fs::metadata(workspace.join("made")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), stage.user.uid);
    }
}

#[test]
fn command_behind_an_engine_has_no_rights_and_sees_no_engine() {
    for (user, engine) in engines() {
        let stage = Stage::new(user);
        let script = "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | sort -u; \
                      cat /proc/self/uid_map | tr -s ' '; ls /proc | grep -c '^[0-9]'; \
                      cat /proc/*/comm | sort -u | tr '\\n' ' '; \
                      (echo x >/run/pinfold/init) 2>&1 | grep -oE 'Read-only|denied'; \
                      readlink /proc/1/exe; unshare -U true 2>&1 | grep -c unshare";
        let output = run(&stage, engine, script);
        let uid = if stage.user.uid == 0 { 1000 } else { stage.user.uid };
        let said = text(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "0000000000000000", "no rights: {said}");
        // gVisor's kernel does not report new privileges.
        let filter = if engine == "runsc" { &["2"][..] } else { &["1", "2"] };
        assert_eq!(lines[1..=filter.len()], *filter, "a filter: {said}");
        assert_eq!(lines[1 + filter.len()].trim(), format!("{uid} 0 1"));
        assert!(!said.contains(engine), "no engine is seen: {said}");
        assert!(said.contains("Read-only") || said.contains("denied"), "{said}");
        assert!(!said.contains("/run/pinfold/init\n"), "init's executable is not shown: {said}");
    }
}

#[test]
fn nothing_is_left_when_the_supervisor_is_killed() {
    for (user, engine) in engines() {
        let stage = Stage::new(user);
        let mut live = Live::start(&stage, engine);
        kill(live.run.id());
        live.run.wait().unwrap();
        live.assert_gone();
        // The next run finds nothing in its way.
        assert!(run(&stage, engine, "true").status.success());
    }
}

/// `runc kill` does the same, and so can a process with more rights than the session.
#[test]
fn a_container_that_is_killed_ends_the_run_at_once_names_its_engine_and_leaves_nothing() {
    for (user, engine) in engines() {
        // The engine, and each process that it has started for the container.
        for victim in 0.. {
            let stage = Stage::new(user);
            let mut live = Live::start(&stage, engine);
            let Some(pid) = live.processes().get(victim).copied() else { break };
            kill(pid);
            let begun = Instant::now();
            let status = live.run.wait().unwrap();
            assert!(begun.elapsed() < Duration::from_secs(5), "{engine} {victim}: at once");
            let mut errors = String::new();
            live.run.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            assert_eq!(status.code(), Some(137), "{engine} {victim}: {errors}");
            let expected = format!("the container ended before the command did: {engine}, or what");
            assert!(errors.contains(&expected), "{engine} {victim}: {errors}");
            live.assert_gone();
            let left = fs::read_dir(stage.state().join("private")).unwrap().count();
            assert_eq!(left, 0, "the supervisor has cleaned up");
            assert!(run(&stage, engine, "true").status.success());
        }
    }
}

/// Signals are blocked while init is waited for.
#[test]
fn a_start_behind_an_engine_that_hangs_ends_at_an_interrupt() {
    for user in people() {
        let stage = Stage::new(user);
        let mark = format!("{}.{}", 70_000 + std::process::id(), user.uid);
        let path = impostor(&stage, "runc", &format!("exec sleep {mark}"));
        let mut run = stage.pinfold(&["run", "--engine", "runc", "--", "true"]);
        let run = run.env("PATH", path).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while processes_with(&mark).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the engine is not started");
            std::thread::sleep(Duration::from_millis(20));
        }
        rustix::process::kill_process(Pid::from_child(&run), Signal::INT).unwrap();
        let output = run.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()), "{errors}");
        assert!(errors.ends_with("pinfold: the start was interrupted\n"), "{errors}");
        assert!(processes_with(&mark).is_empty());
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
    }
}

/// A run that does nothing until it is ended.
struct Live {
    run: Child,
    /// The process that has become the engine: the supervisor's child.
    engine: u32,
    /// What the command line of what runs inside holds.
    mark: String,
    has_own_kernel: bool,
}

impl Live {
    fn start(stage: &Stage, engine: &str) -> Self {
        let mark = format!("{}.{}", 40_000 + std::process::id(), stage.user.uid);
        let mut run = stage.pinfold(&["run"]);
        run.args([
            "--engine",
            engine,
            "--",
            "sh",
            "-c",
            &format!("touch runs; sleep {mark}; true"),
        ]);
        let run = run.stderr(Stdio::piped()).spawn().unwrap();
        until("it runs", || stage.workspace().join("runs").exists());
        let has_own_kernel = engine == "runsc";
        let engine = children(run.id())[0];
        Self { run, engine, mark, has_own_kernel }
    }

    /// The engine, and what it has started. With gVisor there is also the process that pinfold has
    /// left behind for published ports: its end ends these alone.
    fn processes(&self) -> Vec<u32> {
        let is_left = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            self.has_own_kernel && name == "pinfold\n"
        };
        let mut started = children(self.engine);
        started.retain(|pid| !is_left(pid));
        [vec![self.engine], started].concat()
    }

    fn assert_gone(&self) {
        let is_there = || fs::exists(format!("/proc/{}", self.engine)).unwrap();
        until("it is gone", || !is_there() && processes_with(&self.mark).is_empty());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // One that has ended is what was wanted.
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The processes that a process has started (proc_pid_stat(5)).
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_engine_that_lies_fails_or_says_nothing_starts_nothing_and_is_named() {
    let cases = [
        ("exit 0", "it ended and has not started init"),
        ("echo 'no space left' >&2; exit 1", "no space left"),
        ("printf '\\033]0;x\\007lie\\n'; kill -9 $$", "lie"),
        ("echo '{}' >&3; exit 0", "engine runc"),
    ];
    for user in people() {
        for (script, expected) in cases {
            let stage = Stage::new(user);
            let path = impostor(&stage, "runc", script);
            let mut run = stage.pinfold(&["run"]);
            run.args(["--engine", "runc", "--", "touch", "ran"]).env("PATH", path);
            let output = run.output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{errors}");
            assert!(errors.contains(expected) && errors.contains("runc"), "{script}: {errors}");
            assert!(!errors.contains('\u{1b}'), "no escape reaches the terminal");
            assert!(!stage.workspace().join("ran").exists());
            assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
        }
    }
}

#[test]
fn an_engine_sees_programs_and_the_container_and_nothing_else_of_the_host() {
    for user in people() {
        let stage = Stage::new(user);
        let private = stage.write("home/private", "of the user's own");
        // Whatever is open leads nowhere either, nor does what another process has as its root.
        let script = format!(
            "exec >&2; ls -xw0 / /etc /tmp /home; cat {0} /proc/1/root{0}; \
             for d in /proc/[0-9]*/fd/*; do cat $d/../../../../../..{0}; cat $d{0}; done 2>/dev/null; \
             echo outlook:; sort -u -k5,5 /proc/self/mountinfo | cut -d' ' -f5 | grep -v -e ^/tmp/root -e ^/dev/ \
             | tr '\\n' ' '; exit 1",
            private.display()
        );
        let path = impostor(&stage, "crun", &script);
        let mut run = stage.pinfold(&["run"]);
        run.args(["--engine", "crun", "--", "true"]).env("PATH", path);
        let said = text(&run.output().unwrap().stderr);
        assert!(said.contains("outlook:"), "{said}");
        assert!(!said.contains("of the user's own"), "{said}");
        let (_, mounts) = said.split_once("outlook:").unwrap();
        for mount in mounts.split_whitespace().filter(|word| word.starts_with('/')) {
            let known = ["/", "/proc", "/dev", "/etc/ld.so.cache"].contains(&mount);
            let system = ["/bin", "/lib", "/sbin", "/usr", "/nix", "/gnu"];
            assert!(known || system.iter().any(|one| mount.starts_with(one)), "{mount}: {said}");
        }
    }
}

#[test]
fn engine_is_not_started_with_settings_that_a_session_may_write() {
    for user in people() {
        let stage = Stage::new(user);
        let mark = stage.path("started");
        let path = impostor(&stage, "podman", &format!("echo >>{}; exit 1", mark.display()));
        let mut run = stage.pinfold(&["run"]);
        run.args(["--engine", "podman", "--", "true"]).env("PATH", path);
        run.env("XDG_CONFIG_HOME", stage.workspace().join(".config"));
        let said = text(&run.output().unwrap().stderr);
        assert!(said.contains("XDG_CONFIG_HOME leads to "), "{said}");
        assert!(!mark.exists(), "{said}");
    }
}

#[test]
fn unknown_choice_is_refused_with_the_known_ones() {
    let cases: [(&[&str], &str); 5] = [
        (&["--boundary", "namespace", "--engine", "runc"], "is for --boundary container"),
        (&["--engine", "apple"], "is for macOS"),
        (&["--boundary", "external"], "set `plugin` in pinfold's config.toml"),
        (
            &["--boundary", "cluster"],
            "is not in this version, which has namespace, container, vm, systemd, landlock, external",
        ),
        (&["--engine", "nothing"], "runc"),
    ];
    for user in people() {
        let stage = Stage::new(user);
        for (options, expected) in cases {
            let output = stage.run(options, &["true"]);
            assert!(!output.status.success());
            assert!(
                text(&output.stderr).contains(expected),
                "{options:?}: {}",
                text(&output.stderr)
            );
        }
        if !has_engine("youki") {
            let output = stage.run(&["--engine", "youki"], &["true"]);
            let errors = text(&output.stderr);
            assert!(errors.contains("youki cannot be used: it is not installed"), "{errors}");
            assert!(errors.contains("pinfold doctor"), "{errors}");
        }
    }
}

#[test]
fn twenty_at_once_are_twenty() {
    for (user, engine) in engines() {
        let stage = Stage::new(user);
        let script = |number: usize| format!("echo {number} > out{number}");
        let start = |number| {
            let mut run = stage.pinfold(&["run"]);
            run.args(["--engine", engine, "--", "sh", "-c", &script(number)]);
            run.spawn().unwrap()
        };
        for mut run in (0..20).map(start).collect::<Vec<_>>() {
            assert!(run.wait().unwrap().success());
        }
        let made = (0..20).filter(|number| stage.path(&format!("ws/out{number}")).exists());
        assert_eq!(made.count(), 20);
    }
}

/// A workspace whose own environment comes first on PATH.
#[test]
fn an_engine_that_a_sandbox_may_have_written_is_not_taken() {
    for (user, engine) in engines() {
        let stage = Stage::new(user);
        let planted = stage.write(
            &format!("ws/bin/{engine}"),
            format!("#!/bin/sh\ntouch {}\nexit 1\n", stage.path("other/executed").display()),
        );
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
        let path =
            format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin", stage.path("ws/bin").display());
        let run = || {
            let mut run = stage.pinfold(&["run"]);
            run.args(["--engine", engine, "--", "true"]).env("PATH", &path);
            let output = run.output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        };
        run();
        stage.pinfold(&["doctor"]).env("PATH", &path).output().unwrap();
        // A link chooses another program of the host.
        fs::remove_file(&planted).unwrap();
        std::os::unix::fs::symlink("/bin/true", &planted).unwrap();
        run();
        assert!(!stage.path("other/executed").exists(), "{engine}");
    }
}
