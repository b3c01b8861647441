//! Tasks of groups.

use std::fs;

use pinfold_testkit::people;

use crate::scene::{Scene, printed};

const SETTINGS: &str = r#"
[group_home]
root = "~/assistant"
[groups.dev]
repo_access = "~/project"
"#;

/// A scene with a group, whose project is this checkout.
fn scene(user: pinfold_testkit::User) -> Scene {
    let scene = Scene::new(user);
    let settings = SETTINGS.replace("~/project", scene.repository().to_str().unwrap());
    scene.stage.write("home/.config/pinfold/config.toml", settings);
    scene.stage.write("home/assistant/groups/dev/mark", "of the group\n");
    scene
}

#[test]
fn agent_of_a_task_works_with_its_groups_directories_one_task_at_a_time() {
    for user in people() {
        let scene = scene(user);
        let script =
            "cp /workspace/group/mark answer; [ ! -e /workspace/group/busy ] || echo two >answer
             touch /workspace/group/busy; sleep 1; rm /workspace/group/busy
             echo one more >>/home/agent/.claude/kept; cp /home/agent/.claude/kept kept";
        let verify = "grep -q group answer && [ ! -e /workspace/group ]";
        let ids = [(); 2].map(|()| scene.add(script, &["--group", "dev", "--verify", verify]));
        let said = printed(&scene.run(&["work", "--jobs", "2"]));
        for id in &ids {
            assert_eq!(scene.ended(id).0, "completed", "{said}");
            let answer = scene.git(&["show", &format!("task/{}:answer", &id[..8])]);
            assert_eq!(answer, "of the group", "{said}");
        }
        // The agent's state of the group is there for the next one.
        let kept = scene.git(&["show", &format!("task/{}:kept", &ids[1][..8])]);
        assert_eq!(kept, "one more\none more");
        let shown = printed(&scene.run(&["task", "show", &ids[0]]));
        assert!(shown.contains("group:      dev"), "{shown}");
    }
}

#[test]
fn groups_project_moves_no_branch_of_the_tasks_repository() {
    for user in people() {
        let scene = scene(user);
        let script = "cd /workspace/project && echo evil >tests/check.sh && git commit -qam evil
             git branch evil; cd - && echo wrong >answer";
        let options = ["--group", "dev", "--verify", "sh tests/check.sh", "--restore", "tests"];
        let main = scene.git(&["rev-parse", "main"]);
        let id = scene.add(script, &[&options[..], &["--iterations", "1"]].concat());
        let said = scene.work();
        assert_eq!(scene.ended(&id).1, "verification_failed", "{said}");
        assert_eq!(scene.git(&["rev-parse", "main"]), main);
        assert_eq!(scene.left().0.len(), 2, "{:?}", scene.left());
    }
}

#[test]
fn group_of_a_task_is_a_name_and_no_option() {
    for user in people() {
        let scene = scene(user);
        for name in ["-x", "../main", "a b", ""] {
            let given = ["task", "add", "--agent", "script", "--brief", "x"];
            let group = format!("--group={name}");
            let output = scene.run(&[&given[..], &[&group]].concat());
            let said = printed(&output);
            assert!(!output.status.success() && said.contains("group"), "{name}: {said}");
        }
        assert!(!fs::exists(scene.stage.path("home/assistant/groups/main")).unwrap());
    }
}
