//! Tasks for real agents.

use pinfold_testkit::agent::{AgentScene, cache, ready};
use pinfold_testkit::{Script, people};

/// Each is asked in its own way, and what it did is checked on a fresh checkout.
#[test]
fn claude_and_pi_complete_a_task_that_is_verified_outside() {
    if ready("tasks of real agents").is_none() {
        return;
    }
    for user in people() {
        for agent in ["claude", "pi"] {
            let scene = AgentScene::new(user, Script::fix_the_bug());
            let run = |args: &[&str]| {
                let mut pinfold = scene.stage.pinfold(args);
                pinfold.current_dir(scene.repo.path()).env("XDG_CACHE_HOME", cache(user));
                let output = pinfold.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                (
                    output.status.success(),
                    String::from_utf8_lossy(&output.stdout).into_owned(),
                    said,
                )
            };
            let verify = ["--verify", "sh test.sh", "--restore", "test.sh"];
            let brief = ["task", "add", "--agent", agent, "--brief", "- Mend the bug."];
            let (added, id, said) = run(&[&brief[..], &verify].concat());
            assert!(added, "{said}");
            let (worked, _, said) = run(&["work"]);
            assert!(worked, "{agent}: {said}\n{}", run(&["task", "logs", id.trim()]).1);
            let result = run(&["task", "show", "--json", id.trim()]).1;
            let result: serde_json::Value = serde_json::from_str(&result).unwrap();
            let usage = &result["results"][0]["usage"];
            assert!(usage["outputTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{result}");
            assert!(
                !scene.repo.run("sh", &["test.sh"]).status.success(),
                "the checkout is as it was"
            );
            let (applied, _, said) = run(&["task", "apply", id.trim()]);
            assert!(applied, "{agent}: {said}");
            assert!(scene.repo.run("sh", &["test.sh"]).status.success(), "{agent}: {said}");
        }
    }
}
