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
