//! A repository's own settings: what narrows holds, what widens waits for trust, and its commands
//! run before the command.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use pinfold_testkit::{
    LS_FAILS, Stage, Tmux, engine, executable, installed, not_behind_gvisor, people, skip,
};
use rustix::process::{Pid, Signal};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn errors(output: &Output) -> String {
    text(&output.stderr)
}

/// A repository with these settings.
fn repository(stage: &Stage, settings: &str) {
    stage.write("ws/sandbox.json", settings);
    let done = stage.command("git").args(["init", "-q"]).status().unwrap();
    assert!(done.success());
}

fn trust(stage: &Stage, args: &[&str]) -> Output {
    stage.pinfold(&["trust"]).args(args).output().unwrap()
}

fn hash(stage: &Stage) -> String {
    text(&trust(stage, &["--hash"]).stdout).trim().to_owned()
}

const COMMANDS: &str = r#"{"env": {"FROM_FILE": "1"}, "resumeCommands": [
    "echo $FROM_FILE $PINFOLD_WORKSPACE >> order",
    {"run": "cd \"$MOLTNET_GUEST_WORKSPACE\" && echo two >> order",
     "when": {"workspaceMode": ["shared_mount"]}},
    {"run": "echo never >> order", "when": {"workspaceMode": ["overlay"]}}]}"#;

#[test]
fn commands_run_in_order_before_the_command_and_those_of_other_modes_do_not() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, COMMANDS);
        let output = stage.run(&[], &["cat", "order"]);
        let workspace = stage.workspace();
        assert_eq!(text(&output.stdout), format!("1 {}\ntwo\n", workspace.display()));
        let errors = errors(&output);
        assert!(errors.contains("resumeCommands[2] is left out: it is not for shared_mount"));
    }
}

#[test]
fn each_command_has_a_fresh_strict_shell_and_the_first_failure_ends_the_start() {
    for user in people() {
        let stage = Stage::new(user);
        for (command, status) in [
            ("false; true", 1),
            ("false | true", 1),
            ("echo $NOT_SET; true", 1),
            ("exit 7", 7),
            ("kill -9 $$", 137),
            ("no-such-command", 127),
        ] {
            let settings =
                serde_json::json!({ "resumeCommands": ["A=1; cd /", command, "touch c"] });
            repository(&stage, &settings.to_string());
            let output = stage.run(&[], &["touch", "started"]);
            assert_eq!(output.status.code(), Some(125), "{command}");
            let expected = format!("resume step \"resumeCommands[1]\" failed (exit {status}):\n");
            assert!(errors(&output).contains(&expected), "{command}: {}", errors(&output));
            assert!(!stage.path("ws/started").exists() && !stage.path("ws/c").exists());
        }
    }
}

#[test]
fn a_failure_shows_the_last_800_characters_without_what_drives_a_terminal() {
    for user in people() {
        let stage = Stage::new(user);
        let run =
            "printf 'first\\033[31m'; printf 'ä%.0s' $(seq 2000); printf '\\033]0;x\\007'; exit 3";
        let settings = serde_json::json!({ "resumeCommands": [run] });
        repository(&stage, &settings.to_string());
        let errors = errors(&stage.run(&[], &["true"]));
        let tail = errors.split_once("failed (exit 3):\n").unwrap().1;
        assert_eq!(tail.matches('ä').count(), 800);
        assert!(!tail.contains(['\x1b', '\\']) && !tail.contains("first"), "{tail}");
    }
}

#[test]
fn a_command_is_tried_again_as_often_as_it_says() {
    for user in people() {
        let stage = Stage::new(user);
        let run = "echo x >> tries; test $(wc -l < tries) = 3";
        let again = |retries: u32| {
            serde_json::json!({ "resumeCommands": [
                { "run": run, "retries": retries, "retryBackoffMs": 50 }] })
            .to_string()
        };
        repository(&stage, &again(2));
        let started = std::time::Instant::now();
        let output = stage.run(&[], &["cat", "tries"]);
        assert_eq!(text(&output.stdout), "x\nx\nx\n");
        assert!(started.elapsed().as_millis() >= 150, "50 and then 100 ms");
        fs::remove_file(stage.path("ws/tries")).unwrap();
        repository(&stage, &again(1));
        assert_eq!(stage.run(&[], &["true"]).status.code(), Some(125));
        assert_eq!(fs::read_to_string(stage.path("ws/tries")).unwrap(), "x\nx\n");
    }
}

