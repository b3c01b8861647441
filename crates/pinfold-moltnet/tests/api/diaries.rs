//! The API of a diary: requests of the original tools, and hostile ones.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pinfold_content::{SystemClock, Uuid, Value};
use pinfold_memory::{Diary, KnownSecrets, MemoryTools, Rules, Signer};
use pinfold_moltnet::{Agents, DiaryConfig, NewAgent, PublicKey, Scope, Server};
use pinfold_policy::settings::MemoryGrant;
use pinfold_secrets::Secret;
use tempfile::TempDir;

use crate::replay::Recorded;
use crate::scene::{Client, DIARY, TEAM, raw};

pub(crate) struct Scene {
    _directory: TempDir,
    pub(crate) address: SocketAddr,
    agents: Agents,
    /// Whether requests can be recorded.
    is_recorded: Arc<AtomicBool>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::signed(None)
    }

    fn signed(signer: Option<Signer>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("diary.db");
        let id = Some(DIARY.parse::<Uuid>().unwrap());
        let diary = Diary::open_file(&path, id, Box::new(SystemClock)).unwrap().signed_by(signer);
        let secrets = || {
            let secret = Secret::from_bytes(b"a-real-secret-value".to_vec()).unwrap();
            Ok(KnownSecrets::default().with("builder".to_owned(), secret))
        };
        let agents = Agents::new(directory.path().join("agents.json"));
        let is_recorded = Arc::new(AtomicBool::new(true));
        let recorded = Arc::clone(&is_recorded);
        let config = DiaryConfig {
            tools: MemoryTools::new(diary, Rules::new(MemoryGrant::Write, secrets).unwrap()),
            name: "default".to_owned(),
            agents: agents.clone(),
            record: Box::new(move |_| {
                recorded
                    .load(Ordering::SeqCst)
                    .then_some(())
                    .ok_or(io::ErrorKind::StorageFull.into())
            }),
            tls: None,
        };
        let server = Server::bind_diary("127.0.0.1:0".parse().unwrap(), config).unwrap();
        let address = server.address().unwrap();
        std::thread::spawn(move || server.run());
        Self { _directory: directory, address, agents, is_recorded }
    }

    pub(crate) fn client(&self, name: &str, scopes: &[Scope]) -> Client {
        self.client_with_key(name, scopes, None)
    }

    pub(crate) fn client_with_key(
        &self,
        name: &str,
        scopes: &[Scope],
        public_key: Option<PublicKey>,
    ) -> Client {
        let team = Some(TEAM.parse().unwrap());
        let new = NewAgent { name: name.to_owned(), team, scopes: scopes.to_vec(), public_key };
        let (agent, key) = self.agents.add(&new).unwrap();
        Client { address: self.address, key: key.to_string(), agent }
    }
}

fn entries() -> String {
    format!("/diaries/{DIARY}/entries")
}

fn id(value: &Value) -> String {
    value.text_of("id").or_else(|| value.text_of("packId")).unwrap().into_owned()
}

