//! The tools of a diary that a server keeps: what they ask for, and who they are there.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pinfold_content::{Value, read};
use pinfold_memory::{
    DiaryServer, DiaryTools, KnownSecrets, Rules, ServedDiary, ServedTools, ServerError, TaskDiary,
};
use pinfold_moltnet::{Credentials, RemoteDiaries, Scope, WayOut};
use pinfold_policy::settings::MemoryGrant;

use crate::diaries::Scene;
use crate::replay::Recorded;
use crate::scene::{Client, DIARY};

/// Passes questions on, and keeps them.
struct Recorder {
    server: RemoteDiaries,
    asked: Arc<Mutex<Vec<String>>>,
}

impl DiaryServer for Recorder {
    fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value, ServerError> {
        let pairs = query.iter().map(|(name, value)| format!("{name}={value}"));
        let pairs: Vec<String> = pairs.collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        self.asked.lock().unwrap().push(format!("GET {path}{mark}{}", pairs.join("&")));
        self.server.get(path, query)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, ServerError> {
        self.asked.lock().unwrap().push(format!("POST {path} {body}"));
        self.server.post(path, body)
    }

    fn delete(&self, path: &str) -> Result<Value, ServerError> {
        self.asked.lock().unwrap().push(format!("DELETE {path}"));
        self.server.delete(path)
    }
}

/// Returns a server as a client with an id and a secret sees it.
pub(crate) fn remote(client: &Client, secret: &str, scopes: &'static [Scope]) -> RemoteDiaries {
    let file =
        format!(r#"{{"oauth2":{{"client_id":"{}","client_secret":"{secret}"}}}}"#, client.agent.id);
    let credentials = Credentials::of_moltnet(file.as_bytes(), Path::new("moltnet.json")).unwrap();
    let address = format!("http://{}", client.address);
    RemoteDiaries::new(&address, WayOut::default(), credentials, scopes).unwrap()
}

fn tools(
    server: impl DiaryServer + 'static,
    grant: MemoryGrant,
    task: Option<&str>,
) -> ServedTools {
    let rules = Rules::new(grant, || Ok(KnownSecrets::default())).unwrap();
    let rules = rules.for_task(task.map(|task| TaskDiary::from_json(task).unwrap()));
    ServedTools::new(ServedDiary::new(Box::new(server), DIARY.parse().unwrap()), rules)
}

fn ok(tools: &ServedTools, name: &str, arguments: &str) -> Value {
    read(&tools.call(name, arguments).unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap()
}

#[test]
fn tools_ask_for_what_the_original_ones_ask_for() {
    let scene = Scene::new();
    let client = scene.client("a", Scope::ALL);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let recorder = |task| {
        let server = remote(&client, &client.key, Scope::OF_A_DIARY);
        tools(Recorder { server, asked: Arc::clone(&asked) }, MemoryGrant::Write, task)
    };
    let plain = recorder(None);
    let task = r#"{"diary":null,"tags":["task:id:T","task:type:freeform","task:attempt:1","task:correlation:C"]}"#;
    let of_task = recorder(Some(task));
    let id = |value: &Value, name: &str| value.text_of(name).unwrap().into_owned();
    let entry = id(&ok(&plain, "moltnet_create_entry", r#"{"title":"t","content":"c"}"#), "id");
    let arguments = r#"{"title":"t","content":"c","tags":["x"],"entryType":"episodic"}"#;
    ok(&of_task, "moltnet_create_entry", arguments);
    ok(&plain, "moltnet_list_entries", r#"{"limit":3,"taskFilter":{"taskId":"T","attemptN":2}}"#);
    ok(&plain, "moltnet_list_entries", &format!(r#"{{"entryIds":["{entry}"]}}"#));
    ok(&plain, "moltnet_get_entry", &format!(r#"{{"entryId":"{entry}"}}"#));
    ok(&plain, "moltnet_search_entries", r#"{"query":"q"}"#);
    ok(&plain, "moltnet_diary_tags", "{}");
    let chosen = format!(r#"{{"entries":[{{"entryId":"{entry}","rank":1}}]}}"#);
    let pack = id(&ok(&plain, "moltnet_pack_create", &chosen), "packId");
    let of_pack = |more: &str| format!(r#"{{"packId":"{pack}"{more}}}"#);
    ok(&plain, "moltnet_pack_get", &of_pack(r#","expandEntries":true"#));
    ok(&plain, "moltnet_pack_provenance", &of_pack(""));
    let preview = ok(&plain, "moltnet_pack_render", &of_pack(r#","preview":true"#));
    assert!(id(&preview, "renderedMarkdown").starts_with("# Rendered Pack"));
    let method = r#","renderMethod":"server:pack-to-docs-v1""#;
    let rendered = id(&ok(&plain, "moltnet_pack_render", &of_pack(method)), "id");
    ok(&plain, "moltnet_rendered_pack_list", "{}");
    ok(&plain, "moltnet_rendered_pack_get", &format!(r#"{{"renderedPackId":"{rendered}"}}"#));

    let mut asked = asked.lock().unwrap().clone();
    // It is asked whose diary the pack and its entries are in.
    let extra = asked.iter().position(|line| *line == format!("GET /packs/{pack}?expand=entries"));
    asked.remove(extra.unwrap());
    // What this server made up, as the recording's server did.
    let mut asked: Vec<String> = asked
        .iter()
        .map(|line| {
            line.replace(&pack, "55555555-5555-4555-8555-555555555555")
                .replace(&entry, "66666666-6666-4666-8666-666666666666")
                .replace(&rendered, "77777777-7777-4777-8777-777777777777")
        })
        .map(|line| line.split(r#","renderedMarkdown""#).next().unwrap().to_owned())
        .collect();
    let recording = include_str!("../traces/tools.txt");
    let is_made_up = |line: &str| {
        let entry = line.starts_with("GET /entries/55555555");
        line.contains("/oauth2/token") || line.contains("429") || line.contains("bad") || entry
    };
    let mut expected: Vec<String> = recording
        .lines()
        .filter(|line| !is_made_up(line))
        .map(|line| {
            let Recorded { method, path, body, .. } = Recorded::read(line);
            let body = body.split(r#","renderedMarkdown""#).next().unwrap();
            format!("{method} {path} {body}").trim_end().to_owned()
        })
        .collect();
    asked.sort();
    expected.sort();
    assert_eq!(asked, expected);
}

#[test]
fn server_knows_its_client_and_says_no_in_its_own_words() {
    let scene = Scene::new();
    let writer = scene.client("a", Scope::ALL);
    let reader = scene.client("b", Scope::OF_A_READER);
    let arguments = r#"{"title":"t","content":"c"}"#;
    ok(
        &tools(remote(&writer, &writer.key, Scope::OF_A_DIARY), MemoryGrant::Write, None),
        "moltnet_create_entry",
        arguments,
    );
    // What the grant allows is more than what the server does.
    let more = tools(remote(&reader, &reader.key, Scope::OF_A_READER), MemoryGrant::Write, None);
    assert_eq!(ok(&more, "moltnet_list_entries", "{}").as_array().unwrap().len(), 1);
    let refused = more.call("moltnet_create_entry", arguments).unwrap_err().to_string();
    assert!(refused.starts_with("Forbidden: "), "{refused}");
    let id = "66666666-6666-4666-8666-666666666666";
    let missing = more.call("moltnet_get_entry", &format!(r#"{{"entryId":"{id}"}}"#)).unwrap_err();
    assert_eq!(missing.to_string(), "Not Found: Diary entry not found");
    let stranger =
        tools(remote(&reader, "a-wrong-canary", Scope::OF_A_READER), MemoryGrant::Read, None);
    let rejected = stranger.call("moltnet_list_entries", "{}").unwrap_err().to_string();
    assert!(rejected.contains("rejected the credentials"), "{rejected}");
    assert!(!rejected.contains("canary"), "{rejected}");
    let gone = Client { address: "127.0.0.1:1".parse().unwrap(), ..reader };
    let gone = tools(remote(&gone, &gone.key, Scope::OF_A_READER), MemoryGrant::Read, None);
    let unreachable = gone.call("moltnet_list_entries", "{}").unwrap_err().to_string();
    assert!(unreachable.starts_with("the server cannot be used: "), "{unreachable}");
}