#[test]
fn background_processes_of_a_command_stay_and_its_output_is_drained() {
    for user in people() {
        let stage = Stage::new(user);
        let server = "(while :; do echo noise; done) & echo $! > pid";
        let settings = serde_json::json!({ "resumeCommands": [server] });
        repository(&stage, &settings.to_string());
        let output = stage.run_shell(&[], "sleep 0.3; kill -0 $(cat pid) && echo lives");
        assert_eq!(text(&output.stdout), "lives\n", "{}", errors(&output));
    }
}

#[test]
fn the_time_limit_and_an_interrupt_end_the_commands_too() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, r#"{"resumeCommands": ["touch here; sleep 1000"]}"#);
        let output = stage.run(&["--timeout", "300ms"], &["true"]);
        assert!(errors(&output).contains("the timeout limit ended the run"), "{}", errors(&output));
        fs::remove_file(stage.path("ws/here")).unwrap();
        let mut run = stage.pinfold(&["run", "--", "touch", "started"]);
        let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(run.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("resumeCommands[0]"), "{line}");
        let pid = Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(130));
        assert!(!stage.path("ws/started").exists());
    }
}

#[test]
fn files_that_a_failed_command_planted_for_the_host_are_set_aside() {
    for user in people() {
        let stage = Stage::new(user);
        let plant = "mkdir sub && cd sub && git init -q && mkdir -p .git/hooks && \
                     printf '#!/bin/sh\\ntouch /tmp/owned\\n' > .git/hooks/pre-commit && \
                     chmod +x .git/hooks/pre-commit && exit 1";
        let settings = serde_json::json!({ "resumeCommands": [plant] });
        repository(&stage, &settings.to_string());
        let output = stage.run(&[], &["true"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(!stage.path("ws/sub/.git/hooks/pre-commit").exists(), "{}", errors(&output));
    }
}

const ASKS: &str = r#"{"network": {"allow": ["registry.example"]},
    "resumeCommands": ["sh tools/setup.sh"]}"#;

#[test]
fn widening_settings_wait_and_lapse_with_every_change() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, ASKS);
        stage.write("ws/tools/setup.sh", "touch set-up");
        let waits = |stage: &Stage| {
            let output = stage.run(&[], &["true"]);
            assert!(output.status.success(), "{}", errors(&output));
            errors(&output).contains("waits for `pinfold trust`")
        };
        let allowed = |stage: &Stage| {
            let output = stage.pinfold(&["config"]).output().unwrap();
            text(&output.stdout).contains("registry.example")
        };
        assert!(waits(&stage) && !allowed(&stage));
        let asked = trust(&stage, &[]);
        assert_eq!(asked.status.code(), Some(1));
        assert!(text(&asked.stdout).contains("reach registry.example"), "{}", text(&asked.stdout));
        assert!(text(&asked.stdout).contains("tools/setup.sh"));
        assert!(errors(&asked).contains("no user can be asked"));
        assert!(waits(&stage), "nothing was trusted");

        assert!(trust(&stage, &["--yes"]).status.success());
        assert!(!waits(&stage) && allowed(&stage));
        stage.write("ws/tools/setup.sh", "touch set-up other");
        assert!(waits(&stage) && !allowed(&stage), "a file that it runs has changed");
        trust(&stage, &["--yes"]);
        stage.write("ws/sandbox.json", ASKS.replace("registry.", "*."));
        assert!(waits(&stage));
        trust(&stage, &["--yes"]);
        assert!(!waits(&stage));
        trust(&stage, &["--revoke"]);
        assert!(waits(&stage));
    }
}

/// MoltNet's own file: its set-up needs rights and hosts, and what it resumes with needs the set-up.
const MOLTNET: &str = r#"{"snapshot": {"setupCommands": ["apk add --no-cache nodejs npm", "npm install -g corepack"],
    "allowedHosts": ["registry.npmjs.org"]}, "resources": {"memory": "4G"},
    "resumeCommands": ["corepack enable", {"run": "pnpm install --frozen-lockfile", "retries": 2}]}"#;

#[test]
fn a_fresh_clone_starts_without_what_needs_untrusted_set_up_and_names_it() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, MOLTNET);
        let output = stage.run(&[], &["echo", "started"]);
        let said = errors(&output);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "started\n"),
            "{said}"
        );
        for skipped in ["corepack enable", "pnpm install --frozen-lockfile"] {
            let named = format!(
                "skipped at this start until you trust it: run inside at each start: {skipped}"
            );
            assert!(said.contains(&named), "{said}");
        }
        assert!(!said.contains('\u{1b}') && !said.contains("u{1b}"), "{said}");
    }
}

