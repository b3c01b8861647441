//! The diary as a sandbox reaches it.

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, people};
use serde_json::Value;

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn done(stage: &Stage, args: &[&str]) -> String {
    let output = stage.pinfold(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

const CREATE: &str =
    r#"pinfold-memory moltnet_create_entry '{"title":"Disk","content":"The disk was full."}'"#;

#[test]
fn sandbox_uses_the_diary_that_its_user_grants() {
    for user in people() {
        let stage = Stage::new(user);
        let none =
            stage.run_shell(&[], "command -v pinfold-memory || test ! -e /run/pinfold/memory");
        assert!(none.status.success() && none.stdout.is_empty(), "{}", text(&none));

        let output = stage.run_shell(&["--memory-grant", "write"], CREATE);
        assert!(output.status.success(), "{}", text(&output));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        let listed = done(&stage, &["memory", "ls", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["entries"][0]["id"], made["id"]);

        let read = &["--memory-grant", "read"];
        let found = stage.run_shell(
            read,
            r#"echo '{"query":"disks"}' | pinfold-memory moltnet_search_entries -"#,
        );
        assert!(text(&found).contains("The disk was full."), "{}", text(&found));
        let refused = stage.run_shell(read, CREATE);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(text(&refused).contains("Forbidden"), "{}", text(&refused));

        // The protocol, as an agent speaks it.
        let lines = [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        ];
        let script =
            format!("{{ printf '%s\\n' '{}'; sleep 1; }} | pinfold-memory", lines.join("' '"));
        let answers = stage.run_shell(read, &script);
        let answers: Vec<Value> =
            text(&answers).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18", "{answers:?}");
        assert_eq!(answers[1]["result"]["tools"].as_array().unwrap().len(), 12);

        let audit = done(&stage, &["audit", "--json"]);
        let calls: Vec<Value> = audit
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|record| record["event"] == "memory")
            .collect();
        assert_eq!(calls.len(), 3, "{audit}");
        assert!(calls.iter().all(|record| record["session"].is_string()));
    }
}

#[test]
fn sandbox_that_lies_reaches_no_other_diary_and_no_file() {
    let stage = Stage::new(people()[0]);
    done(&stage, &["memory", "add", "a note of another diary", "--diary", "other"]);
    let script = r#"
        pinfold-memory moltnet_create_entry '{"title":"t","content":"c","diaryId":"other"}'
        pinfold-memory moltnet_create_entry '{"title":"t","content":"c","diaryId":"../../own/other"}'
        PINFOLD_IDENTITY=x MOLTNET_DIARY_ID=other pinfold-memory moltnet_search_entries '{"query":"note"}'
        pinfold-memory moltnet_get_entry '{"entryId":"00000000-0000-4000-8000-000000000000"}'
        pinfold-memory moltnet_search_entries '{"query":"'"'"' OR 1=1; --\u0000"}'
        pinfold-memory bash '{"command":"id"}'
        rm -f /run/pinfold/memory; mv /run/pinfold/memory /tmp; echo > /run/pinfold/bin/pinfold-memory
        find / -name '*.db' -path '*pinfold*' 2>/dev/null
        pinfold-memory moltnet_diary_tags
    "#;
    let output = stage.run_shell(&["--memory-grant", "write"], script);
    let shown = text(&output);
    assert!(!shown.contains("a note of another"), "{shown}");
    assert_eq!(shown.matches("Diary not found").count(), 2, "{shown}");
    assert!(shown.contains("no tool bash") && !shown.contains(".db"), "{shown}");
    assert!(output.status.success(), "the last call is answered: {shown}");
    assert_eq!(done(&stage, &["memory", "ls"]), "");
}

#[test]
fn placeholder_and_secret_are_in_no_entry() {
    let stage = Stage::new(people()[0]);
    let mut set = stage.pinfold(&["secret", "set", "token"]);
    let mut set = set.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut set.stdin.take().unwrap(), b"hunter2-hunter2").unwrap();
    assert!(set.wait().unwrap().success());
    let settings = "memory = \"write\"\n\n[[secrets]]\nid = \"token\"\nenv = \"TOKEN\"\nhosts = [\"api.example.com\"]\n";
    stage.write("home/.config/pinfold/config.toml", settings);
    let script = r#"
        pinfold-memory moltnet_create_entry '{"title":"t","content":"it is hunter2-hunter2"}'
        pinfold-memory moltnet_create_entry "{\"title\":\"$TOKEN\",\"content\":\"c\"}"
    "#;
    let output = stage.run_shell(&[], script);
    let shown = text(&output);
    assert!(shown.contains("/content holds the secret `token`"), "{shown}");
    assert!(shown.contains("placeholder in TOKEN"), "{shown}");
    assert_eq!(done(&stage, &["memory", "ls"]), "");
}

#[test]
fn diary_that_cannot_be_used_starts_no_session() {
    let stage = Stage::new(people()[0]);
    done(&stage, &["memory", "add", "x"]);
    std::fs::write(stage.state().join("memory/own/default.db"), b"no diary").unwrap();
    let output = stage.run_shell(&["--memory-grant", "read"], "echo ran");
    assert_eq!(output.status.code(), Some(125), "{}", text(&output));
    assert!(text(&output).contains("the diary cannot be used"), "{}", text(&output));
    assert!(!text(&output).contains("ran\n"));
}

#[test]
fn entry_is_signed_by_the_identity_whose_key_stays_outside() {
    let stage = Stage::new(people()[0]);
    let ws = stage.workspace();
    let git = |args: &[&str]| {
        assert!(stage.command("git").args(args).current_dir(&ws).status().unwrap().success())
    };
    git(&["init", "-q"]);
    let seed = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let moltnet = format!(r#"{{"identity_id":"i-1","keys":{{"private_key":"{seed}"}}}}"#);
    for (name, content) in [("moltnet.json", &*moltnet), ("env", "MOLTNET_AGENT_NAME=builder\n")] {
        let path = stage.write(&format!("ws/.moltnet/builder/{name}"), content);
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, private).unwrap();
    }
    let script =
        format!("{CREATE}; grep -r BwcHBwcHBwc / --include=moltnet.json 2>/dev/null; true");
    let output = stage.run_shell(&["--identity", "builder", "--memory-grant", "write"], &script);
    assert!(output.status.success(), "{}", text(&output));
    assert!(!text(&output).contains("BwcHBw"), "{}", text(&output));
    let list = ["memory", "ls", "--identity", "builder", "--json"];
    let listed: Value = serde_json::from_str(&done(&stage, &list)).unwrap();
    let entry = &listed["entries"][0];
    assert_eq!(entry["creator"]["fingerprint"], "FE81-2C12-F3AB-4CE6", "{listed:#}");
    assert_eq!(entry["creator"]["identityId"], "i-1");
    let id = entry["id"].as_str().unwrap();
    let shown = done(&stage, &["memory", "show", id, "--identity", "builder"]);
    assert!(shown.contains("signed by:  FE81-2C12-F3AB-4CE6 (identity i-1)"), "{shown}");
    let added = stage
        .pinfold(&["memory", "add", "by hand", "--identity", "builder", "--sign"])
        .output()
        .unwrap();
    assert!(added.status.success(), "{}", text(&added));
    let listed: Value = serde_json::from_str(&done(&stage, &list)).unwrap();
    let signed = listed["entries"].as_array().unwrap().iter();
    assert!(signed.clone().all(|entry| entry["contentSignature"].is_string()), "{listed:#}");
    assert_eq!(signed.count(), 2);
}

#[test]
fn entries_of_a_task_are_in_its_diary_with_its_tags() {
    let stage = Stage::new(people()[0]);
    let diary = "11111111-2222-4333-8444-555555555555";
    let task = format!(r#"{{"diary":"{diary}","tags":["task:id:7","task:attempt:1"]}}"#);
    let options = ["--memory-grant", "write", "--memory-task", &task];
    let script = format!(
        "{CREATE}; pinfold-memory moltnet_create_entry '{}'",
        r#"{"title":"t","content":"c","diaryId":"22222222-2222-4333-8444-555555555555"}"#
    );
    let output = stage.run_shell(&options, &script);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains(&format!("does not match the active task diary \"{diary}\"")));
    assert_eq!(done(&stage, &["memory", "ls"]), "");
    let listed = done(&stage, &["memory", "ls", "--diary", diary, "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1);
    assert_eq!(listed["entries"][0]["tags"], serde_json::json!(["task:id:7", "task:attempt:1"]));
}

#[test]
fn doors_of_the_host_and_of_a_diary_are_not_mixed_up() {
    let stage = Stage::new(people()[0]);
    let script = "pinfold-memory moltnet_diary_tags; echo \"diary $?\"; \
        pinfold-host uname < /dev/null; echo \"host $?\"; command -v pinfold-memory";
    let output = stage.run_shell(&["--host-exec", "--memory-grant", "read"], script);
    let shown = text(&output);
    assert!(shown.contains("diary 0") && shown.contains("host 126"), "{shown}");
    assert!(shown.contains("/run/pinfold/bin/pinfold-memory"), "{shown}");
}

#[test]
fn sandbox_uses_the_diary_of_a_server_and_never_has_its_key() {
    let stage = Stage::new(people()[0]);
    let diary = ["--diary", "team"];
    done(&stage, &[&["memory", "add", "a first entry"], &diary[..]].concat());
    let key = done(&stage, &["memory", "key", "add", "far"]);
    let listen = [&["memory", "serve", "--listen", "127.0.0.1:0"], &diary[..]].concat();
    let mut serve = stage.pinfold(&listen);
    let serve = serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = serve.spawn().unwrap();
    let (mut address, mut said) = (String::new(), String::new());
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let id = said.trim().rsplit(' ').next().unwrap().to_owned();
    let settings = format!("memory = \"write\"\n\n[diary]\nserver = \"{}\"\n", address.trim());
    stage.write("home/.config/pinfold/config.toml", &settings);
    let run = |id: Option<&str>, script: &str| {
        let mut command = stage.pinfold(&["run", "--", "sh", "-c", script]);
        command.env("MOLTNET_AGENT_KEY", key.trim()).stdin(Stdio::null());
        command.envs(id.map(|id| ("MOLTNET_DIARY_ID", id))).output().unwrap()
    };
    let unnamed = run(None, "true");
    assert_eq!(unnamed.status.code(), Some(125), "{}", text(&unnamed));
    assert!(text(&unnamed).contains("hint: set MOLTNET_DIARY_ID"), "{}", text(&unnamed));

    let made = run(Some(&id), &format!("{CREATE}; env; cat /proc/self/environ"));
    assert!(made.status.success(), "{}", text(&made));
    assert!(!text(&made).contains(key.trim()), "the key is in the sandbox: {}", text(&made));
    let listed = done(&stage, &[&["memory", "ls", "--local"], &diary[..]].concat());
    assert!(listed.contains("Disk"), "{listed}");
    let found = run(Some(&id), r#"pinfold-memory moltnet_search_entries '{"query":"first"}'"#);
    assert!(text(&found).contains("a first entry"), "{}", text(&found));
    let audit = done(&stage, &["audit", "--json"]);
    let named = audit.lines().filter(|line| line.contains("moltnet_") && line.contains(&id));
    assert_eq!(named.count(), 2, "{audit}");

    server.kill().unwrap();
    server.wait().unwrap();
    let gone = run(Some(&id), r#"pinfold-memory moltnet_search_entries '{"query":"first"}'"#);
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone));
    assert!(text(&gone).contains("the server cannot be used"), "{}", text(&gone));
}
