//! The official client of the Agent Client Protocol, and agents in sandboxes.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use pinfold_testkit::agent::{AgentScene, ready};
use pinfold_testkit::{Script, skip};
use serde_json::json;

use super::{newer_node, packages};

const CLIENT: &str = "@agentclientprotocol/sdk@2.4.0";
const ZOD: &str = "zod@4.1.12";

/// The client's modules and a node for it; says why they are not available.
fn client(test: &str, scene: &AgentScene) -> Option<(PathBuf, PathBuf)> {
    let node = newer_node(test)?;
    let modules = match packages(&scene.stage, "acp", &[CLIENT, ZOD, node]) {
        Ok(modules) => modules,
        Err(why) => {
            skip(test, &why);
            return None;
        }
    };
    let node = modules.join(node.split('@').next().unwrap()).join("bin/node");
    symlink(&modules, scene.stage.path("home/node_modules")).unwrap();
    Some((modules, node))
}

/// Has the client work with what a command starts.
fn work(scene: &AgentScene, node: &PathBuf, agent: &Command, prompt: &str) -> Output {
    let words = std::iter::once(agent.get_program()).chain(agent.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let program = scene.stage.write("home/acp.mjs", include_str!("acp.mjs"));
    let mut client = scene.stage.command(node);
    let given = agent.get_envs().filter_map(|(name, value)| Some((name, value?)));
    client.envs(given).arg(program).current_dir(scene.repo.path());
    client
        .env("AGENT", json!(words).to_string())
        .env("PROMPT", scene.stage.write("tmp/prompt", prompt))
        .output()
        .unwrap()
}

#[test]
fn editor_works_with_an_agent_in_a_sandbox_by_its_own_option() {
    let test = "an editor and opencode";
    let Some(user) = ready(test) else { return };
    let mut scene = AgentScene::new(user, Script::fix_the_bug());
    scene.workspace = Some("shared_mount");
    let Some((_, node)) = client(test, &scene) else { return };
    let output = work(&scene, &node, &scene.run("opencode", &["acp"]), "Mend the bug.");
    scene.assert_done("opencode by ACP", &output);
}

#[test]
fn streams_of_a_command_are_the_protocols_alone() {
    let test = "an agent of the protocol's own library";
    let Some(user) = ready(test) else { return };
    let scene = AgentScene::new(user, Script::fix_the_bug());
    let Some((modules, node)) = client(test, &scene) else { return };
    let echo = scene.stage.write("agent/echo.mjs", include_str!("acp_echo.mjs"));
    symlink(&modules, scene.stage.path("agent/node_modules")).unwrap();
    let mut run = scene.stage.pinfold(&["run", "--read"]);
    // Notes of pinfold's go to standard error.
    run.arg(&modules).arg("--read").arg(scene.stage.path("agent")).args([
        "--allow-host",
        "example.com",
        "--",
    ]);
    run.arg(&node).arg(&echo);
    let prompt = format!("{}\u{1b}[2J\u{2028}end", "ä\"\\\n".repeat(100_000));
    let output = work(&scene, &node, &run, &prompt);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert!(said == format!("pinfold true {prompt}\n"), "{}: {errors}", said.len());
}