#[test]
fn lower_limit_needs_no_new_trust_and_a_higher_one_does() {
    for user in people() {
        let stage = Stage::new(user);
        let settings = |memory: &str, host: &str| {
            format!(
                r#"{{"resources": {{"memory": "{memory}"}}, "network": {{"allow": ["{host}"]}}}}"#
            )
        };
        repository(&stage, &settings("16G", "registry.example"));
        assert!(trust(&stage, &["--yes"]).status.success());
        for (memory, host, waits) in [
            ("16G", "registry.example", false),
            ("12G", "registry.example", false),
            ("3G", "registry.example", false),
            ("17G", "registry.example", true),
            ("3G", "*.example", true),
        ] {
            stage.write("ws/sandbox.json", settings(memory, host));
            let output = stage.run(&[], &["true"]);
            let said = errors(&output);
            assert!(output.status.success(), "{said}");
            assert_eq!(
                said.contains("waits for `pinfold trust`"),
                waits,
                "{memory} {host}: {said}"
            );
        }
    }
}

#[test]
fn unreadable_base_waits_for_trust_and_stops_no_run() {
    let many: String = (0..1200).map(|n| format!(" d{n}")).collect();
    for user in people() {
        let cases = [("cat secret", "cannot read"), (many.as_str(), "names too many files")];
        for (run, why) in cases.into_iter().skip(user.is_root().into()) {
            let stage = Stage::new(user);
            let settings = serde_json::json!({
                "resumeCommands": [format!("true || {run}")], "resources": { "memory": "64G" }
            });
            repository(&stage, &settings.to_string());
            let secret = stage.write("ws/secret", "x");
            fs::set_permissions(secret, fs::Permissions::from_mode(0o0)).unwrap();
            (0..1200).for_each(|n| fs::create_dir(stage.path(&format!("ws/d{n}"))).unwrap());
            let output = stage.run(&[], &["echo", "runs"]);
            assert_eq!(text(&output.stdout), "runs\n", "{}", errors(&output));
            assert!(errors(&output).contains("waits for `pinfold trust`"), "{}", errors(&output));
            let refused = trust(&stage, &["--yes"]);
            assert!(!refused.status.success());
            assert!(errors(&refused).contains(why), "{}", errors(&refused));
        }
    }
}

#[test]
fn sandbox_cannot_trust_for_its_user_or_change_its_own_policy() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, ASKS);
        stage.write("ws/tools/setup.sh", "true");
        trust(&stage, &["--yes"]);
        let before = hash(&stage);
        let script = "sed -i s/registry.example/evil.example/ sandbox.json; ls $HOME/.local/state";
        let output = stage.run_shell(&[], script);
        assert!(!text(&output.stdout).contains("pinfold"));
        assert_ne!(hash(&stage), before);
        let next = stage.run(&[], &["true"]);
        assert!(errors(&next).contains("waits for `pinfold trust`"), "{}", errors(&next));
        assert!(errors(&next).contains("evil.example"));
    }
}

#[test]
fn linked_worktrees_share_their_repositorys_trust() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, ASKS);
        stage.write("ws/tools/setup.sh", "true");
        let git = |args: &[&str]| {
            let mut git = stage.command("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
            assert!(git.status().unwrap().success(), "{args:?}");
        };
        git(&["add", "-A"]);
        git(&["commit", "-qm", "x"]);
        git(&["worktree", "add", "-q", "../linked", "-b", "other"]);
        let output = trust(&stage, &["--yes"]);
        assert!(output.status.success(), "{}", errors(&output));
        let linked = |args: &[&str]| {
            let mut run: Command = stage.pinfold(args);
            errors(&run.current_dir(stage.path("linked")).output().unwrap())
        };
        assert!(!linked(&["config"]).contains("waits for"));
        stage.write("linked/tools/setup.sh", "false");
        assert!(linked(&["config"]).contains("waits for"));
    }
}

