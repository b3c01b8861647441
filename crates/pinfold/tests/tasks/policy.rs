//! What a task takes from the policy of its sandboxes, and that it can give nothing.

use pinfold_testkit::people;

use crate::scene::{Scene, printed};

/// Adds a task by a file with these lines in its front matter.
fn add(scene: &Scene, front: &str, script: &str) -> std::process::Output {
    scene.stage.write("task.md", format!("---\nagent: script\n{front}---\n{script}\n"));
    let file = scene.stage.path("task.md");
    scene.run(&["task", "add", file.to_str().unwrap()])
}

#[test]
fn policy_of_a_task_holds_for_its_agent_and_its_verification() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("ws/repo/notes.private", "hidden words\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "notes"]);
        let settings = "[resources]\npids = 300\n";
        scene.stage.write("home/.config/pinfold/config.toml", settings);
        let front = "policy:\n  files: { deny: [\"*.private\"] }\n  resources: { pids: 5000, files: 77 }\n  network: { hosts: [] }\n\
                     verify: [\"! grep -q hidden notes.private && [ $(ulimit -n) = 77 ]\"]\n";
        let script = "grep -c hidden notes.private >found; ulimit -n >limit; true";
        let added = add(&scene, front, script);
        assert!(added.status.success(), "{}", printed(&added));
        let id = String::from_utf8(added.stdout).unwrap().trim().to_owned();
        let said = scene.work();
        let log = printed(&scene.run(&["task", "logs", &id]));
        assert_eq!(scene.ended(&id).0, "completed", "{said}\n{log}");
        let branch = format!("task/{}", &id[..8]);
        assert_eq!(scene.git(&["show", &format!("{branch}:limit")]), "77");
        assert_ne!(scene.git(&["show", &format!("{branch}:found")]), "1");
        // What was hidden is on the branch as before.
        assert_eq!(scene.git(&["show", &format!("{branch}:notes.private")]), "hidden words");
    }
}

#[test]
fn task_that_asks_for_more_is_refused_with_a_hint() {
    for user in people() {
        let scene = Scene::new(user);
        for policy in [
            "network: { allow: [\"evil.test\"] }",
            "files: { read: [\"/etc\"] }",
            "env: { LD_PRELOAD: /tmp/x }",
            "hostExec: { autoApprove: true }",
            "publish: [\"8080\"]",
        ] {
            let refused = add(&scene, &format!("policy:\n  {policy}\n"), "true");
            let said = printed(&refused);
            assert!(!refused.status.success(), "{policy}: {said}");
            assert!(said.contains("only narrows") && said.contains("pinfold trust"), "{said}");
        }
        let listed = printed(&scene.run(&["task", "ls"]));
        assert!(listed.contains("no tasks"), "{listed}");
    }
}

#[test]
fn narrowed_host_is_refused_although_a_flag_allows_it() {
    let user = people().remove(0);
    let scene = Scene::new(user);
    let check = |policy: &str| {
        let narrow = format!("--narrow={policy}");
        scene.run(&["check", "--allow-host", "one.test", &narrow, "host", "one.test"])
    };
    let open = check("{}");
    assert!(open.status.success(), "{}", printed(&open));
    let closed = check(r#"{"network": {"hosts": ["two.test"]}}"#);
    assert!(!closed.status.success(), "{}", printed(&closed));
}

#[test]
fn task_in_a_scratch_directory_sees_no_repository_and_makes_no_branch() {
    for user in people() {
        let scene = Scene::new(user);
        let before = scene.left();
        let added = add(&scene, "workspace: scratch_mount\n", "ls -A | wc -l; touch made; ls");
        assert!(added.status.success(), "{}", printed(&added));
        let id = String::from_utf8(added.stdout).unwrap().trim().to_owned();
        let said = scene.work();
        let log = printed(&scene.run(&["task", "logs", &id]));
        assert_eq!(scene.ended(&id).0, "completed", "{said}\n{log}");
        assert!(log.contains("\n0\nmade"), "{log}");
        assert_eq!(scene.left(), before);
        for mode in ["shared_mount", "overlay"] {
            let refused = add(&scene, &format!("workspace: {mode}\n"), "true");
            let said = printed(&refused);
            assert!(!refused.status.success() && said.contains("keeps apart"), "{said}");
        }
        let refused = add(&scene, "workspace: scratch_mount\nverify: [\"true\"]\n", "true");
        assert!(!refused.status.success(), "{}", printed(&refused));
    }
}
