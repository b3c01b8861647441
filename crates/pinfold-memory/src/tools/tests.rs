use pinfold_content::{SystemClock, Value, read};
use pinfold_policy::settings::MemoryGrant;
use tempfile::TempDir;

use super::{DiaryTools as _, FailedCall, MemoryTools, Rules, TOOLS};
use crate::known_secrets::KnownSecrets;
use crate::store::Diary;

struct Scene {
    _directory: TempDir,
    tools: MemoryTools,
}

fn rules(grant: MemoryGrant) -> Rules {
    Rules::new(grant, || Ok(KnownSecrets::default())).unwrap()
}

fn scene(grant: MemoryGrant) -> Scene {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("diary.db");
    let diary = Diary::open_file(&path, None, Box::new(SystemClock)).unwrap();
    let tools = MemoryTools::new(diary, rules(grant));
    Scene { _directory: directory, tools }
}

impl Scene {
    fn ok(&self, name: &str, arguments: &str) -> Value {
        let text =
            self.tools.call(name, arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
        read(&text).unwrap()
    }

    fn error(&self, name: &str, arguments: &str) -> String {
        self.tools.call(name, arguments).unwrap_err().to_string()
    }

    fn create(&self, title: &str, more: &str) -> String {
        let arguments = format!(r#"{{"title":"{title}","content":"text of {title}"{more}}}"#);
        self.ok("moltnet_create_entry", &arguments).text_of("id").unwrap().into_owned()
    }
}

fn keys(value: &Value) -> Vec<String> {
    value.as_object().unwrap().members().map(|(key, _)| key.to_str().into_owned()).collect()
}

#[test]
fn each_tool_is_defined_once() {
    let definitions = read(super::definitions()).unwrap();
    let names: Vec<String> = definitions
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool.text_of("name").unwrap().into_owned())
        .collect();
    assert_eq!(names, TOOLS.map(|(name, _)| name));
}

#[test]
fn results_have_the_members_of_the_original_in_its_order() {
    let scene = scene(MemoryGrant::Write);
    let created = scene.ok(
        "moltnet_create_entry",
        r#"{"title":"t","content":"c","tags":["x"],"importance":7,"entryType":"episodic","unknown":1}"#,
    );
    assert_eq!(
        keys(&created),
        ["id", "title", "createdAt", "diaryId", "entryType", "importance", "tags"]
    );
    let id = created.text_of("id").unwrap();
    let listed = scene.ok("moltnet_list_entries", "{}");
    let first = &listed.as_array().unwrap()[0];
    assert_eq!(keys(first), ["id", "title", "tags", "importance", "createdAt", "contentPreview"]);
    let by_ids = scene.ok("moltnet_list_entries", &format!(r#"{{"entryIds":["{id}"],"limit":1}}"#));
    assert_eq!(
        keys(&by_ids.as_array().unwrap()[0]),
        [
            "id",
            "title",
            "entryType",
            "tags",
            "importance",
            "contentHash",
            "contentSignature",
            "createdAt"
        ]
    );
    let entry = scene.ok("moltnet_get_entry", &format!(r#"{{"entryId":"{id}"}}"#));
    assert_eq!(keys(&entry), ["id", "title", "content", "tags", "importance", "createdAt"]);
    let found = scene.ok("moltnet_search_entries", r#"{"query":"c"}"#);
    assert_eq!(
        keys(&found.as_array().unwrap()[0]),
        ["id", "title", "tags", "importance", "contentPreview"]
    );
    let tags = scene.tools.call("moltnet_diary_tags", "{}").unwrap();
    assert_eq!(
        tags,
        "{\n  \"tags\": [\n    {\n      \"tag\": \"x\",\n      \"count\": 1\n    }\n  ],\n  \"total\": 1\n}"
    );
}

#[test]
fn pack_is_made_rendered_and_followed() {
    let scene = scene(MemoryGrant::Write);
    let (one, two) = (scene.create("One", ""), scene.create("Two", ""));
    let entries = format!(r#"[{{"entryId":"{one}","rank":2}},{{"entryId":"{two}","rank":1}}]"#);
    let made = scene.ok("moltnet_pack_create", &format!(r#"{{"entries":{entries}}}"#));
    assert_eq!(keys(&made), ["packId", "packCid", "packType", "params", "entries", "compileStats"]);
    let (id, cid) = (made.text_of("packId").unwrap(), made.text_of("packCid").unwrap());
    let pack = scene.ok("moltnet_pack_get", &format!(r#"{{"packId":"{id}"}}"#));
    assert!(pack.get("entries").is_none());
    let pack =
        scene.ok("moltnet_pack_get", &format!(r#"{{"packId":"{id}","expandEntries":true}}"#));
    let first = &pack.get("entries").unwrap().as_array().unwrap()[0];
    assert_eq!(first.get("entry").unwrap().text_of("title").unwrap(), "Two");
    let graph = scene.ok("moltnet_pack_provenance", &format!(r#"{{"packCid":"{cid}"}}"#));
    assert_eq!(keys(&graph), ["metadata", "counts", "graph"]);
    assert_eq!(graph.get("counts").unwrap().to_string(), r#"{"nodes":3,"edges":2}"#);
    let provenance = |arguments: &str| scene.error("moltnet_pack_provenance", arguments);
    assert_eq!(provenance("{}"), "Provide either packId or packCid");
    let both = format!(r#"{{"packId":"{id}","packCid":"{cid}"}}"#);
    assert_eq!(provenance(&both), "Provide only one of packId or packCid");

    let preview =
        scene.ok("moltnet_pack_render", &format!(r#"{{"packId":"{id}","preview":true}}"#));
    assert!(preview.text_of("renderedMarkdown").unwrap().starts_with("# Rendered Pack\n"));
    assert!(preview.get("id").is_none());
    let none = scene.ok("moltnet_rendered_pack_list", "{}");
    assert_eq!(none.to_string(), r#"{"items":[],"total":0,"limit":10,"offset":0}"#);
    let of = |method: &str| {
        scene
            .ok("moltnet_pack_render", &format!(r#"{{"packId":"{id}","renderMethod":"{method}"}}"#))
    };
    let rendered = of("server:pack-to-docs-v1");
    of("pi:pack-to-docs-v1");
    let id = rendered.text_of("id").unwrap();
    let got = scene.ok("moltnet_rendered_pack_get", &format!(r#"{{"renderedPackId":"{id}"}}"#));
    assert!(got.text_of("content").unwrap().starts_with("# Context Pack "));
    let listed = scene.ok(
        "moltnet_rendered_pack_list",
        r#"{"renderMethod":"server:pack-to-docs-v1","limit":1,"offset":0}"#,
    );
    assert_eq!(listed.get("total").unwrap().as_count(), Some(1));
    assert!(listed.get("items").unwrap().as_array().unwrap()[0].get("content").is_none());
}

#[test]
fn errors_have_a_title_and_a_detail() {
    let scene = scene(MemoryGrant::Write);
    let id = "66666666-6666-4666-8666-666666666666";
    let entry = scene.error("moltnet_get_entry", &format!(r#"{{"entryId":"{id}"}}"#));
    assert_eq!(entry, "Not Found: Diary entry not found");
    let pack = scene.error("moltnet_pack_get", &format!(r#"{{"packId":"{id}"}}"#));
    assert_eq!(pack, "Not Found: Context pack not found");
    let other = format!(r#"{{"title":"t","content":"c","diaryId":"{id}"}}"#);
    assert_eq!(scene.error("moltnet_create_entry", &other), "Not Found: Diary not found");
    for (name, arguments) in [
        ("moltnet_get_entry", "{}"),
        ("moltnet_get_entry", r#"{"entryId":"../x"}"#),
        ("moltnet_get_entry", "[]"),
        ("moltnet_create_entry", r#"{"title":"t"}"#),
        ("moltnet_create_entry", r#"{"title":"t","content":""}"#),
        ("moltnet_create_entry", r#"{"title":"t","content":"c","importance":0}"#),
        ("moltnet_create_entry", r#"{"title":"t","content":"c","entryType":"x"}"#),
        ("moltnet_search_entries", r#"{"query":"x","limit":101}"#),
        ("moltnet_search_entries", r#"{"query":1}"#),
        ("moltnet_list_entries", r#"{"tags":"a,b"}"#),
        ("moltnet_pack_create", r#"{"entries":[1]}"#),
        ("moltnet_no_such_tool", "{}"),
    ] {
        let error = scene.error(name, arguments);
        assert!(error.starts_with("Validation Failed: "), "{name} {arguments}: {error}");
    }
}

#[test]
fn filter_of_a_task_is_one_of_tags() {
    let scene = scene(MemoryGrant::Write);
    scene.create("mine", r#","tags":["task:id:T","task:attempt:2"]"#);
    scene.create("other", r#","tags":["task:id:T","task:attempt:1"]"#);
    let filter = r#""taskFilter":{"taskId":"T","attemptN":2}"#;
    for (name, arguments) in [
        ("moltnet_list_entries", format!("{{{filter}}}")),
        ("moltnet_search_entries", format!(r#"{{"query":"text",{filter}}}"#)),
    ] {
        let found = scene.ok(name, &arguments);
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].text_of("title").unwrap(), "mine");
    }
}

#[test]
fn grant_to_read_writes_nothing() {
    let scene = scene(MemoryGrant::Read);
    let entry = scene.error("moltnet_create_entry", r#"{"title":"t","content":"c"}"#);
    assert!(entry.starts_with("Forbidden: "), "{entry}");
    let pack = scene.error("moltnet_pack_create", r#"{"entries":[]}"#);
    assert!(pack.starts_with("Forbidden: "), "{pack}");
    assert_eq!(scene.ok("moltnet_list_entries", "{}").to_string(), "[]");
    assert!(Rules::new(MemoryGrant::None, || Ok(KnownSecrets::default())).is_none());
}

#[test]
fn failed_calls_are_kept_until_they_are_cleared() {
    let scene = scene(MemoryGrant::Read);
    for number in 0..150 {
        let said = if number == 149 { String::new() } else { "x".repeat(600) };
        scene.tools.note_failure(&FailedCall {
            tool: "bash",
            id: &number.to_string(),
            input: r#"{"command":"false"}"#,
            error: &said,
        });
    }
    let name = "moltnet_review_session_errors";
    let review = scene.ok(name, r#"{"clear":true}"#);
    let errors = review.get("errors").unwrap().as_array().unwrap();
    assert_eq!((errors.len(), review.get("count").unwrap().as_count()), (100, Some(100)));
    assert_eq!(keys(&errors[0]), ["toolName", "toolCallId", "timestamp", "input", "error"]);
    assert_eq!(errors[0].text_of("toolCallId").unwrap(), "50");
    assert_eq!(errors[0].text_of("error").unwrap().len(), 500);
    assert_eq!(errors[99].text_of("error").unwrap(), "unknown error");
    assert_eq!(scene.ok(name, "{}").get("count").unwrap().as_count(), Some(0));
}

#[test]
fn entry_is_not_written_when_secrets_are_not_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("diary.db");
    let diary = Diary::open_file(&path, None, Box::new(SystemClock)).unwrap();
    let unknown = || Err("the store is locked".to_owned());
    let tools = MemoryTools::new(diary, Rules::new(MemoryGrant::Write, unknown).unwrap());
    let arguments = r#"{"title":"t","content":"c"}"#;
    let error = tools.call("moltnet_create_entry", arguments).unwrap_err().to_string();
    assert_eq!(error, "Service Unavailable: the store is locked");
    assert_eq!(tools.call("moltnet_list_entries", "{}").unwrap(), "[]");
}

#[test]
fn failed_calls_with_long_names_and_inputs_are_kept_short() {
    let scene = scene(MemoryGrant::Read);
    let long = "x".repeat(1 << 20);
    for _ in 0..200 {
        let input = &format!("{{\"a\":\"{long}\"}}");
        scene.tools.note_failure(&FailedCall { tool: &long, id: &long, input, error: &long });
    }
    let kept = scene.tools.call("moltnet_review_session_errors", "{}").unwrap();
    assert!(kept.len() < 400_000, "{}", kept.len());
}

#[test]
fn session_that_guesses_secrets_writes_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("diary.db");
    let diary = Diary::open_file(&path, None, Box::new(SystemClock)).unwrap();
    let secrets = || {
        let secret = pinfold_secrets::Secret::from_bytes(b"271828".to_vec()).unwrap();
        Ok(KnownSecrets::default().with("pin".to_owned(), secret))
    };
    let tools = MemoryTools::new(diary, Rules::new(MemoryGrant::Write, secrets).unwrap());
    let guess = r#"{"title":"t","content":"271827 271828 271829"}"#;
    for _ in 0..super::rules::MOST_LEAKS {
        let error = tools.call("moltnet_create_entry", guess).unwrap_err().to_string();
        assert!(error.contains("holds the secret `pin`"), "{error}");
    }
    let harmless = r#"{"title":"t","content":"nothing"}"#;
    for (tool, arguments) in [
        ("moltnet_create_entry", guess),
        ("moltnet_create_entry", harmless),
        ("moltnet_pack_create", r#"{"entries":[]}"#),
    ] {
        let error = tools.call(tool, arguments).unwrap_err().to_string();
        assert!(error.starts_with("Forbidden: too many"), "{error}");
    }
    tools.call("moltnet_list_entries", "{}").unwrap();
}

#[test]
fn entries_of_a_task_land_in_its_diary_with_its_tags() {
    let Scene { _directory, tools } = scene(MemoryGrant::Write);
    let task = r#"{"diary":null,"tags":["task:id:7","task:attempt:1"]}"#;
    let task = Some(crate::TaskDiary::from_json(task).unwrap());
    let tools = MemoryTools { rules: tools.rules.for_task(task), ..tools };
    let own = tools.diary().id().to_string();
    let scene = Scene { _directory, tools };
    let arguments =
        format!(r#"{{"title":"t","content":"c","tags":["x","task:id:7"],"diaryId":"{own}"}}"#);
    let created = scene.ok("moltnet_create_entry", &arguments);
    let tags = created.get("tags").unwrap().to_string();
    assert_eq!(tags, r#"["task:id:7","task:attempt:1","x"]"#);
    let other = "11111111-2222-4333-8444-555555555555";
    let arguments = format!(r#"{{"title":"t","content":"c","diaryId":"{other}"}}"#);
    let error = scene.error("moltnet_create_entry", &arguments);
    assert_eq!(
        error,
        format!(
            "entries_create: diaryId \"{other}\" does not match the active task diary \"{own}\". \
             Entries created during a task must land in the task diary."
        )
    );
    let many: Vec<String> = (0..20).map(|number| format!("\"t{number}\"")).collect();
    let arguments = format!(r#"{{"title":"t","content":"c","tags":[{}]}}"#, many.join(","));
    assert!(scene.error("moltnet_create_entry", &arguments).contains("must be 20 at most"));
}
