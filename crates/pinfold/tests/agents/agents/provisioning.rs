//! Provisioning is done once and survives being killed.

use std::fs;
use std::process::{Child, Command, Stdio};

use pinfold_testkit::agent::ready;
use pinfold_testkit::tracer::kill_at;
use pinfold_testkit::{Stage, people};

use super::refusal;

/// A small package, so that the tests take no time.
const RECIPE: &str = r#"{
  "format": 1,
  "name": "tiny",
  "version": "7.0.0",
  "packages": [
    {"path":"node_modules/is-number","name":"is-number","version":"7.0.0",
     "integrity":"sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng=="}
  ],
  "bin": [{"command":"tiny","path":"node_modules/is-number/index.js"}]
}"#;
const AGENT: &str = "name = \"tiny\"\ncli_command = \"ls\"\nrecipe = \"tiny\"\n";

/// A user whose own agent shows what is in its layer.
fn stage_with(person: pinfold_testkit::User, recipe: &str) -> Stage {
    let stage = Stage::new(person);
    stage.write("home/.config/pinfold/agents/tiny.toml", AGENT);
    stage.write("home/.config/pinfold/agents/recipes/tiny.json", recipe);
    stage
}

fn run(stage: &Stage) -> Command {
    let mut run = stage.pinfold(&["run", "tiny", "--", "/run/pinfold/agent/node_modules"]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

fn works(stage: &Stage) -> String {
    let output = run(stage).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert_eq!(output.stdout, b"is-number\n");
    errors
}

#[test]
fn a_user_adds_an_agent_by_adding_a_file() {
    let Some(_) = ready("an agent of one's own") else { return };
    for person in people() {
        let stage = stage_with(person, RECIPE);
        assert!(works(&stage).contains("downloading"), "the first start provisions");
        assert_eq!(works(&stage), "", "the next start does not");
    }
}

#[test]
fn a_package_that_is_not_what_the_recipe_says_is_refused() {
    let Some(person) = ready("integrity") else { return };
    let stage = stage_with(person, &RECIPE.replace("sha512-41Ci", "sha512-42Ci"));
    let errors = refusal(run(&stage));
    assert!(errors.contains("is-number"), "{errors}");
    let layers = fs::read_dir(stage.path("home/.cache/pinfold/agents")).into_iter().flatten();
    let left: Vec<_> = layers.flatten().filter(|entry| entry.path().join("bin").exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn starts_at_once_provision_once() {
    let Some(person) = ready("starts at once") else { return };
    let stage = stage_with(person, RECIPE);
    let runs: Vec<Child> = (0..6).map(|_| run(&stage).spawn().unwrap()).collect();
    let outputs: Vec<_> = runs.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    for output in &outputs {
        assert!(output.status.success(), "{}", said(output));
    }
    let downloads = outputs.iter().filter(|output| said(output).contains("downloading")).count();
    assert_eq!(downloads, 1, "one downloads, the others wait");
}

#[test]
fn provisioning_that_is_killed_begins_again() {
    let Some(person) = ready("a killed download") else { return };
    for step in [200, 600, 900, 1200, 1500, 1800, 2400] {
        let stage = stage_with(person, RECIPE);
        let mut command = run(&stage);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let traced = kill_at(command, 0, step);
        assert!(traced.survivors.is_empty(), "{:?} survive step {step}", traced.survivors);
        works(&stage);
        // What the killed one left is gone with the start that followed.
        let cache = stage.path("home/.cache/pinfold/agents");
        let names: Vec<String> = fs::read_dir(cache)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let strange: Vec<_> = names.iter().filter(|name| name.contains("tmp")).collect();
        assert!(strange.is_empty(), "after step {step}: {names:?}");
    }
}
