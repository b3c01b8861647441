use std::sync::{Arc, Mutex};

use pinfold_content::{SystemClock, read};
use pinfold_policy::settings::MemoryGrant;
use tempfile::TempDir;

use super::*;
use crate::NewEntry;
use crate::error::ServerError;
use crate::json::{entry_to_json, pack_to_json, rendered_to_json};
use crate::known_secrets::KnownSecrets;
use crate::pack::NewPack;
use crate::render::Rendering;
use crate::served::DiaryServer;
use crate::store::Diary;

/// Asked for, in order: a method, a path with its query, and a body.
type Asked = Arc<Mutex<Vec<String>>>;

/// What a server answers with.
type Answers = Box<dyn Fn(&str) -> Result<Value, ServerError> + Send + Sync>;

struct Fake {
    asked: Asked,
    answer: Answers,
}

impl DiaryServer for Fake {
    fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value, ServerError> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.asked.lock().unwrap().push(format!("GET {path}?{}", query.join("&")));
        (self.answer)(path)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, ServerError> {
        self.asked.lock().unwrap().push(format!("POST {path} {body}"));
        (self.answer)(path)
    }

    fn delete(&self, path: &str) -> Result<Value, ServerError> {
        self.asked.lock().unwrap().push(format!("DELETE {path}"));
        (self.answer)(path)
    }
}

struct Scene {
    _directory: TempDir,
    diary: Diary,
    asked: Asked,
}

