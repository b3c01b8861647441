//! Plug-ins: the documented one, and some that mean no good.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, installed, people, processes_with, skip};
use rustix::process::{Pid, Signal};

use super::{text, until};

/// The one of the documentation.
const EXAMPLE: &str = include_str!("../../../../../examples/boundaries/runc.py");

/// A user whose plug-in this is.
fn stage(user: pinfold_testkit::User, program: &str) -> Stage {
    let stage = Stage::new(user);
    let path = stage.write("home/plugin", program);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    stage.write("home/.config/pinfold/config.toml", "plugin = \"~/plugin\"\n");
    stage
}

fn run(stage: &Stage, script: &str) -> Output {
    stage
        .pinfold(&["run"])
        .args(["--boundary", "external", "--", "sh", "-c", script])
        .output()
        .unwrap()
}

#[test]
fn the_documented_one_runs_and_leaves_nothing() {
    if !installed("python3") || !(installed("runc") || fs::exists("/usr/sbin/runc").unwrap()) {
        return skip("the_documented_one", "python3 or runc is not installed");
    }
    for user in people() {
        let stage = stage(user, EXAMPLE);
        let output = run(&stage, "id -u; echo $PINFOLD_HANDLED_BY; touch made; exit 6");
        assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
        assert!(text(&output.stdout).ends_with("\nexternal\n"));
        assert!(stage.path("ws/made").exists());
        let place = stage.path("home/.cache/pinfold-runc");
        let is_clean =
            || fs::read_dir(&place).unwrap().all(|entry| entry.unwrap().file_name() == "state");
        until("nothing is left", is_clean);

        let mark = format!("{}.{}", 50_000 + std::process::id(), user.uid);
        let mut long = stage.pinfold(&["run"]);
        let script = format!("touch runs; sleep {mark}");
        let mut long =
            long.args(["--boundary", "external", "--", "sh", "-c", &script]).spawn().unwrap();
        until("it runs", || stage.path("ws/runs").exists());
        long.kill().unwrap();
        long.wait().unwrap();
        until("nothing is left", || is_clean() && processes_with(&mark).is_empty());
        let doctor = text(&stage.pinfold(&["doctor"]).output().unwrap().stdout);
        assert!(doctor.contains("external: works"), "{doctor}");
    }
}

#[test]
fn a_plugin_that_fails_is_an_error_in_its_words_and_nothing_runs() {
    for user in people() {
        let says = "#!/bin/sh\ncat >/dev/null\nprintf '\\033]0;title\\007words\\n' >&2; exit 1\n";
        let stage = stage(user, says);
        let output = run(&stage, "touch ran");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(errors.contains("titlewords"), "{errors}");
        assert!(!errors.contains('\u{1b}'), "no escape reaches the terminal");
        assert!(!stage.path("ws/ran").exists());
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
    }
}

#[test]
fn plugin_is_taken_from_the_users_settings_and_never_from_the_workspace() {
    for user in people() {
        let stage = stage(user, "#!/bin/sh\ntouch ~/executed\n");
        let planted = stage.write("ws/plugin", "#!/bin/sh\ntouch ~/executed\n");
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
        let line = format!("plugin = \"{}\"\n", planted.display());
        stage.write("home/.config/pinfold/config.toml", line);
        let errors = text(&run(&stage, "true").stderr);
        assert!(errors.contains("is in a workspace"), "{errors}");
        stage.write("home/.config/pinfold/config.toml", "");
        stage.write("ws/sandbox.json", r#"{"plugin": "/bin/true"}"#);
        let errors = text(&run(&stage, "true").stderr);
        assert!(errors.contains("plugin"), "{errors}");
        assert!(!stage.path("home/executed").exists());
    }
}

/// While signals are blocked: in a program that starts the container, and while its init is waited for.
#[test]
fn a_start_that_waits_for_a_container_ends_at_an_interrupt_and_stops_the_container() {
    const ASKED: &str = r#"#!/bin/sh
cat >/dev/null
touch ~/asked."$1"
if [ "$1" = launch ]; then LAUNCH; fi
echo '{"version": 1, "cpus": true, "memory": true, "containers": []}'
"#;
    let mark = format!("{}.1", 60_000 + std::process::id());
    for (user, launch, signal) in people().into_iter().flat_map(|user| {
        [(user, format!("exec sleep {mark}"), Signal::INT), (user, String::from(":"), Signal::TERM)]
    }) {
        let stage = stage(user, &ASKED.replace("LAUNCH", &launch));
        let mut run = stage.pinfold(&["run", "--boundary", "external", "--", "true"]);
        let run = run.stderr(Stdio::piped()).spawn().unwrap();
        until("it starts a container", || stage.path("home/asked.launch").exists());
        let begun = Instant::now();
        rustix::process::kill_process(Pid::from_child(&run), signal).unwrap();
        let output = run.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{errors}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(errors.ends_with("pinfold: the start was interrupted\n"), "{errors}");
        assert!(stage.path("home/asked.stop").exists(), "{errors}");
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
        assert!(processes_with(&mark).is_empty());
    }
}
