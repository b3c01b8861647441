//! Tasks of groups.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

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

const TEMPLATE: &str = "---\nagent: script\nverify: [\"sh tests/check.sh\"]\npriority: 5\n---\n: a comment of the user\n";

/// Writes what an agent of the group asks for.
fn ask(scene: &Scene, name: &str, request: &str) {
    scene.stage.write(&format!("home/assistant/data/ipc/dev/tasks/{name}"), request);
}

fn take(scene: &Scene, more: &[&str]) -> (bool, String) {
    scene.stage.write("ws/template.md", TEMPLATE);
    let output = scene.run(&[&["task", "take", "--group", "dev", "../template.md"], more].concat());
    (output.status.success(), printed(&output))
}

#[test]
fn agent_of_a_group_asks_for_tasks_that_are_the_users_in_all_but_the_brief() {
    for user in people() {
        let scene = scene(user);
        assert_eq!(take(&scene, &[]), (true, String::new()));
        let script = r#"mkdir -p /workspace/ipc/tasks; cd /workspace/ipc/tasks
             echo '{"title": "Right it", "brief": "echo right >answer", "priority": 900}' >.1 && mv .1 1.json
             echo '{"brief": "x", "agent": "claude"}' >2.json
             ln -s /etc/passwd 4.json; cd - && echo right >answer"#;
        let first = scene.add(script, &["--group", "dev", "--verify", "sh tests/check.sh"]);
        let said = scene.work();
        assert_eq!(scene.ended(&first).0, "completed", "{said}");
        // Front matter in a brief is text.
        ask(&scene, "3.json", r#"{"brief": "---\nagent: claude\n---\ntrue"}"#);
        let (ok, said) = take(&scene, &[]);
        assert!(ok && said.contains("asked for by 1.json: Right it"), "{said}");
        assert!(said.contains("2.json is no request: unknown field `agent`"), "{said}");
        assert!(said.contains("4.json is no request: the file is a symbolic link"), "{said}");
        let ids: Vec<&str> = said.lines().filter(|line| line.len() == 36).collect();
        assert_eq!(ids.len(), 2, "{said}");
        for id in &ids {
            let asks = scene.show(id)["asks"]["task"].clone();
            assert_eq!(
                (asks["agent"].as_str(), asks["group"].as_str()),
                (Some("script"), Some("dev"))
            );
            assert!(asks["priority"].as_u64() <= Some(5), "{asks}");
        }
        // The same again, as after a kill before it was removed, adds nothing.
        let request =
            "{\"title\": \"Right it\", \"brief\": \"echo right >answer\", \"priority\": 900}\n";
        ask(&scene, "1.json", request);
        assert_eq!(take(&scene, &[]), (true, String::new()));
        let errors = scene.stage.path("home/assistant/data/ipc/dev/errors");
        assert!(fs::exists(errors.join("2.json.reason")).unwrap());
        let said = scene.work();
        assert_eq!(scene.ended(ids[0]).0, "completed", "{said}");
    }
}

#[test]
fn requests_beyond_the_most_wait() {
    for user in people() {
        let scene = scene(user);
        for number in 0..5 {
            ask(&scene, &format!("{number}.json"), "{\"brief\": \"echo right >answer\"}");
        }
        let taken = |more: &[&str]| {
            let (ok, said) = take(&scene, more);
            assert!(ok, "{said}");
            said.lines().filter(|line| line.len() == 36).count()
        };
        assert_eq!((taken(&["--most", "2"]), taken(&["--most", "2"])), (2, 0));
        assert_eq!(taken(&["--most", "3"]), 1);
        scene.work();
        assert_eq!(taken(&[]), 2);
        let left = scene.stage.path("home/assistant/data/ipc/dev/tasks");
        assert_eq!(fs::read_dir(left).unwrap().count(), 0);
        let output = scene.run(&["task", "take", "--group", "../x", "../template.md"]);
        assert!(!output.status.success(), "{}", printed(&output));
    }
}

/// A directory is not removed as a file is, and nothing can be moved to a file `errors`.
#[test]
fn sandbox_that_spoils_its_directory_does_not_end_the_intake() {
    for user in people() {
        let scene = scene(user);
        ask(&scene, "1.json/in/it", "x");
        ask(&scene, "2.json", "{\"brief\": \"echo right >answer\"}");
        scene.stage.write("home/assistant/data/ipc/dev/errors", "no directory");
        let (ok, said) = take(&scene, &[]);
        assert!(!ok && said.contains("cannot remove") && said.contains("1.json"), "{said}");
        assert_eq!(said.lines().filter(|line| line.len() == 36).count(), 1, "{said}");
        fs::remove_dir_all(scene.stage.path("home/assistant/data/ipc/dev/tasks")).unwrap();
        scene.stage.write("home/assistant/data/ipc/dev/tasks", "no directory");
        let (ok, said) = take(&scene, &[]);
        assert!(!ok && said.contains("cannot list"), "{said}");
    }
}

#[test]
fn schedules_are_as_many_as_the_user_lets_and_add_each_time_once() {
    for user in people() {
        let scene = scene(user);
        let tasks = scene.stage.path("home/assistant/data/ipc/dev/tasks");
        let errors = scene.stage.path("home/assistant/data/ipc/dev/errors");
        let ask_at = |name: &str, kind: &str, value: &str| {
            let request = format!(
                r#"{{"type": "schedule_task", "prompt": "echo right >answer", "schedule_type": "{kind}", "schedule_value": "{value}"}}"#
            );
            ask(&scene, name, &request);
        };
        let taken = |more: &[&str]| {
            let (ok, said) = take(&scene, more);
            assert!(ok, "{said}");
            said.lines().filter(|line| line.len() == 36).count()
        };
        // Without the user's word, no schedule is taken.
        ask_at("1.json", "once", "2020-01-01T00:00:00Z");
        assert_eq!(taken(&[]), 0);
        let reason = fs::read_to_string(errors.join("1.json.reason")).unwrap();
        assert!(reason.contains("may have 0 schedules"), "{reason}");
        // What is over when it comes is done at once, and only once.
        ask_at("2.json", "once", "2020-01-01T00:00:00Z");
        ask_at("3.json", "once", "2999-01-01T00:00:00Z");
        ask_at("4.json", "interval", "60000");
        ask_at("5.json", "cron", "* * * * *");
        assert_eq!(taken(&["--schedules", "4"]), 1);
        let mut left: Vec<_> =
            fs::read_dir(&tasks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["3.json", "4.json", "5.json"]);
        // They do not hide a request, nor take its place.
        ask(&scene, "9.json", "{\"brief\": \"echo right >answer\"}");
        assert_eq!(taken(&["--schedules", "3", "--most", "2"]), 1);
        // More than are allowed are set aside, by name.
        assert_eq!(taken(&["--schedules", "2"]), 0);
        assert!(fs::exists(errors.join("5.json")).unwrap());
    }
}

#[test]
fn schedule_is_due_again_after_its_time_and_no_time_twice() {
    let Some(user) = people().pop() else { return };
    let scene = scene(user);
    let request = r#"{"type": "schedule_task", "prompt": "true", "schedule_type": "cron", "schedule_value": "* * * * *"}"#;
    ask(&scene, "1.json", request);
    let began = std::time::Instant::now();
    let mut ids = Vec::new();
    // The next minute begins within one.
    while ids.is_empty() && began.elapsed().as_secs() < 70 {
        let (ok, said) = take(&scene, &["--schedules", "1"]);
        assert!(ok, "{said}");
        ids.extend(said.lines().filter(|line| line.len() == 36).map(str::to_owned));
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    assert_eq!(ids.len(), 1);
    // Another process finds the same time, and adds nothing.
    let (_, said) = take(&scene, &["--schedules", "1"]);
    assert!(!said.contains(&ids[0]), "{said}");
}

#[test]
fn groups_of_the_settings_are_added_shown_and_removed() {
    let Some(user) = people().pop() else { return };
    let scene = Scene::new(user);
    let good = |args: &[&str]| {
        let output = scene.run(&[&["task", "group"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", printed(&output));
        printed(&output)
    };
    let refused = |args: &[&str]| {
        let output = scene.run(&[&["task", "group"], args].concat());
        assert!(!output.status.success(), "{args:?}: {}", printed(&output));
        printed(&output)
    };
    assert!(good(&["ls"]).contains("no groups"));
    let mine = format!(
        "# mine\nagent = \"script\"\n[group_home]\nroot = \"{}\"\n",
        scene.stage.path("home/assistant").display()
    );
    // A user may keep settings elsewhere.
    let kept = scene.stage.write("home/dotfiles/config.toml", &mine);
    let config = scene.stage.path("home/.config/pinfold/config.toml");
    let _ = std::fs::remove_file(&config);
    // A link to nothing, as to a disk that is not there, is not replaced.
    std::os::unix::fs::symlink("/nonexistent/config.toml", &config).unwrap();
    assert!(refused(&["add", "dev"]).contains("cannot read"));
    assert!(config.is_symlink() && !config.exists());
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink(&kept, &config).unwrap();
    good(&["add", "dev", "--concurrency", "3", "--trust", "admin", "--timeout", "10m"]);
    let text = std::fs::read_to_string(&kept).unwrap();
    assert!(text.starts_with(&mine) && std::fs::read_link(&config).is_ok(), "{text}");
    let listed = good(&["ls"]);
    assert!(listed.contains("dev") && listed.contains("admin"), "{listed}");
    let shown: serde_json::Value = serde_json::from_str(&good(&["show", "--json", "dev"])).unwrap();
    let expected = serde_json::json!({ "concurrency": 3, "timeout": "10m", "trust": "admin" });
    assert_eq!(shown["settings"], expected);
    // What is refused changes nothing.
    let before = std::fs::read(&kept).unwrap();
    assert!(refused(&["add", "dev"]).contains("there is a group dev already"));
    assert!(refused(&["add", "../x"]).contains("not a valid name"));
    assert!(refused(&["add", "other", "--folder", "dev"]).contains("dev"));
    assert!(refused(&["add", "other", "--folder", "../x"]).contains("folder"));
    assert!(refused(&["rm", "none"]).contains("there is no group none"));
    assert!(refused(&["show", "none"]).contains("there is no group none"));
    // What root put there stays root's.
    let uid = std::fs::metadata(&kept).unwrap().uid();
    std::os::unix::fs::chown(&kept, Some(0), None).unwrap();
    assert!(refused(&["add", "other"]).contains("another user's"));
    std::os::unix::fs::chown(&kept, Some(uid), None).unwrap();
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    let next = kept.with_extension("toml.next");
    std::fs::write(&next, "").unwrap();
    assert!(refused(&["add", "other"]).contains("another edit is at work"));
    std::fs::remove_file(&next).unwrap();
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    good(&["rm", "dev"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap().trim_end(), mine.trim_end());
    assert!(!next.exists());
}
