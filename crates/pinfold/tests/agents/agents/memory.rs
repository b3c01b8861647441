//! claude, codex, opencode, pi and gemini in a sandbox, which use a diary on the host.

use std::fs;

use pinfold_testkit::agent::{AgentScene, cache, ready};
use pinfold_testkit::{Script, Stage, skip};
use serde_json::{Value, json};

use super::{newer_node, packages};

/// Newer models look for tools instead of getting a list of all.
const MODEL: &str = r#"model="gpt-5.4""#;

/// An agent, its arguments, and a call of the tool that adds an entry as its model says it.
fn agents() -> [(&'static str, Vec<&'static str>, Value); 4] {
    let entry = json!({ "title": "Disk", "content": "The disk was full." });
    let bash = format!("pinfold-memory moltnet_create_entry '{entry}'");
    [
        (
            "claude",
            vec!["-p", "go"],
            json!({ "name": "mcp__memory__moltnet_create_entry", "input": entry }),
        ),
        (
            "codex",
            vec!["exec", "--ephemeral", "--skip-git-repo-check", "-c", MODEL, "go"],
            json!({ "name": "moltnet_create_entry", "input": entry }),
        ),
        (
            "opencode",
            vec!["run", "go"],
            json!({ "name": "memory_moltnet_create_entry", "input": entry }),
        ),
        // It has no servers of the protocol.
        ("pi", vec!["-p", "go"], json!({ "name": "bash", "input": { "command": bash } })),
    ]
}

#[test]
fn agent_in_a_sandbox_finds_the_tools_of_a_diary_that_is_granted() {
    for (agent, args, call) in agents() {
        let Some(user) = ready("agents with a diary") else { return };
        let steps = json!({ "steps": [{ "tool": call }, { "text": "DONE" }] });
        let script = Script::parse(steps.to_string().as_bytes()).unwrap();
        let scene = AgentScene::new(user, script);
        let config = scene.stage.path("home/.config/pinfold/config.toml");
        let settings = fs::read_to_string(&config).unwrap();
        scene
            .stage
            .write("home/.config/pinfold/config.toml", format!("memory = \"write\"\n{settings}"));
        let output = scene.run(agent, &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("DONE"), "{agent}: {said}\n{errors}");
        let listed = scene.stage.pinfold(&["memory", "ls", "--json"]).output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(
            listed["entries"][0]["content"], "The disk was full.",
            "{agent}: {said}\n{errors}"
        );
        let audit = scene.stage.pinfold(&["audit", "--json"]).output().unwrap();
        let audit = String::from_utf8_lossy(&audit.stdout).into_owned();
        assert!(audit.contains("moltnet_create_entry"), "{agent}: {audit}");
    }
}

/// gemini is a program of the user's, and state of a session with a diary is there in one without.
#[test]
fn gemini_finds_the_tools_of_a_diary_only_where_it_is_granted() {
    let test = "gemini with a diary";
    let Some(user) = ready(test) else { return };
    let Some(node) = newer_node(test) else { return };
    let stage = Stage::new(user);
    let modules = match packages(&stage, "gemini", &["@google/gemini-cli@0.61.0", node]) {
        Ok(modules) => modules,
        Err(why) => return skip(test, &why),
    };
    let bin = modules.join(".bin");
    let node = modules.join(node.split('@').next().unwrap()).join("bin");
    let path = format!("{}:{}:/usr/bin:/bin", bin.display(), node.display());
    let granted = cache(user).join("gemini").display().to_string();
    for (grant, is_there) in [("read", true), ("none", false)] {
        let options = ["run", "--read", &granted, "--memory-grant", grant, "gemini", "--"];
        let mut run = stage.pinfold(&options);
        run.args(["mcp", "list"]).env("PATH", &path).env("GEMINI_API_KEY", "AIza-not-a-key");
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let line = said.lines().find(|line| line.contains("pinfold-memory"));
        assert_eq!(line.is_some_and(|line| line.contains("Connected")), is_there, "{said}");
        assert_eq!(line.is_some(), is_there, "{said}");
    }
}
