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
fn agent_moves_no_branch_but_its_own_and_decides_no_later_attempt() {
    for user in people() {
        let scene = Scene::new(user);
        scene.git(&["branch", "feature"]);
        let script = "echo 'exit 0' >tests/check.sh; git add -A; git commit -qm cheat
             echo stashed >>tests/check.sh; git stash -q
             for name in heads/goal heads/feature heads/main heads/task/1 tags/v1 pinfold/x replace/x; do
                 git update-ref refs/$name HEAD
             done
             git checkout -q -b elsewhere; echo wrong >answer";
        let options = ["--branch", "goal", "--verify", "sh tests/check.sh", "--restore", "tests"];
        let id = scene.add(script, &[&options[..], &["--iterations", "1"]].concat());
        let said = scene.work();
        let attempt = format!("task/{}.attempt-1", &id[..8]);
        let ended = scene.ended(&id);
        assert_eq!(ended.1, "verification_failed", "{said}");
        assert_eq!(scene.left().0, ["feature", "main", &attempt]);
        assert_eq!(scene.git(&["rev-parse", "feature"]), scene.git(&["rev-parse", "main"]));
        assert_eq!(scene.git(&["stash", "list"]) + &scene.git(&["tag"]), "");
        // What it did on another branch is on its own, and what it put elsewhere is kept and named.
        assert_eq!(scene.git(&["show", &format!("{attempt}:answer")]), "wrong");
        let log = printed(&scene.run(&["task", "logs", &id]));
        assert!(log.contains("refs/heads/goal") && log.contains("kept as refs/pinfold/"), "{log}");
        // Another attempt begins where the first one did.
        assert!(scene.run(&["task", "retry", &id]).status.success());
        scene.work();
        assert_eq!(scene.ended(&id).1, "verification_failed");
    }
}

#[test]
fn earlier_command_and_sealed_names_do_not_decide_what_is_tested() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("sealed/deep/test.sh", "grep -q right answer\n");
        let sealed = scene.stage.path("sealed");
        let sealed = ["--sealed", sealed.to_str().unwrap(), "--verify", "sh deep/test.sh"];
        let steps = ["--verify", "sh build.sh", "--verify", "sh tests/check.sh"];
        let cheats = [
            ("mkdir deep; ln -s /dev/null deep/test.sh", &sealed[..]),
            ("mkdir other; ln -s other deep; ln -s /dev/null other/test.sh", &sealed[..]),
            ("mkdir -p deep/test.sh; touch deep/test.sh/x", &sealed[..]),
            (
                "echo 'echo right >answer; git add -A; git commit -qm x; git branch y' >build.sh",
                &steps[..],
            ),
        ];
        let add = |(script, options): &(&str, &[&str])| {
            scene.add(script, &[*options, &["--iterations", "1"]].concat())
        };
        let ids: Vec<String> = cheats.iter().map(add).collect();
        let said = scene.work();
        for ((script, _), id) in cheats.iter().zip(&ids) {
            let log = printed(&scene.run(&["task", "logs", id]));
            assert_eq!(scene.ended(id).1, "verification_failed", "{script}: {said}\n{log}");
            assert!(!log.contains("cannot"), "{script}: {log}");
        }
        let branches = scene.left().0;
        assert!(
            branches.iter().all(|it| it == "main" || it.ends_with(".attempt-1")),
            "{branches:?}"
        );
    }
}

#[test]
fn restored_files_are_those_of_the_base_to_the_byte_and_nowhere_else() {
    for user in people() {
        let scene = Scene::new(user);
        let script = "printf 'tests/* text eol=crlf\\n' >.gitattributes
             mkdir other; echo planted >other/settings; ln -s other ci";
        let verify = "! grep -q \"$(printf '\\r')\" tests/check.sh && [ ! -e ci/settings ]";
        let options = ["--restore", "tests", "--restore", "ci/settings", "--verify", verify];
        let id = scene.add(script, &options);
        let said = scene.work();
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
    }
}

#[test]
fn sandbox_does_not_write_the_result_of_its_run() {
    for user in people() {
        let scene = Scene::new(user);
        let run =
            |script: &str| scene.run(&["run", "--result", "result.json", "--", "sh", "-c", script]);
        let long = "{ echo '{\"status\":0}'; seq 1000; } >result.json; exit 3";
        assert_eq!(run(long).status.code(), Some(3));
        let written = std::fs::read(scene.repository().join("result.json")).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written["status"], 3);
        let said = run("rm result.json; echo '{\"status\":0}' >result.json");
        assert!(!said.status.success(), "{}", printed(&said));
        assert!(printed(&said).contains("was replaced"), "{}", printed(&said));
    }
}