#[test]
fn ci_trusts_a_hash_and_no_other() {
    if not_behind_gvisor("ci_trusts_a_hash_and_no_other", LS_FAILS) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, ASKS);
        stage.write("ws/tools/setup.sh", "touch set-up");
        let hash = hash(&stage);
        let output = stage.run(&["--trust-config", &hash], &["ls", "set-up"]);
        assert!(output.status.success(), "{}", errors(&output));
        let other = "0".repeat(64);
        let output = stage.run(&["--trust-config", &other], &["true"]);
        assert_eq!(output.status.code(), Some(125));
        let errors_now = errors(&output);
        assert!(errors_now.contains(&format!("is {hash}, not {other}")), "{errors_now}");
        let output = stage.run(&[], &["true"]);
        assert!(
            errors(&output).contains("waits for"),
            "a hash of one run is no trust for the next"
        );
        fs::remove_file(stage.path("ws/sandbox.json")).unwrap();
        let output = stage.run(&["--trust-config", &hash], &["true"]);
        assert!(errors(&output).contains("no sandbox.json or sandbox.toml"), "{}", errors(&output));
    }
}

#[test]
fn user_is_asked_at_the_terminal() {
    if !installed("tmux") {
        return skip("user is asked at the terminal", "tmux is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, ASKS);
        stage.write("ws/tools/setup.sh", "true");
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        for (answer, said) in [("n", "pinfold: not trusted"), ("y", "trusted until it changes")] {
            tmux.line("clear");
            tmux.wait_until("a clear screen", |screen| !screen.contains("Trust"));
            tmux.line(&format!("{} trust", executable()));
            tmux.wait_for("Trust this content? [y/N]");
            tmux.line(answer);
            tmux.wait_for(said);
        }
    }
}

#[test]
fn limits_of_a_repository_hold_and_an_unenforceable_one_is_reported() {
    if !installed("python3") {
        return skip("limits of a repository", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, r#"{"resources": {"memory": "150M", "cpus": 4}}"#);
        let hog = "import time; a=b'x'*(300<<20); time.sleep(20)";
        let output = stage.run(&[], &["python3", "-c", hog]);
        assert!(errors(&output).contains("the memory limit ended the run"), "{}", errors(&output));
        let is_reported = errors(&output).contains("resources.cpus, 4 by");
        // Docker's daemon has some for everybody.
        let has_groups = user.is_root() || engine().is_some_and(|engine| engine == "docker");
        assert!(has_groups || is_reported, "an ordinary user has no control group here");
    }
}

#[test]
fn a_file_that_is_named_takes_the_place_of_the_repositorys_own() {
    if not_behind_gvisor("a_file_that_is_named_takes_the_place_of_the_repositorys_own", LS_FAILS) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, r#"{"env": {"WHICH": "own"}}"#);
        stage.write(
            "other/named.toml",
            "env.WHICH = \"named\"\nresumeCommands = [\"touch resumed\"]",
        );
        let named = stage.path("other/named.toml");
        let option = ["--sandbox-config", named.to_str().unwrap()];
        let output = stage.run_shell(&option, "echo $WHICH; ls resumed");
        assert_eq!(text(&output.stdout), "named\nresumed\n", "{}", errors(&output));
        stage.write("ws/sandbox.toml", "");
        let output = stage.run(&[], &["true"]);
        assert!(errors(&output).contains("are present; keep one"), "{}", errors(&output));
        let missing = stage.run(&["--sandbox-config", "no-such"], &["true"]);
        assert!(errors(&missing).contains("cannot read no-such"), "{}", errors(&missing));
    }
}

#[test]
fn mistakes_name_file_line_key_and_the_nearest_key() {
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, "{\n  \"resumeComands\": []\n}");
        let output = stage.run(&[], &["true"]);
        assert_eq!(output.status.code(), Some(125));
        let expected = format!(
            "{}/sandbox.json:2: resumeComands: unknown key; did you mean `resumeCommands`?",
            stage.workspace().display()
        );
        assert!(errors(&output).contains(&expected), "{}", errors(&output));
    }
}

#[test]
fn ralphs_file_is_honoured_and_its_mistakes_are_reported_in_its_words() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/.agent-loop/config.json", r#"{"pi": []}"#);
        let run = |stage: &Stage| errors(&stage.pinfold(&["run", "pi"]).output().unwrap());
        let path = stage.path("ws/.agent-loop/config.json");
        let expected = format!("'pi' section in {} must be an object", path.display());
        assert!(run(&stage).contains(&expected), "{}", run(&stage));
        stage.write("ws/.agent-loop/config.json", r#"{"pi": {"provider": "nobody"}}"#);
        assert!(
            run(&stage).contains("nobody") && run(&stage).contains("anthropic"),
            "{}",
            run(&stage)
        );
        let others = stage.run(&[], &["true"]);
        assert!(others.status.success(), "it is pi's alone: {}", errors(&others));
    }
}