impl Scene {
    /// Makes the diary that a server keeps.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("diary.db");
        let diary = Diary::open_file(&path, None, Box::new(SystemClock)).unwrap();
        Self { _directory: directory, diary, asked: Asked::default() }
    }

    fn tools(
        &self,
        grant: MemoryGrant,
        answer: impl Fn(&str) -> Result<Value, ServerError> + Send + Sync + 'static,
    ) -> ServedTools {
        let secrets = || {
            let secret = pinfold_secrets::Secret::from_bytes(b"hunter2-canary".to_vec()).unwrap();
            Ok(KnownSecrets::default().with("pin".to_owned(), secret))
        };
        let rules = Rules::new(grant, secrets).unwrap();
        let server = Fake { asked: Arc::clone(&self.asked), answer: Box::new(answer) };
        ServedTools::new(ServedDiary::new(Box::new(server), self.diary.id()), rules)
    }

    fn entry(&self, title: &str) -> Value {
        let new =
            NewEntry { title: Some(title.to_owned()), ..NewEntry::new(format!("text of {title}")) };
        let entry = self.diary.create(&new, &KnownSecrets::default()).unwrap();
        entry_to_json(&entry, self.diary.id())
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// Returns a value with a member changed.
fn with(value: &Value, key: &str, member: impl Into<Value>) -> Value {
    value.as_object().unwrap().with(key, member).into()
}

fn items(entry: &Value) -> Value {
    Value::object([
        ("items", Value::Array(vec![entry.clone()])),
        ("results", Value::Array(vec![entry.clone()])),
    ])
}

#[test]
fn questions_are_those_of_the_original() {
    let scene = Scene::new();
    let entry = scene.entry("one");
    let id = entry.text_of("id").unwrap().into_owned();
    let tools = scene.tools(MemoryGrant::Write, move |path| {
        Ok(
            if path.starts_with("/entries/") || path.ends_with("/entries") && path.contains("never")
            {
                entry.clone()
            } else {
                items(&entry)
            },
        )
    });
    let diary = scene.diary.id();
    let filter = r#""taskFilter":{"taskId":"T","attemptN":2}"#;
    tools.call("moltnet_list_entries", &format!(r#"{{"limit":3,{filter}}}"#)).unwrap();
    tools.call("moltnet_list_entries", &format!(r#"{{"entryIds":["{id}"],"limit":1}}"#)).unwrap();
    tools.call("moltnet_search_entries", r#"{"query":"q","excludeTags":["x"]}"#).unwrap();
    let entries = format!("GET /diaries/{diary}/entries?orderBy=createdAt&order=desc");
    assert_eq!(
        scene.asked(),
        [
            format!("{entries}&limit=3&tags=task:id:T&tags=task:attempt:2"),
            format!("{entries}&ids={id}"),
            format!(
                r#"POST /diaries/search {{"diaryId":"{diary}","query":"q","limit":5,"excludeTags":["x"]}}"#
            ),
        ]
    );
}

#[test]
fn entry_is_sent_once_with_the_tags_of_the_task_and_none_is_without_a_grant() {
    let scene = Scene::new();
    let stored = scene.entry("t");
    let new = NewEntry {
        title: Some("t".to_owned()),
        tags: vec!["task:id:7".to_owned(), "x".to_owned()],
        ..NewEntry::new("c")
    };
    let kept = with(&stored, "content", "c");
    let kept = with(&kept, "tags", ["task:id:7", "x"].into_iter().collect::<Value>());
    let kept = with(&kept, "contentHash", new.address().as_str());
    let tools = scene.tools(MemoryGrant::Write, move |_| Ok(kept.clone()));
    let task = crate::TaskDiary::from_json(r#"{"diary":null,"tags":["task:id:7"]}"#).unwrap();
    let tools = ServedTools { rules: tools.rules.for_task(Some(task)), ..tools };
    let arguments = r#"{"title":"t","content":"c","tags":["x"]}"#;
    let made = read(&tools.call("moltnet_create_entry", arguments).unwrap()).unwrap();
    assert_eq!(made.text_of("diaryId").unwrap(), scene.diary.id().to_string());
    let sent = format!(
        r#"POST /diaries/{}/entries {{"title":"t","content":"c","tags":["task:id:7","x"],"importance":5}}"#,
        scene.diary.id()
    );
    assert_eq!(scene.asked(), [sent]);

    let reader = scene.tools(MemoryGrant::Read, |_| panic!("nothing may be asked"));
    for (tool, arguments) in [
        ("moltnet_create_entry", arguments),
        ("moltnet_pack_create", r#"{"entries":[]}"#),
        ("moltnet_pack_render", r#"{"packId":"66666666-6666-4666-8666-666666666666"}"#),
    ] {
        let refused = reader.call(tool, arguments).unwrap_err().to_string();
        assert!(refused.starts_with("Forbidden: "), "{refused}");
    }
}

#[test]
fn no_secret_leaves_this_machine_in_a_question() {
    let scene = Scene::new();
    for (tool, arguments) in [
        ("moltnet_search_entries", r#"{"query":"is it hunter2-canary"}"#),
        ("moltnet_list_entries", r#"{"tags":["hunter2-canary"]}"#),
        ("moltnet_diary_tags", r#"{"prefix":"hunter2-canary"}"#),
        ("moltnet_pack_provenance", r#"{"packCid":"hunter2-canary"}"#),
        ("moltnet_rendered_pack_list", r#"{"renderMethod":"hunter2-canary"}"#),
        ("moltnet_create_entry", r#"{"title":"t","content":"hunter2-canary"}"#),
        ("moltnet_pack_create", r#"{"entries":[],"params":{"hunter2-canary":1}}"#),
        (
            "moltnet_pack_render",
            r#"{"packId":"66666666-6666-4666-8666-666666666666","markdown":"hunter2-canary"}"#,
        ),
    ] {
        let tools = scene.tools(MemoryGrant::Write, |_| panic!("nothing may be asked"));
        let refused = tools.call(tool, arguments).unwrap_err().to_string();
        assert!(refused.contains("holds the secret `pin`"), "{tool}: {refused}");
    }
    let tools = scene.tools(MemoryGrant::Read, |_| panic!("nothing may be asked"));
    for _ in 0..crate::tools::rules::MOST_LEAKS {
        tools.call("moltnet_search_entries", r#"{"query":"hunter2-canary"}"#).unwrap_err();
    }
    let guess = tools.call("moltnet_search_entries", r#"{"query":"q"}"#).unwrap_err().to_string();
    assert!(guess.starts_with("Forbidden: too many"), "{guess}");
}

#[test]
fn answers_that_lie_are_errors() {
    let scene = Scene::new();
    let entry = scene.entry("one");
    let id = entry.text_of("id").unwrap().into_owned();
    let other = "11111111-2222-4333-8444-555555555555";
    let long = "x".repeat(100_001);
    let lies = [
        with(&entry, "content", "another text"),
        with(&entry, "contentHash", "bafkreiffzrhzip7nri65lsjh2nr7g2ygsosdpk7x5ebfxctsiwvsfgfnsi"),
        with(&entry, "diaryId", other),
        with(&entry, "diaryId", Value::Null),
        with(&entry, "id", "../x"),
        with(&entry, "createdAt", "\u{1b}[2J"),
        with(&with(&entry, "content", long.as_str()), "contentHash", Value::Null),
        with(&entry, "tags", "a"),
        with(&entry, "entryType", "x"),
        Value::Null,
        Value::Array(Vec::new()),
    ];
    for lie in lies {
        let tools = scene.tools(MemoryGrant::Write, move |path| {
            Ok(if path.starts_with("/entries/") { lie.clone() } else { items(&lie) })
        });
        for (tool, arguments) in [
            ("moltnet_get_entry", format!(r#"{{"entryId":"{id}"}}"#)),
            ("moltnet_list_entries", "{}".to_owned()),
            ("moltnet_list_entries", format!(r#"{{"entryIds":["{id}"]}}"#)),
            ("moltnet_search_entries", r#"{"query":"q"}"#.to_owned()),
        ] {
            let error = tools.call(tool, &arguments).unwrap_err().to_string();
            assert!(!error.contains('\u{1b}') && error.len() < 500, "{error}");
        }
    }
    // Another entry than the one that was asked for, or sent.
    let tools = scene.tools(MemoryGrant::Write, move |_| Ok(entry.clone()));
    tools.call("moltnet_get_entry", &format!(r#"{{"entryId":"{other}"}}"#)).unwrap_err();
    tools.call("moltnet_create_entry", r#"{"title":"t","content":"c"}"#).unwrap_err();
}

#[test]
fn packs_are_rendered_here_and_those_with_another_address_are_errors() {
    let scene = Scene::new();
    let entry = scene.entry("Title of it");
    let id: Uuid = entry.text_of("id").unwrap().parse().unwrap();
    let (pack, _) = scene.diary.create_pack(&NewPack::new([id]), &KnownSecrets::default()).unwrap();
    let here = scene.diary.pack(pack).unwrap();
    let json = pack_to_json(&here);
    let rendered = scene
        .diary
        .render_pack(pack, &Rendering::server(), false, &KnownSecrets::default())
        .unwrap();
    let rendered = rendered_to_json(&rendered);
    let markdown = Rendering::local(&here).markdown.unwrap();
    let made = with(&rendered, "renderedMarkdown", markdown.as_str());
    let tools = |pack: &Value, rendered: &Value| {
        let (pack, rendered, made) = (pack.clone(), rendered.clone(), made.clone());
        scene.tools(MemoryGrant::Write, move |path| {
            Ok(if path.ends_with("/render") {
                made.clone()
            } else if path.starts_with("/rendered") {
                rendered.clone()
            } else {
                pack.clone()
            })
        })
    };
    let render = format!(r#"{{"packId":"{pack}"}}"#);
    tools(&json, &rendered).call("moltnet_pack_render", &render).unwrap();
    let sent = scene.asked().pop().unwrap();
    let expected = Value::object([
        ("renderMethod", "pi:pack-to-docs-v1".into()),
        ("renderedMarkdown", markdown.into()),
    ]);
    assert_eq!(sent, format!("POST /packs/{pack}/render {expected}"));

    let entries = json.get("entries").unwrap().as_array().unwrap();
    let changed = with(&entries[0], "rank", 2u32);
    let entry = entries[0].get("entry").unwrap();
    let within = |entry: Value| Value::Array(vec![with(&entries[0], "entry", entry)]);
    let stranger = "11111111-2222-4333-8444-555555555555";
    for lie in [
        with(&json, "packCid", "bafyreifrb6ktrzta4tpf2z7emlcnmbvqan5w5giyp6ihpxig2bhxbe3vya"),
        with(&json, "packCid", "x"),
        with(&json, "entries", Value::Array(vec![changed])),
        with(&json, "entries", Value::Null),
        with(&json, "entries", within(with(entry, "diaryId", stranger))),
        with(&json, "entries", within(with(entry, "id", stranger))),
        with(&json, "diaryId", "11111111-2222-4333-8444-555555555555"),
        with(&json, "id", "11111111-2222-4333-8444-555555555555"),
    ] {
        let tools = tools(&lie, &rendered);
        tools.call("moltnet_pack_render", &render).unwrap_err();
        // Nor does the server render what is not of this diary.
        let by_server = format!(r#"{{"packId":"{pack}","renderMethod":"server:pack-to-docs-v1"}}"#);
        tools.call("moltnet_pack_render", &by_server).unwrap_err();
        assert!(!scene.asked().iter().any(|asked| asked.starts_with("POST")));
        tools
            .call("moltnet_pack_get", &format!(r#"{{"packId":"{pack}","expandEntries":true}}"#))
            .unwrap_err();
    }
    let get = format!(r#"{{"renderedPackId":"{}"}}"#, rendered.text_of("id").unwrap());
    tools(&json, &rendered).call("moltnet_rendered_pack_get", &get).unwrap();
    for lie in [with(&rendered, "content", "another text"), with(&rendered, "id", stranger)] {
        tools(&json, &lie).call("moltnet_rendered_pack_get", &get).unwrap_err();
    }
    // Entries that nobody asked for are not checked, and not given.
    let short = tools(&json, &rendered);
    let short = short.call("moltnet_pack_get", &format!(r#"{{"packId":"{pack}"}}"#)).unwrap();
    assert_eq!(read(&short).unwrap().get("entries"), None);
}

#[test]
fn renderings_and_lists_that_lie_are_errors() {
    let scene = Scene::new();
    let entry = scene.entry("Title of it");
    let id: Uuid = entry.text_of("id").unwrap().parse().unwrap();
    let (pack, _) = scene.diary.create_pack(&NewPack::new([id]), &KnownSecrets::default()).unwrap();
    let here = pack_to_json(&scene.diary.pack(pack).unwrap());
    let stranger = "11111111-2222-4333-8444-555555555555";
    let made = Value::object([
        ("diaryId", scene.diary.id().to_string().into()),
        ("sourcePackId", pack.to_string().into()),
        ("renderedMarkdown", "m".into()),
    ]);
    let call = |made: &Value, more: &str| {
        let (made, here) = (made.clone(), here.clone());
        let tools = scene.tools(MemoryGrant::Write, move |path| {
            Ok(if path.contains("/render") { made.clone() } else { here.clone() })
        });
        tools.call("moltnet_pack_render", &format!(r#"{{"packId":"{pack}","markdown":"m"{more}}}"#))
    };
    let preview = r#","preview":true"#;
    let shown = made.as_object().unwrap().without("diaryId").into();
    call(&made, "").unwrap();
    call(&shown, preview).unwrap();
    call(&shown, "").unwrap_err();
    for (key, member) in [("sourcePackId", stranger), ("renderedMarkdown", "another text")] {
        call(&with(&made, key, member), "").unwrap_err();
        call(&with(&shown, key, member), preview).unwrap_err();
    }
    call(&with(&made, "diaryId", stranger), "").unwrap_err();

    let long = "x".repeat(129);
    for tag in [r#"{"tag":{},"count":1}"#, r#"{"tag":"a","count":"b"}"#, "null"]
        .map(|tag| read(tag).unwrap())
        .into_iter()
        .chain([Value::object([("tag", long.into()), ("count", 1u32.into())])])
    {
        let tags = Value::object([("tags", Value::Array(vec![tag]))]);
        let tools = scene.tools(MemoryGrant::Read, move |_| Ok(tags.clone()));
        tools.call("moltnet_diary_tags", "{}").unwrap_err();
    }
    let tools = scene.tools(MemoryGrant::Read, move |_| {
        let listed = with(&made, "content", "never compared with a hash");
        Ok(items(&listed))
    });
    let listed = tools.call("moltnet_rendered_pack_list", "{}").unwrap();
    assert!(!listed.contains("never compared"), "{listed}");
    let tools = scene.tools(MemoryGrant::Read, move |_| Ok(items(&entry)));
    let other = format!(r#"{{"entryIds":["{stranger}"]}}"#);
    tools.call("moltnet_list_entries", &other).unwrap_err();
    let tools = scene.tools(MemoryGrant::Read, |_| panic!("nothing may be asked"));
    for cid in ["", "x", "../../entries"] {
        let named = format!(r#"{{"packCid":"{cid}"}}"#);
        tools.call("moltnet_pack_provenance", &named).unwrap_err();
    }
}

#[test]
fn servers_errors_are_its_own_words_and_a_task_learns_that_its_diary_refuses() {
    let scene = Scene::new();
    let refuse = |status, text: &str| {
        let error = ServerError { status: Some(status), text: text.to_owned() };
        move |_: &str| Err(error.clone())
    };
    let tools = scene.tools(MemoryGrant::Write, refuse(404, "Not Found: nope"));
    assert_eq!(
        tools.call("moltnet_list_entries", "{}").unwrap_err().to_string(),
        "Not Found: nope"
    );
    let tools = scene.tools(MemoryGrant::Write, refuse(403, "Forbidden: no"));
    let arguments = r#"{"title":"t","content":"c"}"#;
    assert_eq!(
        tools.call("moltnet_create_entry", arguments).unwrap_err().to_string(),
        "Forbidden: no"
    );
    let task = crate::TaskDiary::from_json(r#"{"diary":null,"tags":[]}"#).unwrap();
    let tools = ServedTools { rules: tools.rules.for_task(Some(task)), ..tools };
    let denied = tools.call("moltnet_create_entry", arguments).unwrap_err().to_string();
    assert!(
        denied.starts_with("entries_create: the task provenance diary denied this entry"),
        "{denied}"
    );
}