#[test]
fn output_of_sealed_tests_does_not_reach_the_agent() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("sealed/test.sh", "echo the-sealed-text; exit 3\n");
        let sealed = scene.stage.path("sealed");
        let script =
            "case $1 in *'the-sea'led-text*) echo seen ;; *) date +%N ;; esac >>answer; sleep 0.01";
        let options = ["--sealed", sealed.to_str().unwrap(), "--verify", "sh test.sh"];
        let id = scene.add(script, &[&options[..], &["--iterations", "2"]].concat());
        let said = scene.work();
        let branch = format!("task/{}.attempt-1:answer", &id[..8]);
        let answer = scene.git(&["show", &branch]);
        assert_eq!((answer.lines().count(), answer.contains("seen")), (2, false), "{said}");
        // Nor does it reach others who see the queue, such as the server that a task is from.
        let shown = scene.show(&id).to_string();
        assert!(!format!("{shown}{said}").contains("the-sealed-text"), "{shown}{said}");
    }
}

/// A server that offers a task again has its worker find the branch of the first result.
#[test]
fn branch_that_is_called_as_the_task_decides_no_tests() {
    for user in people() {
        let scene = Scene::new(user);
        let options = ["--verify", "sh tests/check.sh", "--restore", "tests"];
        let id = scene.add("echo wrong >answer", &options);
        let branch = format!("task/{}", &id[..8]);
        scene.git(&["checkout", "-q", "-b", &branch]);
        scene.stage.write("ws/repo/tests/check.sh", "true\n");
        scene.git(&["commit", "-qam", "other tests"]);
        scene.git(&["checkout", "-q", "main"]);
        let said = scene.work();
        assert_eq!(scene.ended(&id).1, "no_progress", "{said}");
    }
}

/// git moves what such a branch stands for, and the files of its checkout stay behind.
#[test]
fn branch_that_is_another_name_for_one_stays_where_it_is() {
    for user in people() {
        let scene = Scene::new(user);
        scene.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
        let before = scene.git(&["rev-parse", "main"]);
        let id = scene.add("echo right >answer", &["--branch", "alias"]);
        let said = scene.work();
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
        assert!(said.contains("is another name for"), "{said}");
        assert_eq!(scene.git(&["rev-parse", "main"]), before, "{said}");
        assert_eq!(scene.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn nothing_that_a_verification_commits_comes_to_the_host() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("sealed/test.sh", "the sealed text\n");
        let sealed = scene.stage.path("sealed");
        let object = scene.git(&["hash-object", sealed.join("test.sh").to_str().unwrap()]);
        let verify = "git switch -qc leak && git add -A && git commit -qm leak && git tag leaked && git stash list";
        let options = ["--sealed", sealed.to_str().unwrap(), "--verify", verify];
        let id = scene.add("echo right >answer", &options);
        let said = scene.work();
        assert_eq!(scene.ended(&id).0, "completed", "{said}");
        let mut there = scene.stage.command("git");
        there.args(["cat-file", "-e", &object]).current_dir(scene.repository());
        let there = there.status().unwrap();
        assert!(!there.success(), "the object is in the repository");
        assert!(!scene.git(&["for-each-ref"]).contains("leak"));
        assert_eq!(scene.git(&["for-each-ref", "refs/pinfold"]), "");
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
        refused("policy: {files: {write: [\"/\"]}}", "write");
        let output = scene.run(&["task", "add", "--agent", "nobody", "--brief", "x"]);
        assert!(printed(&output).contains("known: "), "{}", printed(&output));
    }
}

/// git shows what changed in a submodule by another git, with the settings of that one.
#[test]
fn diff_of_a_result_starts_no_program_that_a_submodule_names() {
    let Some(user) = people().pop() else { return };
    let scene = Scene::new(user);
    scene.git(&["config", "diff.submodule", "diff"]);
    let git = ["-C", ".git/sub", "-c", "user.name=A", "-c", "user.email=a@example.com"];
    let sub = |args: &[&str]| scene.git(&[&git, args].concat());
    // Where git looks for the submodule when it stands in the git directory.
    scene.git(&["init", "-q", ".git/sub"]);
    sub(&["commit", "-q", "--allow-empty", "-m", "one"]);
    let one = sub(&["rev-parse", "HEAD"]);
    scene.stage.write("ws/repo/.git/sub/file", "two\n");
    sub(&["add", "file"]);
    sub(&["commit", "-q", "-m", "two"]);
    let two = sub(&["rev-parse", "HEAD"]);
    let planted = scene.stage.path("home/planted");
    sub(&["config", "diff.external", &format!("touch {} #", planted.display())]);
    let at = |commit: &str| format!("git update-index --add --cacheinfo 160000,{commit},sub");
    scene.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{one},sub")]);
    scene.git(&["commit", "-q", "-m", "a submodule"]);
    let id = scene.add(&format!("{}; git commit -qm two", at(&two)), &[]);
    let said = scene.work();
    assert_eq!(scene.ended(&id).0, "completed", "{said}");
    let shown = printed(&scene.run(&["task", "diff", &id]));
    assert!(!planted.exists(), "{shown}");
    assert!(shown.contains(&two), "{shown}");
}
