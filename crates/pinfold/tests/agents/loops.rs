//! Real agents in the spec loop.

use pinfold_testkit::Script;
use pinfold_testkit::agent::{AgentScene, cache, own_tree, ready};

const SPEC: &str = "# Sums\n\n### Step 1: Mend the sum\n\n### Step 2: Write notes\n";

/// What the model has each new agent do: the first step that is not done.
const STEP: &str = r#"
done_with() { sed -i "s/^### Step $1:.*/& [done]/" /tmp/spec.md; }
if ! grep -q '^### Step 1:.*done' /tmp/spec.md; then sed -i 's/\$1 - \$2/$1 + $2/' sum.sh; git commit -qam mend; done_with 1
else echo notes >NOTES; done_with 2; fi; echo worked"#;

/// Each agent finds the specification, and each iteration is a new process that knows nothing of the one before.
fn completes_a_specification(agent: &str) {
    let Some(user) = ready(&format!("a loop with {agent}")) else { return };
    let steps =
        serde_json::json!({ "steps": [{ "bash": STEP }, { "text": "DONE", "expect": "worked" }] });
    let scene = AgentScene::new(user, Script::parse(steps.to_string().as_bytes()).unwrap());
    let spec = scene.stage.write("home/sums.md", SPEC);
    scene.repo.write(".agent-loop/config.json", r#"{"pi": {"model": "claude-of-the-repository"}}"#);
    own_tree(&scene.stage, scene.repo.path());
    let words =
        ["loop", "--spec", spec.to_str().unwrap(), "--agent", agent, "--verify", "sh test.sh"];
    let mut pinfold = scene.stage.pinfold(&[&words[..], &["--restore", "test.sh"]].concat());
    pinfold.current_dir(scene.repo.path()).env("XDG_CACHE_HOME", cache(user));
    let output = pinfold.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let log = said.split("the log is ").nth(1).and_then(|rest| rest.lines().next());
    let log = log.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    assert!(output.status.success(), "{agent}: {said}\n{log}");
    assert!(said.contains("iteration 2: 1 of 2 steps are done"), "{agent}: {said}");
    assert!(said.contains("done and verified: branch spec/sums-"), "{agent}: {said}");
    let text = std::fs::read_to_string(&spec).unwrap();
    assert!(text.starts_with("---\nstatus: done\n") && text.contains("notes [done]"), "{text}");
    let of_repository = scene.models().iter().any(|model| model.contains("of-the-repository"));
    assert_eq!(of_repository, agent == "pi", "{agent}: {:?}", scene.models());
}

#[test]
fn pi_completes_a_specification_with_the_model_of_the_repository() {
    completes_a_specification("pi");
}

#[test]
fn claude_completes_a_specification() {
    completes_a_specification("claude");
}

#[test]
fn codex_completes_a_specification() {
    completes_a_specification("codex");
}
