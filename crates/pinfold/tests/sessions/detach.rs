//! Sessions that go on without the process that started them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, Tmux, executable, installed, people, processes_with, run_line, skip};

const PATIENCE: Duration = Duration::from_secs(20);

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn detach(stage: &Stage, options: &[&str], script: &str) -> Output {
    let mut run = stage.pinfold(&["run", "--detach"]);
    run.args(options).args(["--", "sh", "-c", script]).stdin(Stdio::null()).output().unwrap()
}

fn pinfold(stage: &Stage, args: &[&str]) -> Output {
    stage.pinfold(args).output().unwrap()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn detached_session_is_found_by_its_name_and_leaves_its_log() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "echo out; echo err >&2; while [ ! -e go ]; do sleep 0.01; done; echo end";
        let started = detach(&stage, &["--name", "night.1"], script);
        assert!(started.status.success(), "{}", errors(&started));
        let id = said(&started).trim().to_owned();
        let list = said(&pinfold(&stage, &["ps"]));
        assert!(list.contains(&id) && list.contains("night.1"), "{list}");
        assert_eq!(said(&pinfold(&stage, &["exec", "night.1", "--", "echo", "in"])), "in\n");
        wait_until("it has written", || {
            said(&pinfold(&stage, &["logs", "night.1"])) == "out\nerr\n"
        });

        // Of two that run, each has a name of its own; afterwards it is free.
        let taken = detach(&stage, &["--name", "night.1"], "true");
        assert_eq!(taken.status.code(), Some(125));
        assert!(errors(&taken).contains("is called night.1 already"), "{}", errors(&taken));

        let follow = stage.pinfold(&["logs", "-f", &id]).stdout(Stdio::piped()).spawn().unwrap();
        stage.write("ws/go", "");
        assert_eq!(said(&follow.wait_with_output().unwrap()), "out\nerr\nend\n");
        assert_eq!(said(&pinfold(&stage, &["logs", &id])), "out\nerr\nend\n");
        assert_eq!(said(&pinfold(&stage, &["logs", "night.1"])), "out\nerr\nend\n");
        let (reader, gone) = std::io::pipe().unwrap();
        drop(reader);
        let unread = stage.pinfold(&["logs", &id]).stdout(gone).output().unwrap();
        assert_eq!((unread.status.signal(), errors(&unread).as_str()), (Some(13), ""));
        assert!(!said(&pinfold(&stage, &["ps"])).contains(&id));
        let again = detach(&stage, &["--name", "night.1"], "echo again");
        assert!(again.status.success(), "{}", errors(&again));
        wait_until("the name means the last", || {
            said(&pinfold(&stage, &["logs", "night.1"])) == "again\n"
        });
    }
}

/// An agent that `config.toml` names works unattended as one on the command line does: in a view, whose harmless changes
/// are applied at the end.
#[test]
fn detached_agent_of_the_configuration_works_in_a_view() {
    for user in people() {
        let stage = Stage::new(user);
        let script = stage.write(
            "agent/agent.sh",
            "#!/bin/sh\necho done >made; echo began; while [ ! -e go ]; do sleep 0.01; done\n",
        );
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let profile = format!(
            "name = \"mine\"\ncli_command = \"{0}\"\n[grants]\nread = [\"{0}\"]\n",
            script.display()
        );
        stage.write("home/.config/pinfold/agents/mine.toml", profile);
        stage.write("home/.config/pinfold/config.toml", "agent = \"mine\"\n");
        let mut run = stage.pinfold(&["run", "--detach", "--name", "night"]);
        let started = run.stdin(Stdio::null()).output().unwrap();
        assert!(started.status.success(), "{}", errors(&started));
        wait_until("the agent has begun", || {
            said(&pinfold(&stage, &["logs", "night"])).contains("began")
        });
        assert!(!stage.path("ws/made").exists(), "the agent works on the real checkout");
        stage.write("ws/go", "");
        let ended = pinfold(&stage, &["wait", "night"]);
        assert!(ended.status.success(), "{}", errors(&ended));
        assert_eq!(fs::read_to_string(stage.path("ws/made")).unwrap(), "done\n");
    }
}