#[test]
fn requests_of_the_original_tools_are_answered_as_recorded() {
    let scene = Scene::new();
    let client = scene.client("a", Scope::ALL);
    // What the recording's server made up is real here: an entry, a pack of it, and its rendering.
    let entry = id(&client.post(&entries(), r#"{"content":"q is here"}"#).ok());
    let pack = format!(r#"{{"packType":"custom","entries":[{{"entryId":"{entry}","rank":1}}]}}"#);
    let pack = id(&client.post(&format!("/diaries/{DIARY}/packs"), &pack).ok());
    let render = format!("/packs/{pack}/render");
    let rendered = id(&client.post(&render, r#"{"renderMethod":"server:pack-to-docs-v1"}"#).ok());
    let adapt = |text: &str| {
        text.replace("66666666-6666-4666-8666-666666666666", &entry)
            .replace("/packs/55555555-5555-4555-8555-555555555555", &format!("/packs/{pack}"))
            .replace("77777777-7777-4777-8777-777777777777", &rendered)
    };
    let recording = include_str!("../traces/tools.txt");
    let mut count = 0;
    for line in recording.lines().filter(|line| !line.contains("/oauth2/token")) {
        let recorded = Recorded::read(line);
        // The recording's server made these up: the limit of requests, and an entry that it did not like.
        let expected = match recorded.status {
            429 => 200,
            400 if recorded.body.contains("bad") => 201,
            status => status,
        };
        let (path, body) = (adapt(recorded.path), adapt(recorded.body));
        let reply = if body.is_empty() {
            client.send(recorded.method, &path, "accept: */*\r\n", b"")
        } else {
            client.call(recorded.method, &path, &body)
        };
        assert_eq!(reply.status, expected, "{line:.300}\n{}", reply.json());
        count += 1;
    }
    assert_eq!(count, 18);
}

#[test]
fn entries_are_created_listed_searched_and_removed() {
    let scene = Scene::new();
    let client = scene.client("a", Scope::ALL);
    let body = r#"{"title":"Disk","content":"The disk was full.","tags":["a","b"],"importance":8,
        "entryType":"episodic","createdAt":"1999-01-01T00:00:00Z","unknown":1}"#;
    let reply = client.post(&entries(), body);
    assert_eq!(reply.status, 201);
    let entry = reply.ok();
    assert!(!entry.text_of("createdAt").unwrap().starts_with("1999"), "{entry}");
    assert_eq!(entry.text_of("diaryId").unwrap(), DIARY);
    assert!(entry.text_of("contentHash").unwrap().starts_with("bafk"));
    let all: Vec<String> = (0..30)
        .map(|number| id(&client.post(&entries(), &format!(r#"{{"content":"n{number}"}}"#)).ok()))
        .collect();
    let list = client.get(&entries()).ok();
    assert_eq!(list.get("items").and_then(Value::as_array).unwrap().len(), 20);
    assert_eq!(list.get("total").and_then(Value::as_count), Some(31));
    // The original cuts these at 20.
    let ids: Vec<String> = all.iter().map(|id| format!("ids={id}")).collect();
    let list = client.get(&format!("{}?{}&orderBy=createdAt", entries(), ids.join("&"))).ok();
    assert_eq!(list.get("items").and_then(Value::as_array).unwrap().len(), 30);
    let list =
        client.get(&format!("{}?tags=a&tags=b&excludeTags=c&entryType=episodic", entries())).ok();
    assert_eq!(list.get("total").and_then(Value::as_count), Some(1));
    let found = client.post("/diaries/search", r#"{"query":"disks","wImportance":0.5}"#).ok();
    assert_eq!(found.get("results").and_then(Value::as_array).unwrap().len(), 1);
    let none = client.post("/diaries/search", r#"{"query":"nothing"}"#).ok();
    assert_eq!(none.get("total").and_then(Value::as_count), Some(0));
    let tags = client.get(&format!("/diaries/{DIARY}/tags?prefix=a&minCount=1")).ok();
    assert_eq!(tags.get("total").and_then(Value::as_count), Some(1));
    let path = format!("/entries/{}", id(&entry));
    assert_eq!(client.get(&path).ok().text_of("title").unwrap(), "Disk");
    client.call("DELETE", &path, "").ok();
    assert_eq!(client.get(&path).problem(), (404, "Diary entry not found".to_owned()));
    let diaries = client.get("/diaries").ok();
    assert_eq!(id(&diaries.get("items").and_then(Value::as_array).unwrap()[0]), DIARY);
}

#[test]
fn faults_are_named_by_field_as_the_original_names_them() {
    let scene = Scene::new();
    let client = scene.client("a", Scope::ALL);
    let long = format!(r#"{{"content":"{}"}}"#, "x".repeat(100_001));
    for (body, field) in [
        (r#"{"content":""}"#, "/content"),
        (r#"{}"#, "/content"),
        (r#"{"content":7}"#, "/content"),
        (&*long, "/content"),
        (r#"{"content":"x","importance":11}"#, "/importance"),
        (r#"{"content":"x","entryType":"secret"}"#, "/entryType"),
        (r#"{"content":"x","tags":[1]}"#, "/tags"),
        (r#"{"content":"x","contentHash":"bafkx"}"#, "/contentHash"),
        (r#"{"content":"x","signingRequestId":"y"}"#, "/signingRequestId"),
        ("[]", "/"),
        ("{", "/"),
    ] {
        assert_eq!(
            client.post(&entries(), body).fields(),
            (400, vec![field.to_owned()]),
            "{body:.80}"
        );
    }
    for (path, field) in [
        (format!("{}?limit=0", entries()), "query/limit"),
        (format!("{}?limit=101", entries()), "query/limit"),
        (format!("{}?ids=x", entries()), "query/ids"),
        (format!("{}?entryType=x", entries()), "query/entryType"),
        ("/diaries/x/entries".to_owned(), "/id"),
        ("/entries/%2e%2e".to_owned(), "/id"),
    ] {
        assert_eq!(client.get(&path).fields(), (400, vec![field.to_owned()]), "{path}");
    }
    for body in [r#"{"wRecency":2}"#, r#"{"limit":0}"#, r#"{"limit":"x"}"#, r#"{"tags":"a"}"#] {
        assert_eq!(client.post("/diaries/search", body).status, 400, "{body}");
    }
    let other = "/diaries/33333333-3333-4333-8333-333333333333/entries";
    assert_eq!(client.get(other).problem(), (404, "Diary not found or access denied".to_owned()));
}

#[test]
fn scope_decides_what_an_agent_may_do() {
    let scene = Scene::new();
    let reader = scene.client("reader", &[Scope::DiaryRead, Scope::PackRead]);
    let writer = scene.client("writer", Scope::OF_A_DIARY);
    let worker = scene.client("worker", Scope::OF_A_WORKER);
    let body = r#"{"content":"x"}"#;
    let problem = (403, "Missing scope: diary:write".to_owned());
    assert_eq!(reader.post(&entries(), body).problem(), problem);
    let entry = id(&writer.post(&entries(), body).ok());
    reader.get(&format!("/entries/{entry}")).ok();
    assert_eq!(writer.call("DELETE", &format!("/entries/{entry}"), "").status, 403);
    assert_eq!(worker.get(&entries()).problem(), (403, "Missing scope: diary:read".to_owned()));
    let stranger = Client { key: "moltnet_x".to_owned(), ..reader };
    assert_eq!(stranger.get(&entries()).problem().0, 401);
    let none = raw(scene.address, b"GET /diaries HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(none.problem().0, 401);
}

#[test]
fn secrets_and_requests_that_cannot_be_recorded_are_refused() {
    let scene = Scene::new();
    let client = scene.client("a", Scope::ALL);
    let reply = client.post(&entries(), r#"{"content":"it is a-real-secret-value"}"#);
    let (status, detail) = reply.problem();
    assert!(status == 400 && detail.contains("`builder`"), "{detail}");
    assert!(!String::from_utf8_lossy(&reply.body).contains("a-real-secret-value"));
    scene.is_recorded.store(false, Ordering::SeqCst);
    let reply = client.post(&entries(), r#"{"content":"x"}"#);
    assert_eq!(reply.problem().0, 503);
    assert!(reply.head.contains("retry-after: 60"), "{}", reply.head);
    scene.is_recorded.store(true, Ordering::SeqCst);
    let list = client.get(&entries()).ok();
    assert_eq!(list.get("total").and_then(Value::as_count), Some(0));
}

#[test]
fn signed_entry_is_not_removed_by_an_agent() {
    let seed = r#"{"keys":{"private_key":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}}"#;
    let scene = Scene::signed(Signer::of_identity(seed.as_bytes()).unwrap());
    let client = scene.client("a", Scope::ALL);
    let entry = client.post(&entries(), r#"{"content":"x"}"#).ok();
    assert!(entry.text_of("contentSignature").is_some(), "{entry}");
    let reply = client.call("DELETE", &format!("/entries/{}", id(&entry)), "");
    assert_eq!(reply.problem().0, 409);
    assert_eq!(reply.json().get("conflict"), Some(&Value::object([])));
}
