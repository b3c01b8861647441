//! Waiting for sessions, and how they ended.

use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, people, processes_with};

fn detach(stage: &Stage, name: &str, script: &str) -> String {
    let mut run = stage.pinfold(&["run", "--detach", "--name", name, "--", "sh", "-c", script]);
    let started = run.stdin(Stdio::null()).output().unwrap();
    assert!(started.status.success(), "{}", errors(&started));
    String::from_utf8_lossy(&started.stdout).trim().to_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pinfold(stage: &Stage, args: &[&str]) -> Output {
    stage.pinfold(args).output().unwrap()
}

#[test]
fn wait_returns_the_status_of_the_command_before_and_after_its_end() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "while [ ! -e go ]; do sleep 0.01; done; exit 7";
        let id = detach(&stage, "night", script);
        let early = pinfold(&stage, &["wait", "night", "--timeout", "100ms"]);
        assert_eq!(early.status.code(), Some(124));
        assert!(errors(&early).contains("still runs"), "{}", errors(&early));
        let waits = stage.pinfold(&["wait", "night"]).stderr(Stdio::piped()).spawn().unwrap();
        stage.write("ws/go", "");
        assert_eq!(waits.wait_with_output().unwrap().status.code(), Some(7));
        for meant in [&id, &id[..6], "night"] {
            assert_eq!(pinfold(&stage, &["wait", meant]).status.code(), Some(7), "{meant}");
        }
        let list = pinfold(&stage, &["ps", "--all"]);
        assert!(String::from_utf8_lossy(&list.stdout).contains("ended 7"), "{list:?}");
        assert!(pinfold(&stage, &["ps"]).stdout.is_empty());
    }
}

#[test]
fn wait_reports_a_killed_session_and_one_that_never_was() {
    for user in people() {
        let stage = Stage::new(user);
        let mark = stage.base().file_name().unwrap().to_str().unwrap().to_owned();
        let id = detach(&stage, "night", &format!("sleep 1000; echo {mark}"));
        let all = processes_with(&format!("\0-c\0sleep 1000; echo {mark}"));
        let supervisor = *all.iter().min().unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(supervisor.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        let killed = pinfold(&stage, &["wait", &id]);
        assert_eq!(killed.status.code(), Some(125));
        assert!(errors(&killed).contains("was killed"), "{}", errors(&killed));
        let unknown = pinfold(&stage, &["wait", "zzz"]);
        assert_eq!(unknown.status.code(), Some(125));
        assert!(errors(&unknown).contains("no session zzz"), "{}", errors(&unknown));
    }
}

#[test]
fn session_that_was_attended_is_known_by_its_name_afterwards() {
    for user in people() {
        let stage = Stage::new(user);
        let detached = ["run", "--detach", "--name", "day", "--", "sh", "-c", "exit 2"];
        assert!(pinfold(&stage, &detached).status.success());
        assert_eq!(pinfold(&stage, &["wait", "day"]).status.code(), Some(2));
        for status in ["3", "4"] {
            let run = ["run", "--name", "day", "--", "sh", "-c", &format!("exit {status}")];
            assert_eq!(pinfold(&stage, &run).status.code(), status.parse().ok());
        }
        // The last one that was called so.
        assert_eq!(pinfold(&stage, &["wait", "day"]).status.code(), Some(4));
        let listed = String::from_utf8(pinfold(&stage, &["ps", "--all"]).stdout).unwrap();
        assert_eq!(listed.matches("  day  ").count(), 3, "{listed}");
        let records = pinfold(&stage, &["audit", "--session", "day"]);
        let records = String::from_utf8(records.stdout).unwrap();
        assert_eq!(records.matches(" session boundary=").count(), 3, "{records}");
        assert!(pinfold(&stage, &["audit", "--session", "night"]).stdout.is_empty());
        let report = pinfold(&stage, &["review", "day"]);
        let text = String::from_utf8(report.stdout).unwrap();
        assert!(text.contains("failed with status 4"), "{text}");
    }
}
