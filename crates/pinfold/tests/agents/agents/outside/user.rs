//! pi with somebody before it: at a terminal, or by remote control.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use pinfold_testkit::agent::KEY;
use pinfold_testkit::{Tmux, executable};
use serde_json::{Value, json};

use super::{Scene, VERSIONS};

#[test]
fn commands_of_a_remote_control_run_inside_or_pi_does_not_start() {
    for version in VERSIONS {
        let Some(scene) = Scene::new("pi by RPC", version, &json!({ "steps": [] })) else { return };
        let extension = scene.extension();
        let words = ["--mode", "rpc", "--no-extensions", "--no-session", "--agent", "none", "-e"];
        let mut pi = scene.pi(&[&words[..], &[extension.to_str().unwrap()]].concat());
        let mut pi =
            pi.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut to = pi.stdin.take().unwrap();
        // One that has refused to start reads nothing.
        let _ = writeln!(
            to,
            "{}",
            json!({ "id": "1", "type": "bash", "command": "hostname; touch here" })
        );
        let from = BufReader::new(pi.stdout.take().unwrap());
        let mut lines = from.lines().map_while(Result::ok);
        let answer = lines.find(|line| line.contains("\"command\":\"bash\""));
        drop(to);
        let output = pi.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if version == "0.74.0" {
            assert!(answer.is_none() && errors.contains("in RPC mode"), "{answer:?} {errors}");
            assert!(!scene.repo.path().join("here").exists());
        } else {
            let answer = answer.unwrap_or_default();
            assert!(answer.contains("\"output\":\"pinfold\\n\""), "{answer} {errors}");
        }
    }
}

#[test]
fn a_command_on_the_host_is_asked_for_and_denied_where_nobody_is() {
    let call =
        json!({ "name": "moltnet_host_exec", "input": { "executable": "hostname", "args": [] } });
    let script = json!({ "steps": [{ "tool": call }, { "text": "DONE" }] });
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for version in VERSIONS {
        let Some(scene) = Scene::new("pi and the host", version, &script) else { return };
        let config = "home/.config/pinfold/config.toml";
        scene.stage.write(config, "[hostExec]\nexecutables = [\"hostname\"]\n");
        let denied = scene.ask_with("moltnet_host_exec", &["--agent", "none"]);
        let tool_results = scene.tool_results();
        assert!(tool_results.contains("autoApprove"), "{version}: {tool_results} {denied:?}");
        let rule = "[hostExec]\nexecutables = [\"hostname\"]\nautoApprove = [{ executable = \"hostname\" }]\n";
        scene.stage.write(config, rule);
        scene.ask_with("moltnet_host_exec", &["--agent", "none"]);
        let tool_results = scene.tool_results();
        let stdout = format!("\\\"stdout\\\":\\\"{}\\\\n", own.trim());
        assert!(
            tool_results.contains("\\\"host_exec\\\":true") && tool_results.contains(&stdout),
            "{version}: {tool_results}"
        );
    }
    // With somebody at a dialog: one who controls pi by RPC has one.
    let Some(scene) = Scene::new("pi and the host", "0.87.1", &script) else { return };
    scene
        .stage
        .write("home/.config/pinfold/config.toml", "[hostExec]\nexecutables = [\"hostname\"]\n");
    let extension = scene.extension();
    let words = ["--mode", "rpc", "--no-extensions", "--no-session", "--agent", "none"];
    let model = ["--model", "anthropic/claude-sonnet-4-5", "--tools", "moltnet_host_exec"];
    let load = ["-e", extension.to_str().unwrap()];
    let mut pi = scene.pi(&[&words[..], &model, &load].concat());
    let mut pi = pi.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = pi.stdin.take().unwrap();
    let from = BufReader::new(pi.stdout.take().unwrap());
    writeln!(to, "{}", json!({ "id": "1", "type": "prompt", "message": "go" })).unwrap();
    let mut asked = String::new();
    for line in from.lines().map_while(Result::ok) {
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        if said["type"] == "extension_ui_request" && said["method"] == "confirm" {
            asked = line.clone();
            let answer =
                json!({ "type": "extension_ui_response", "id": said["id"], "confirmed": true });
            writeln!(to, "{answer}").unwrap();
        }
        if said["type"] == "agent_settled" {
            break;
        }
    }
    drop(to);
    pi.wait().unwrap();
    assert!(asked.contains("hostname"), "{asked}");
    assert!(scene.tool_results().contains(own.trim()), "{}", scene.tool_results());
}

#[test]
fn a_persons_own_commands_run_inside_and_the_screen_says_behind_what() {
    let Some(scene) = Scene::new("pi on a terminal", "0.87.1", &json!({ "steps": [] })) else {
        return;
    };
    let (node, cli) = scene.pi.command();
    let extension = scene.extension();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("PI_OFFLINE", "1"), ("PINFOLD", executable())];
    let tmux = Tmux::start(&scene.stage, scene.repo.path(), &variables);
    tmux.line(&format!(
        "{} {} --no-extensions --no-session --model anthropic/claude-sonnet-4-5 -e {} --agent none",
        node.display(),
        cli.display(),
        extension.display()
    ));
    tmux.wait_for("pinfold: namespace");
    tmux.line("!echo on $(hostname) with ${ANTHROPIC_API_KEY:-nothing}");
    tmux.wait_for("on pinfold with nothing");
    tmux.line("/quit");
    tmux.wait_for("outer>");
}

#[test]
fn diary_that_is_granted_is_used_by_pis_own_tools_and_failures_are_reviewed() {
    let call = |name: &str, input: Value| json!({ "tool": { "name": name, "input": input } });
    let script = json!({ "steps": [
        call("moltnet_create_entry", json!({ "title": "Disk", "content": "The disk was full." })),
        call("moltnet_search_entries", json!({ "query": "disks" })),
        call("moltnet_get_entry", json!({ "entryId": "66666666-6666-4666-8666-666666666666" })),
        call("moltnet_review_session_errors", json!({})),
        { "text": "DONE" },
    ] });
    let tools = "moltnet_create_entry,moltnet_search_entries,moltnet_get_entry,moltnet_review_session_errors";
    for version in VERSIONS {
        let Some(scene) = Scene::new("pi and a diary", version, &script) else { return };
        let config = "home/.config/pinfold/config.toml";
        scene.stage.write(config, "memory = \"write\"\n");
        let asked = scene.ask_with(tools, &["--agent", "none"]);
        let results = scene.tool_results();
        assert!(results.contains("The disk was full."), "{version}: {results} {asked:?}");
        assert!(results.contains("Not Found: Diary entry not found"), "{version}: {results}");
        assert!(results.contains("\\\"count\\\": 1"), "{version}: {results}");
        let listed = scene.stage.pinfold(&["memory", "ls"]).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("Disk"), "{version}: {listed:?}");
        // Without a grant the model is offered none.
        scene.stage.write(config, "memory = \"none\"\n");
        scene.ask_with(tools, &["--agent", "none"]);
        let last = scene.server.requests().into_iter().rev().find_map(|request| request.json());
        let offered = last.unwrap_or_default()["tools"].to_string();
        assert!(!offered.contains("moltnet_create_entry"), "{version}: {offered}");
    }
}
