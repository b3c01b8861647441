//! What MoltNet's daemon keeps on the server of its runtimes: slots and sessions.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_content::{Value, read};
use pinfold_moltnet::Scope;

use crate::scene::{Client, Reply, Scene, TEAM};

const PROFILE: &str = "88888888-8888-4888-8888-888888888888";
/// The fields of a slot and of a session, in the order of the original.
const SLOT: &str = "id teamId agentName runtimeProfileId provider model slotKey taskType state lastTaskId \
     lastAttemptN sessionDir sessionPath workspaceRowId createdAtMs lastUsedAtMs expiresAtMs";
const WORKSPACE: &str =
    "id teamId workspaceId worktreePath worktreeBranch kind createdAtMs lastUsedAtMs";
const SESSION: &str = "id teamId taskId attemptN sourceSlotId sourceRuntimeProfileId sessionKind \
     parentSessionId contentType contentEncoding sizeBytes sha256 storageClass checkpointKind uploadedAt";

fn keys(value: &Value) -> String {
    let keys = value.as_object().unwrap().members().map(|(key, _)| key.escaped().to_owned());
    keys.collect::<Vec<_>>().join(" ")
}

fn slot(client: &Client, what: &str, key: &str, more: &str) -> Reply {
    let body = format!(
        r#"{{"agentName":"a","runtimeProfileId":"{PROFILE}","provider":"x","model":"y","slotKey":"{key}"{more}}}"#
    );
    client.post(&format!("/runtime-slots/{what}"), &body)
}

