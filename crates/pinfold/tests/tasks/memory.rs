//! Entries that agents write while they work on tasks.

use pinfold_testkit::people;
use serde_json::{Value, json};

use crate::scene::{Scene, printed};

/// Adds an entry, and tries to put another one elsewhere. The agent's prompt is one line.
const SCRIPT: &str = r#"pinfold-memory moltnet_create_entry '{"title":"t","content":"c","tags":["x"]}' && ! pinfold-memory moltnet_create_entry '{"title":"t","content":"elsewhere","diaryId":"11111111-2222-4333-8444-555555555555"}' && echo right >answer"#;

fn entries(scene: &Scene) -> Value {
    let output = scene.run(&["memory", "ls", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    listed["entries"].clone()
}

#[test]
fn entries_of_an_attempt_have_its_tags_and_what_it_made_writes_none() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("home/.config/pinfold/config.toml", "memory = \"write\"\n");
        // What the agent made runs in the verification, and must not remember as the agent.
        let check = "sh tests/check.sh && ! command -v pinfold-memory";
        let id = scene.add(SCRIPT, &["--verify", check]);
        let said = scene.work();
        let log = printed(&scene.run(&["task", "logs", &id]));
        assert_eq!(scene.ended(&id).0, "completed", "{said}\n{log}");
        let entries = entries(&scene);
        assert_eq!(entries.as_array().unwrap().len(), 1, "{entries:#}\n{log}");
        let tags = json!([format!("task:id:{id}"), "task:attempt:1", "x"]);
        assert_eq!(entries[0]["tags"], tags);
    }
}

#[test]
fn task_whose_policy_takes_the_diary_away_remembers_nothing() {
    let scene = Scene::new(people()[0]);
    scene.stage.write("home/.config/pinfold/config.toml", "memory = \"write\"\n");
    let front = "agent: script\npolicy:\n  memory: none\n";
    let script = "command -v pinfold-memory || echo right >answer";
    scene.stage.write("task.md", format!("---\n{front}---\n{script}\n"));
    let file = scene.stage.path("task.md");
    let added = scene.run(&["task", "add", file.to_str().unwrap()]);
    assert!(added.status.success(), "{}", printed(&added));
    let id = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    let said = scene.work();
    assert_eq!(scene.ended(&id).0, "completed", "{said}");
    let branch = format!("task/{}", &id[..8]);
    assert_eq!(scene.git(&["show", &format!("{branch}:answer")]), "right");
    assert_eq!(entries(&scene), json!([]));
}

/// Asks about the task, keeps a file with it, and gets it back. It may neither overwrite a file nor ask about another task.
pub(crate) const TOOLS: &str = concat!(
    "m=pinfold-memory; $m moltnet_get_task | grep -q '\"status\": \"running\"' && ",
    "$m moltnet_list_task_attempts | grep -q '\"attemptN\": 1' && ",
    // A worker sends messages to a server in batches.
    "n=0 && { until $m moltnet_list_task_messages '{\"attemptN\":1}' | grep -q 'the agent works'; do \
        n=$((n+1)); [ $n -lt 50 ] || exit 1; sleep 0.1; done; } && ",
    "! $m moltnet_get_task '{\"taskId\":\"11111111-2222-4333-8444-555555555555\"}' && ",
    "printf 'hello\\n' >/tmp/own && ",
    "$m moltnet_upload_task_artifact '{\"filePath\":\"/tmp/own\",\"kind\":\"log\",\"title\":\"What was said\"}' && ",
    "$m moltnet_list_task_artifacts | grep -q bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am && ",
    "d='{\"cid\":\"bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am\",\"outputPath\":\"/tmp/back\"}' && ",
    "$m moltnet_download_task_artifact \"$d\" && cmp /tmp/own /tmp/back && ",
    "! $m moltnet_download_task_artifact \"$d\" && ",
    "! $m moltnet_upload_task_artifact '{\"filePath\":\"/etc/shadow\",\"kind\":\"k\",\"title\":\"t\"}' && ",
    "echo right >answer",
);

#[test]
fn agent_reads_its_task_and_keeps_files_with_it() {
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("home/.config/pinfold/config.toml", "memory = \"write\"\n");
        let id = scene.add(TOOLS, &["--verify", "sh tests/check.sh"]);
        let said = scene.work();
        let log = printed(&scene.run(&["task", "logs", &id]));
        assert_eq!(scene.ended(&id).0, "completed", "{said}\n{log}");
        let shown = printed(&scene.run(&["task", "show", &id]));
        let artifact =
            "artifact:   What was said (log, 6 bytes, attempt 1)\n            bafkreicysg23k";
        assert!(shown.contains(artifact), "{shown}");
        let shown: Value =
            serde_json::from_slice(&scene.run(&["task", "show", "--json", &id]).stdout).unwrap();
        assert_eq!(shown["artifacts"][0]["sizeBytes"], 6);
        let content = scene.run(&["task", "artifact", &id]);
        assert_eq!(printed(&content), "hello\n");
        let file = scene.stage.path("ws/saved");
        let save = ["task", "artifact", &id, "What was said", "--output", file.to_str().unwrap()];
        assert!(scene.run(&save).status.success());
        std::fs::write(&file, "mine").unwrap();
        let refused = scene.run(&save);
        assert!(!refused.status.success() && printed(&refused).contains("--force"), "{refused:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
        assert!(scene.run(&[&save[..], &["--force"]].concat()).status.success());
        assert_eq!(std::fs::read(&file).unwrap(), b"hello\n");
        let audit = printed(&scene.run(&["audit", "--json"]));
        assert!(audit.contains("moltnet_upload_task_artifact"), "{audit}");
        let sockets = scene.stage.path("home/.local/state/pinfold/tasks/sockets");
        assert_eq!(std::fs::read_dir(sockets).unwrap().count(), 0);
    }
}

#[test]
fn agent_that_may_only_read_keeps_no_file_with_its_task() {
    let scene = Scene::new(people()[0]);
    scene.stage.write("home/.config/pinfold/config.toml", "memory = \"read\"\n");
    let script = concat!(
        "pinfold-memory moltnet_get_task && ",
        "! pinfold-memory moltnet_upload_task_artifact '{\"filePath\":\"answer\",\"kind\":\"k\",\"title\":\"t\"}' && ",
        "! pinfold-memory moltnet_host_exec '{\"executable\":\"git\",\"args\":[]}' && ",
        "echo right >answer",
    );
    let id = scene.add(script, &["--verify", "sh tests/check.sh"]);
    let said = scene.work();
    let log = printed(&scene.run(&["task", "logs", &id]));
    assert_eq!(scene.ended(&id).0, "completed", "{said}\n{log}");
    assert!(log.contains("Forbidden"), "{log}");
    assert!(log.contains("commands on the host are off in this session"), "{log}");
}