#[test]
fn detached_start_that_fails_reports_why_with_the_status_of_a_run() {
    for user in people() {
        let stage = Stage::new(user);
        let missing = pinfold(&stage, &["run", "-d", "--", "no-such-program"]);
        assert_eq!(missing.status.code(), Some(127));
        assert!(errors(&missing).contains("command not found inside: no-such-program"));
        stage.write("ws/sandbox.json", r#"{"vsf": 1}"#);
        let mistake = detach(&stage, &[], "true");
        assert_eq!(mistake.status.code(), Some(125));
        assert!(errors(&mistake).contains("vfs"), "{}", errors(&mistake));
        let logs = fs::read_dir(stage.state().join("logs")).unwrap().flatten();
        assert!(logs.into_iter().all(|log| log.file_name() == "lock"));
    }
}

/// Also one that is over before anybody has looked.
#[test]
fn a_short_one_has_run_as_well() {
    for user in people() {
        let stage = Stage::new(user);
        for _ in 0..10 {
            let started = detach(&stage, &[], "echo short");
            assert!(started.status.success(), "{}", errors(&started));
            let id = said(&started).trim().to_owned();
            let log = pinfold(&stage, &["logs", "-f", &id]);
            assert_eq!(said(&log), "short\n", "{}", errors(&log));
        }
    }
}

#[test]
fn detached_session_outlives_the_terminal_that_started_it() {
    if !installed("tmux") {
        skip("it_outlives_the_terminal", "tmux is not installed");
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let run = run_line();
        let mark = format!("{}{}", 2_000_000 + std::process::id(), user.uid);
        tmux.line(&format!("{run} -d --name long -- sleep {mark}; echo started"));
        tmux.wait_for_line("started");
        drop(tmux);
        assert!(!processes_with(&mark).is_empty());
        let listed = said(&pinfold(&stage, &["ps"]));
        assert!(listed.contains("long"), "{listed}");
        // Nobody reads its input, and it has no terminal.
        let script = "tty; readlink /proc/self/fd/0; cat";
        let inside = pinfold(&stage, &["exec", "long", "--", "sh", "-c", script]);
        assert!(said(&inside).contains("not a tty"), "{}", said(&inside));
        assert!(pinfold(&stage, &["stop", "long"]).status.success());
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
        // The last step of the supervisor is its own end.
        wait_until("nothing is left", || processes_with(&mark).is_empty());
    }
}

#[test]
fn a_supervisor_that_dies_leaves_nothing() {
    for user in people() {
        let stage = Stage::new(user);
        let mark = format!("{}{}", 3_000_000 + std::process::id(), user.uid);
        let started = detach(&stage, &[], &format!("(setsid sleep {mark} &); sleep {mark}"));
        assert!(started.status.success());
        let supervisor = processes_with(&mark)
            .into_iter()
            .find(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.windows(8).any(|window| window == b"--detach")
            })
            .unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(supervisor).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        wait_until("nothing runs", || processes_with(&mark).is_empty());
        // The last of its own processes may still hold the session when the first start looks.
        wait_until("a later start removes the rest", || {
            assert!(stage.run(&[], &["true"]).status.success());
            fs::read_dir(stage.state().join("private")).unwrap().count() == 0
        });
    }
}

#[test]
fn log_does_not_control_the_terminal_of_its_reader() {
    let test = "a_log_drives_no_terminal";
    if !installed("script") {
        return skip(test, "script is not installed");
    }
    let stage = Stage::new(people()[0]);
    let hostile = "\\033]0;title\\007\\033]52;c;Y3VybA==\\033\\\\\\033[31mred\\033[2J\\033[6n\\n";
    let started = detach(&stage, &["--name", "hostile"], &format!("printf '{hostile}'"));
    assert!(started.status.success(), "{}", errors(&started));
    wait_until("it has ended", || !said(&pinfold(&stage, &["ps"])).contains("hostile"));
    let raw = said(&pinfold(&stage, &["logs", "hostile"]));
    assert!(raw.contains("\x1b]52;") && raw.contains("\x1b[2J"), "{raw:?}");
    let line = format!("{} logs hostile", executable());
    let mut script = stage.command("script");
    let shown = said(&script.args(["-qec", &line, "/dev/null"]).output().unwrap());
    assert_eq!(shown, "\x1b[31mred\r\n\x1b[0m");
}

#[test]
fn a_start_that_was_interrupted_leaves_neither_session_nor_log() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/sandbox.json", r#"{"resumeCommands": ["touch begun; sleep 1"]}"#);
        let mut run = stage.pinfold(&["run", "--detach", "--", "sh", "-c", "sleep 1; touch ran"]);
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut front = run.spawn().unwrap();
        wait_until("it starts", || stage.path("ws/begun").exists());
        front.kill().unwrap();
        front.wait().unwrap();
        wait_until("it has ended", || {
            fs::read_dir(stage.state().join("private")).unwrap().count() == 0
        });
        assert!(!stage.path("ws/ran").exists());

        // What a killed one has left goes with a later start.
        fs::remove_file(stage.path("ws/sandbox.json")).unwrap();
        stage.write("home/.local/state/pinfold/logs/starting-0123456789ab", "left");
        assert!(detach(&stage, &[], "true").status.success());
        wait_until("it is gone", || {
            let logs = fs::read_dir(stage.state().join("logs")).unwrap().flatten();
            logs.into_iter().all(|log| !log.file_name().to_string_lossy().starts_with("starting-"))
        });
    }
}

#[test]
fn forty_at_once_are_forty() {
    for user in people() {
        let stage = Stage::new(user);
        let names: Vec<String> = (0..40).map(|number| format!("s{number}")).collect();
        let start = |name: &String| {
            let mut run = stage.pinfold(&["run", "-d", "--name", name]);
            run.args(["--", "sleep", "1000"]);
            run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let starts: Vec<_> = names.iter().map(start).collect();
        for start in starts {
            let started = start.wait_with_output().unwrap();
            assert!(started.status.success(), "{}", errors(&started));
        }
        let listed = said(&pinfold(&stage, &["ps"]));
        for name in &names {
            assert!(listed.contains(&format!(" {name} ")), "{name} of {listed}");
            let own = pinfold(&stage, &["exec", name, "--", "true"]);
            assert!(own.status.success(), "{}", errors(&own));
        }
        let stop =
            |name: &String| stage.pinfold(&["stop", "--grace", "1ms", name]).spawn().unwrap();
        let stops: Vec<_> = names.iter().map(stop).collect();
        for mut stop in stops {
            assert!(stop.wait().unwrap().success());
        }
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
    }
}