fn begin(client: &Client, key: &str, task: &str, more: &str) -> Reply {
    let more = format!(r#","taskType":"freeform","lastTaskId":"{task}","lastAttemptN":1{more}"#);
    slot(client, "begin", key, &more)
}

fn finish(client: &Client, key: &str, task: &str) -> Reply {
    let more = format!(r#","taskId":"{task}","attemptN":1,"sessionPath":"/d/s.jsonl""#);
    slot(client, "finish", key, &more)
}

fn latest(client: &Client, task: &str, number: u32) -> Reply {
    client.get(&format!("/runtime-slots/latest?taskId={task}&attemptN={number}"))
}

fn keep(client: &Client, task: &str, query: &str, content: &[u8]) -> Reply {
    let path = format!("/runtime-sessions/{task}/1/content?{query}");
    client.send("PUT", &path, "content-type: application/octet-stream\r\n", content)
}

#[test]
fn slot_is_found_by_its_attempt_with_its_working_tree() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    let tree = r#","sessionDir":"/d","workspaceId":"w","worktreePath":"/t","worktreeBranch":"b""#;
    let begun = begin(&agent, "k", &task, tree).ok();
    assert_eq!(keys(&begun), SLOT);
    assert_eq!(begun.text_of("state").unwrap(), "active");
    scene.pass(Duration::from_secs(60));
    let finished = finish(&agent, "k", &task).ok();
    assert_eq!(keys(&finished), SLOT);
    assert_eq!(finished.text_of("state").unwrap(), "idle");
    assert_eq!(finished.text_of("sessionPath").unwrap(), "/d/s.jsonl");
    for name in ["id", "sessionDir", "workspaceRowId", "createdAtMs"] {
        assert_eq!(finished.get(name), begun.get(name), "{name}");
    }
    let end = |slot: &Value| slot.get("expiresAtMs").and_then(Value::as_count).unwrap();
    assert!(end(&finished) >= end(&begun) + 60_000);
    let found = latest(&agent, &task, 1).ok();
    assert_eq!((keys(&found), found.get("slot")), ("slot workspace".to_owned(), Some(&finished)));
    let workspace = found.get("workspace").unwrap();
    assert_eq!(keys(workspace), WORKSPACE);
    assert_eq!(workspace.get("id"), finished.get("workspaceRowId"));
    let listed = agent.get("/runtime-slots?agentName=a&state=idle").ok();
    assert_eq!(listed.get("items").and_then(Value::as_array), Some(&[found][..]));
    let none = agent.get("/runtime-slots?state=active").ok();
    assert_eq!(none.get("items").and_then(Value::as_array), Some(&[][..]));
}

#[test]
fn slot_is_of_an_attempt_that_is_there_and_of_its_agent() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    let fields = |reply: Reply| reply.fields();
    let missing = (400, vec!["lastAttemptN".to_owned()]);
    assert_eq!(fields(begin(&agent, "k", &task, "")), missing);
    agent.begin(&task);
    let other_team = "33333333-3333-4333-8333-333333333333";
    let stranger = scene.client_of("stranger", other_team, Scope::ALL, None);
    assert_eq!(fields(begin(&stranger, "k", &task, "")), (400, vec!["lastTaskId".to_owned()]));
    assert_eq!(
        finish(&agent, "k", &task).problem(),
        (409, "Runtime slot changed before finish".to_owned())
    );
    // An id is one however it is written.
    let begun = begin(&agent, "k", &task.to_uppercase(), "").ok();
    assert_eq!(begun.text_of("lastTaskId").unwrap(), task);
    assert_eq!(latest(&agent, &task.to_uppercase(), 1).status, 200);
    finish(&agent, "k", &task).ok();
    // Another attempt has the slot by now.
    let second = agent.create("");
    agent.begin(&second);
    begin(&agent, "k", &second, "").ok();
    assert_eq!(finish(&agent, "k", &task).status, 409);
    assert_eq!(latest(&agent, &task, 1).status, 404);
    assert_eq!(latest(&agent, &second, 1).status, 200);
    // A colleague of the same team has slots of its own, whatever it calls itself.
    let colleague = scene.client("b");
    assert_eq!(latest(&colleague, &second, 1).status, 404);
    assert_eq!(finish(&colleague, "k", &second).status, 409);
    begin(&colleague, "k", &second, r#","sessionDir":"/etc""#).ok();
    let own = latest(&agent, &second, 1).ok();
    assert_eq!(own.get("slot").and_then(|slot| slot.get("sessionDir")), Some(&Value::Null));
}

#[test]
fn session_of_an_attempt_is_kept_until_its_task_goes() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    let path = format!("/runtime-sessions/{task}/1");
    agent.claim(&task).ok();
    let early = "Runtime sessions can only be uploaded after the attempt has started";
    assert_eq!(keep(&agent, &task, "sessionKind=root", b"{}").problem(), (409, early.to_owned()));
    agent.of_attempt(&task, 1, "heartbeat", "{}").ok();
    assert_eq!(agent.get(&path).status, 404);
    for (query, field) in [
        ("", "query/sessionKind"),
        ("sessionKind=fork&sessionKind=root", "query/sessionKind"),
        ("sessionKind=root&sourceSlotId=x", "query/sourceSlotId"),
    ] {
        assert_eq!(keep(&agent, &task, query, b"{}").fields(), (400, vec![field.to_owned()]));
    }
    // An attempt has one name.
    for number in ["01", "001", "+1", "1%20"] {
        let path = format!("/runtime-sessions/{task}/{number}/content?sessionKind=root");
        assert_eq!(agent.send("PUT", &path, "", b"{}").status, 404, "{number}");
        let query = format!("/runtime-slots/latest?taskId={task}&attemptN={number}");
        assert_eq!(agent.get(&query).status, 400, "{number}");
    }
    let kept = keep(&agent, &task, "sessionKind=root", b"{\"a\":1}\n").ok();
    assert_eq!(keys(&kept), SESSION);
    assert_eq!(kept.get("sizeBytes").and_then(Value::as_count), Some(8));
    // What came last counts, also after the attempt has ended.
    agent.of_attempt(&task, 1, "complete", &agent.result(&task)).ok();
    let query = format!("sessionKind=extend&parentSessionId={PROFILE}");
    let kept = keep(&agent, &task, &query, b"{\"b\":1}\n").ok();
    assert_eq!(agent.get(&path).ok(), kept);
    let got = agent.get(&format!("{path}/content"));
    assert_eq!((got.status, &got.body[..]), (200, &b"{\"b\":1}\n"[..]));
    let id = kept.text_of("id").unwrap();
    assert!(got.head.contains(&format!("x-moltnet-runtime-session-id: {id}")), "{}", got.head);
    assert!(got.head.contains("content-type: application/octet-stream"), "{}", got.head);
    let directory = scene.directory.path().join("artifacts").join(&task);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "the old one stays");
    // Its team reads it, and nobody else writes it.
    let colleague = scene.client("b");
    assert_eq!(colleague.get(&format!("{path}/content")).body, b"{\"b\":1}\n");
    assert_eq!(keep(&colleague, &task, "sessionKind=root", b"x").status, 403);
    let other_team = "33333333-3333-4333-8333-333333333333";
    let stranger = scene.client_of("stranger", other_team, Scope::ALL, None);
    for path in [path.clone(), format!("{path}/content")] {
        assert_eq!(stranger.get(&path).status, 404);
    }
    let reader = scene.client_of("reader", TEAM, &[Scope::TaskRead], None);
    assert_eq!(reader.get(&format!("{path}/content")).status, 403);
    let gone = agent.call("DELETE", "/tasks", &format!(r#"{{"ids":["{task}"]}}"#));
    assert!(read(std::str::from_utf8(&gone.body).unwrap()).is_ok());
    assert!(!directory.exists());
    assert_eq!(agent.get(&path).status, 404);
}

/// Whichever comes last, its content is there.
#[test]
fn uploads_at_once_leave_one_whole_session() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (agent, task) = (&agent, &task);
            scope.spawn(move || {
                // Two of them upload the same.
                let content = vec![b'a' + number / 2; 1 << 20];
                for _ in 0..8 {
                    keep(agent, task, "sessionKind=root", &content).ok();
                }
            });
        }
        let path = format!("/runtime-sessions/{task}/1/content");
        for _ in 0..16 {
            let got = agent.get(&path);
            assert!(got.status == 404 || got.body.len() == 1 << 20, "{}", got.status);
        }
    });
    let got = agent.get(&format!("/runtime-sessions/{task}/1/content"));
    assert_eq!((got.status, got.body.len()), (200, 1 << 20));
    let directory = scene.directory.path().join("artifacts").join(&task);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "files stay that nobody finds");
}

#[test]
fn server_that_starts_removes_what_one_before_was_killed_in_writing() {
    let directory = tempfile::tempdir().unwrap();
    let files = directory.path().join("artifacts").join(PROFILE);
    fs::create_dir_all(&files).unwrap();
    for name in ["left.new", "held.new", "session-1-x", "bafkrei.new.x"] {
        fs::write(files.join(name), "x").unwrap();
    }
    // Another server writes it at this moment.
    let held = fs::File::open(files.join("held.new")).unwrap();
    held.lock().unwrap();
    let _scene = Scene::in_directory(directory);
    let began = Instant::now();
    while files.join("left.new").exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "it stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::read_dir(&files).unwrap().count(), 3);
}
