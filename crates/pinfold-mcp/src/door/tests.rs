use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use pinfold_content::SystemClock;
use pinfold_host::audit::{Audit, Reader};
use pinfold_host::session_id::SessionId;
use pinfold_memory::{Diary, KnownSecrets, MemoryTools, Rules};
use pinfold_policy::settings::MemoryGrant;
use pinfold_secrets::Secret;
use serde_json::{Value, json};

use super::{BOUNDS, MOST, MemoryDoor};
use crate::memory::Memory;

/// A door in a directory, as a sandbox sees it.
struct Scene {
    directory: tempfile::TempDir,
    _door: MemoryDoor,
}

impl Scene {
    fn new(grant: MemoryGrant) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let diary = Diary::open_file(&at.join("diary.db"), None, Box::new(SystemClock)).unwrap();
        let secrets = || {
            let secret = Secret::from_bytes(b"a-real-secret-value".to_vec()).unwrap();
            Ok(KnownSecrets::default().with("placeholder in TOKEN".to_owned(), secret))
        };
        let tools = MemoryTools::new(diary, Rules::new(grant, secrets).unwrap());
        let audit = Audit::open(&at.join("state"), Some(SessionId::generate().unwrap())).unwrap();
        let listener = UnixListener::bind(at.join("socket")).unwrap();
        let memory = Memory::new(Arc::new(tools), Arc::new(audit));
        let door = MemoryDoor::serve(listener.into(), vec![Arc::new(memory)]).unwrap();
        Self { directory, _door: door }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("socket")).unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> (bool, String) {
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        });
        let answer = say(&mut self.connect(), &message.to_string()).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        (answer["result"]["isError"] == false, format!("{text}{}", answer["error"]["message"]))
    }
}

/// Says a line, and returns the line that comes back; none if the door parts.
fn say(stream: &mut UnixStream, line: &str) -> Option<String> {
    stream.write_all(line.as_bytes()).ok()?;
    stream.write_all(b"\n").ok()?;
    let mut answer = String::new();
    let count = BufReader::new(stream).read_line(&mut answer).ok()?;
    (count > 0).then_some(answer)
}

fn records(state: &Path) -> Vec<Value> {
    let mut reader = Reader::open(state).unwrap().unwrap();
    std::iter::from_fn(|| reader.next_record().unwrap()).collect()
}

