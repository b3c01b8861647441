//! An agent that wants its result to be accepted without doing the work, or to reach the host by it.

use pinfold_testkit::people;

use crate::scene::{Scene, printed};

/// Scripts of agents that cheat. None makes the answer right.
const CHEATS: &[(&str, &str)] = &[
    ("tests are replaced", "echo 'exit 0' >tests/check.sh"),
    ("tests are removed", "git rm -rq tests; mkdir tests; echo exit 0 >tests/check.sh; git add -A"),
    (
        "tests are a link",
        "rm -r tests; mkdir other; echo exit 0 >other/check.sh; ln -s other tests",
    ),
    (
        "tests are attributes' work",
        "echo 'tests/* filter=x text eol=crlf ident' >.gitattributes; git config filter.x.smudge 'echo exit 0; cat'",
    ),
    (
        "programs lie in the result",
        "mkdir -p bin; for p in sh grep git; do echo 'exit 0' >bin/$p; chmod +x bin/$p; cp bin/$p $p; done",
    ),
    ("what git ignores answers", "echo answer >.gitignore; echo right >answer"),
    (
        "a hook makes the commit",
        "printf '#!/bin/sh\\nexit 0\\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
    ),
    (
        "the base is another commit",
        "git update-ref refs/heads/main HEAD; git replace -f $(git rev-parse HEAD) $(git commit-tree -m x $(git mktree </dev/null))",
    ),
    (
        "the worktree's settings",
        "git config core.worktree /tmp; git config core.hooksPath hooks; git config core.fsmonitor 'touch answer'",
    ),
];

#[test]
fn no_cheat_passes_tests_that_are_restored() {
    for user in people() {
        let scene = Scene::new(user);
        let options = ["--verify", "sh tests/check.sh", "--restore", "tests", "--iterations", "1"];
        let ids: Vec<String> =
            CHEATS.iter().map(|(_, script)| scene.add(script, &options)).collect();
        let said = scene.work();
        for ((what, _), id) in CHEATS.iter().zip(&ids) {
            let log = printed(&scene.run(&["task", "logs", id]));
            assert_eq!(scene.ended(id).0, "failed", "{what}: {said}\n{log}");
        }
        // What runs the tests is the host's as before.
        let names = scene.git(&["config", "--local", "--name-only", "--list"]);
        let planted = ["filter.", "core.hookspath", "core.fsmonitor", "core.worktree"];
        let is_planted = |name: &str| planted.iter().any(|planted| name.starts_with(planted));
        assert!(!names.lines().any(is_planted), "{names}");
    }
}

#[test]
fn result_that_tools_on_the_host_would_run_waits_for_the_user() {
    for user in people() {
        let scene = Scene::new(user);
        let script = "id=$(echo '{}' | git hash-object -w --stdin)
             git update-index --add --cacheinfo 100644,$id,.vscode/tasks.json
             git commit -qm planted; echo right >answer";
        let id = scene.add(script, &[]);
        let said = scene.work();
        let (status, code) = scene.ended(&id);
        assert_eq!((status.as_str(), code.as_str()), ("failed", "result_waits"), "{said}");
        assert!(!scene.repository().join(".vscode/tasks.json").exists());
    }
}

#[test]
fn task_that_says_what_no_command_line_may_is_refused() {
    for user in people() {
        let scene = Scene::new(user);
        let refused = |front: &str, why: &str| {
            scene
                .stage
                .write("ws/repo/task.md", format!("---\nagent: script\n{front}\n---\nwork\n"));
            let output = scene.run(&["task", "add", "task.md"]);
            let said = printed(&output);
            assert!(!output.status.success() && said.contains(why), "{front}: {said}");
        };
        refused("model: \"a\\nb\"", "model");
        refused("agent: --boundary=none", "agent");
        refused("identity: ../../etc", "identity");
        refused("branch: \"-x\"", "branch");
        refused("restore: [\"../other\"]", "restore");
        refused("restore: [\":(exclude)tests\"]", "restore");
        refused("sealed: relative", "sealed");
        refused("workspace: shared_mount", "branch of its own");
        refused("policy: {}", "policy");
        let output = scene.run(&["task", "add", "--agent", "nobody", "--brief", "x"]);
        assert!(printed(&output).contains("known: "), "{}", printed(&output));
    }
}
