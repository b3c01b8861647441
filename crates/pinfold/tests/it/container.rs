//! Container engines behind the same policy: what is theirs alone. That everything else holds behind them
//! too is what `scripts/conformance` shows.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Person, Stage, has_engine, installed, people, processes_with, skip};

/// OCI runtimes that Debian has.
const ENGINES: [&str; 3] = ["runc", "crun", "runsc"];

/// Each engine that is there, for each kind of person.
fn engines() -> Vec<(Person, &'static str)> {
    let mut all = Vec::new();
    for engine in ENGINES {
        match has_engine(engine) {
            true => all.extend(people().into_iter().map(|person| (person, engine))),
            false => skip("container", &format!("{engine} is not installed")),
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

/// A program of this name that the person's PATH leads to before the real one.
fn impostor(stage: &Stage, engine: &str, script: &str) -> String {
    let program = stage.write(&format!("bin/{engine}"), format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", stage.path("bin").display())
}

#[test]
fn it_runs_with_its_streams_and_its_status_and_is_named() {
    for (person, engine) in engines() {
        let stage = Stage::new(person);
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
        let uid = if stage.person.uid == 0 { 1000 } else { stage.person.uid };
        let said = format!("in\n{}\ncontainer ({engine})\n{uid}\n", workspace.display());
        assert_eq!(text(&output.stdout), said);
        assert!(text(&output.stderr).contains("no\n"));
        let made = fs::metadata(workspace.join("made")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), stage.person.uid);
    }
}

#[test]
fn what_runs_in_it_has_no_rights_and_sees_no_engine() {
    for (person, engine) in engines() {
        let stage = Stage::new(person);
        let script = "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | sort -u; \
                      cat /proc/self/uid_map | tr -s ' '; ls /proc | grep -c '^[0-9]'; \
                      cat /proc/*/comm | sort -u | tr '\\n' ' '; \
                      (echo x >/run/pinfold/init) 2>&1 | grep -oE 'Read-only|denied'; \
                      readlink /proc/1/exe; unshare -U true 2>&1 | grep -c unshare";
        let output = run(&stage, engine, script);
        let uid = if stage.person.uid == 0 { 1000 } else { stage.person.uid };
        let said = text(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "0000000000000000", "no rights: {said}");
        // gVisor's kernel does not tell of new privileges.
        let filter = if engine == "runsc" { &["2"][..] } else { &["1", "2"] };
        assert_eq!(lines[1..=filter.len()], *filter, "a filter: {said}");
        assert_eq!(lines[1 + filter.len()].trim(), format!("{uid} 0 1"));
        assert!(!said.contains(engine), "no engine is seen: {said}");
        assert!(said.contains("Read-only") || said.contains("denied"), "{said}");
        assert!(!said.contains("/run/pinfold/init\n"), "init's executable is not told: {said}");
    }
}

#[test]
fn nothing_is_left_when_the_supervisor_or_the_engine_is_killed() {
    for (person, engine) in engines() {
        for victim in ["pinfold", engine] {
            let stage = Stage::new(person);
            let mark = format!("{}.{}", 40_000 + std::process::id(), stage.person.uid);
            let mut run = stage.pinfold(&["run"]);
            let script = format!("touch runs; sleep {mark}");
            run.args(["--engine", engine, "--", "sh", "-c", &script]);
            let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
            until("it runs", || stage.workspace().join("runs").exists());
            let below = engine_below(run.id());
            let pid = if victim == "pinfold" { run.id() } else { below };
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            let status = run.wait().unwrap();
            let engine_is_gone = || !fs::exists(format!("/proc/{below}")).unwrap();
            until("it is gone", || engine_is_gone() && processes_with(&mark).is_empty());
            if victim == engine {
                assert_ne!(status.code(), Some(0));
                let left = fs::read_dir(stage.state().join("private")).unwrap().count();
                assert_eq!(left, 0, "the supervisor has cleaned up");
            }
            // The next run finds nothing in its way.
            assert!(self::run(&stage, engine, "true").status.success());
        }
    }
}

/// The process that has become the engine: the supervisor's child (proc_pid_stat(5)).
fn engine_below(supervisor: u32) -> u32 {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    pids.find(|pid| parent(*pid) == Some(supervisor)).unwrap()
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
    for person in people() {
        for (script, told) in cases {
            let stage = Stage::new(person);
            let path = impostor(&stage, "runc", script);
            let mut run = stage.pinfold(&["run"]);
            run.args(["--engine", "runc", "--", "touch", "ran"]).env("PATH", path);
            let output = run.output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(125), "{errors}");
            assert!(errors.contains(told) && errors.contains("runc"), "{script}: {errors}");
            assert!(!errors.contains('\u{1b}'), "no escape reaches the terminal");
            assert!(!stage.workspace().join("ran").exists());
            assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
        }
    }
}

#[test]
fn what_cannot_be_chosen_is_refused_with_what_can() {
    let cases: [(&[&str], &str); 5] = [
        (&["--boundary", "namespace", "--engine", "runc"], "is for --boundary container"),
        (&["--engine", "apple"], "is for macOS"),
        (&["--boundary", "external"], "set `plugin` in pinfold's config.toml"),
        (&["--boundary", "vm"], "is not in this version: it has namespace, container and external"),
        (&["--engine", "nothing"], "runc"),
    ];
    for person in people() {
        let stage = Stage::new(person);
        for (options, told) in cases {
            let output = stage.run(options, &["true"]);
            assert!(!output.status.success());
            assert!(text(&output.stderr).contains(told), "{options:?}: {}", text(&output.stderr));
        }
        if !installed("youki") {
            let output = stage.run(&["--engine", "youki"], &["true"]);
            let errors = text(&output.stderr);
            assert!(errors.contains("youki cannot be used: it is not installed"), "{errors}");
            assert!(errors.contains("pinfold doctor"), "{errors}");
        }
    }
}

#[test]
fn twenty_at_once_are_twenty() {
    for (person, engine) in engines() {
        let stage = Stage::new(person);
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