#[test]
fn calls_are_answered_and_recorded() {
    let scene = Scene::new(MemoryGrant::Write);
    let (is_done, text) =
        scene.call("moltnet_create_entry", json!({ "title": "t", "content": "the disk was full" }));
    assert!(is_done, "{text}");
    let (is_done, found) = scene.call("moltnet_search_entries", json!({ "query": "disks" }));
    assert!(is_done && found.contains("disk was full"), "{found}");
    let tools: Vec<_> = records(&scene.directory.path().join("state"))
        .iter()
        .map(|record| record["tool"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(tools, ["moltnet_create_entry", "moltnet_search_entries"]);
}

#[test]
fn sandbox_that_may_read_cannot_write_or_choose_a_diary() {
    let scene = Scene::new(MemoryGrant::Read);
    let (is_done, text) =
        scene.call("moltnet_create_entry", json!({ "title": "t", "content": "c" }));
    assert!(!is_done && text.contains("Forbidden"), "{text}");
    let (is_done, _) = scene.call("moltnet_list_entries", json!({}));
    assert!(is_done);
    let (is_done, text) = scene.call("bash", json!({ "command": "id" }));
    assert!(!is_done && text.contains("no tool bash"), "{text}");
    let scene = Scene::new(MemoryGrant::Write);
    let other = "11111111-2222-4333-8444-555555555555";
    let arguments = json!({ "title": "t", "content": "c", "diaryId": other });
    let (is_done, text) = scene.call("moltnet_create_entry", arguments);
    assert!(!is_done && text.contains("Not Found"), "{text}");
}

#[test]
fn entry_with_a_placeholder_is_refused() {
    let scene = Scene::new(MemoryGrant::Write);
    let arguments = json!({ "title": "t", "content": "it is a-real-secret-value!" });
    let (is_done, text) = scene.call("moltnet_create_entry", arguments);
    assert!(!is_done && text.contains("placeholder in TOKEN"), "{text}");
    assert!(!text.contains("a-real-secret-value"));
}

#[test]
fn nonsense_ends_a_client_at_most() {
    let scene = Scene::new(MemoryGrant::Write);
    let long = "x".repeat(BOUNDS.longest + 1);
    assert_eq!(say(&mut scene.connect(), &long), None, "it is parted with");
    let deep = "[".repeat(100_000);
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"moltnet_pack_create","arguments":{{"params":{}"#,
        "[".repeat(50_000)
    );
    for line in [&*deep, &nested, "{}", "null", "\u{0}", r#"{"jsonrpc":"2.0","id":{},"method":7}"#]
    {
        // An error, or no answer, and the door goes on.
        let _ = say(&mut scene.connect(), line);
    }
    drop(scene.connect());
    let mut half = scene.connect();
    half.write_all(br#"{"jsonrpc":"2.0","#).unwrap();
    assert!(scene.call("moltnet_diary_tags", json!({})).0);
}

#[test]
fn clients_beyond_the_bound_are_parted_with_and_the_door_goes_on() {
    let scene = Scene::new(MemoryGrant::Read);
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut all: Vec<UnixStream> = (0..MOST).map(|_| scene.connect()).collect();
    assert!(all.iter_mut().all(|one| say(one, line).is_some()));
    assert_eq!(say(&mut scene.connect(), line), None);
    drop(all);
    let answered = || {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            say(&mut scene.connect(), line).is_some()
        })
    };
    assert!(answered());
}

#[test]
fn door_ends_although_clients_stay_and_read_nothing() {
    let scene = Scene::new(MemoryGrant::Read);
    let mut silent = scene.connect();
    let mut idle = scene.connect();
    silent.set_nonblocking(true).unwrap();
    let line = format!("{}\n", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    while silent.write_all(line.as_bytes()).is_ok() {}
    drop(scene);
    // One that was not accepted yet is reset.
    let ended = std::io::Read::read(&mut idle, &mut [0; 1]).unwrap_or_default();
    assert_eq!(ended, 0);
}

/// Returns how many threads of this process have a name that begins so.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.starts_with(name)).count()
}

#[test]
fn client_that_calls_and_reads_nothing_gets_no_more_calls_than_any_other() {
    let scene = Scene::new(MemoryGrant::Write);
    let entry = json!({ "title": "t", "content": "word ".repeat(19_000) });
    let (is_done, made) = scene.call("moltnet_create_entry", entry);
    assert!(is_done, "{made}");
    let made: Value = serde_json::from_str(made.trim_end_matches("null")).unwrap();
    let mut greedy = scene.connect();
    greedy.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let mut most = 0;
    // One after the other, so that none is refused for being one too many. A few answers are longer than a socket holds.
    for id in 0..40 {
        let message = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "moltnet_get_entry", "arguments": { "entryId": made["id"] } },
        });
        if writeln!(greedy, "{message}").is_err() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        most = most.max(threads("moltnet_get_ent"));
    }
    assert!((1..=BOUNDS.at_once).contains(&most), "{most} calls at once");
    assert!(scene.call("moltnet_diary_tags", json!({})).0, "others are answered");
}

#[test]
fn no_call_is_made_after_the_door_has_ended() {
    for _ in 0..20 {
        let scene = Scene::new(MemoryGrant::Write);
        let mut clients: Vec<UnixStream> = (0..8).map(|_| scene.connect()).collect();
        for client in &mut clients {
            for id in 0..2 {
                let message = json!({
                    "jsonrpc": "2.0", "id": id, "method": "tools/call",
                    "params": { "name": "moltnet_create_entry", "arguments": { "title": "t", "content": "late" } },
                });
                writeln!(client, "{message}").unwrap();
            }
        }
        let Scene { directory, _door: door } = scene;
        drop(door);
        let count = || {
            Reader::open(&directory.path().join("state"))
                .unwrap()
                .map_or(0, |mut log| std::iter::from_fn(|| log.next_record().unwrap()).count())
        };
        let before = count();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(count(), before, "records after the end");
    }
}
