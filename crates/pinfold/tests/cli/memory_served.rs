//! A diary that a server keeps, as its user has it on the command line.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Output, Stdio};

use pinfold_testkit::{Stage, people};
use serde_json::Value;

const SEED: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const PUBLIC: &str = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";
const SCOPES: &[&str] = &[
    "agent:profile",
    "diary:read",
    "diary:write",
    "diary:manage",
    "pack:read",
    "pack:write",
    "crypto:sign",
];

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn output(command: &mut std::process::Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn own(stage: &Stage, args: &[&str]) -> String {
    let output = output(&mut stage.pinfold(args));
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A served diary, and the credentials of one client of it.
struct Served<'a> {
    stage: &'a Stage,
    server: Child,
    address: String,
    diary: String,
    key: String,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl<'a> Served<'a> {
    fn new(stage: &'a Stage) -> Self {
        let scopes = SCOPES.iter().flat_map(|scope| ["--scope", scope]);
        let add = ["memory", "key", "add", "far", "--public-key", PUBLIC];
        let add: Vec<&str> = add.into_iter().chain(scopes).collect();
        let key = own(stage, &add);
        let listen = ["memory", "serve", "--diary", "team", "--listen", "127.0.0.1:0"];
        let mut serve = stage.pinfold(&listen);
        let serve = serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = serve.spawn().unwrap();
        let (mut address, mut said) = (String::new(), String::new());
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let diary = said.trim().rsplit(' ').next().unwrap().to_owned();
        let address = address.trim().to_owned();
        settings(stage, &address);
        Self { stage, server, address, diary, key: key.trim().to_owned() }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.stage.pinfold(&[&["memory"], args].concat());
        command.env("MOLTNET_AGENT_KEY", &self.key).env("MOLTNET_DIARY_ID", &self.diary);
        output(&mut command)
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
        text(&output)
    }
}

fn settings(stage: &Stage, address: &str) {
    let settings = format!("[diary]\nserver = \"{address}\"\n");
    stage.write("home/.config/pinfold/config.toml", &settings);
}

#[test]
fn diary_of_a_server_is_used_with_the_same_words() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        assert_eq!(served.done(&["ls"]), "");
        let id = served.done(&["add", "The disk was full.", "--title", "Disk", "--tag", "a"]);
        let id = id.trim();
        assert!(served.done(&["ls"]).contains("  Disk\n"));
        assert!(served.done(&["ls", "--diary", "team"]).contains("  Disk\n"));
        assert!(served.done(&["ls", "--diary", &served.diary]).contains("  Disk\n"));
        assert!(served.done(&["search", "disks"]).contains(id));
        assert_eq!(served.done(&["search", "disks -full"]), "");
        assert!(served.done(&["tags"]).contains("1  a"));
        assert!(served.done(&["show", id]).ends_with("\n\nThe disk was full.\n"));
        let shown: Value = serde_json::from_str(&served.done(&["show", id, "--json"])).unwrap();
        assert_eq!(shown["diaryId"], served.diary.as_str());
        let pack = served.done(&["pack", id, "--pin"]);
        let pack = pack.lines().next().unwrap();
        assert!(served.done(&["pack"]).contains("Disk"));
        assert!(served.done(&["render", pack]).contains("The disk was full."));
        assert!(served.done(&["provenance", pack]).contains("\"nodes\""));
        let newer = served.done(&["add", "It is empty now.", "--title", "New", "--supersedes", id]);
        assert!(!served.done(&["ls"]).contains("Disk"));
        assert!(served.done(&["ls", "--superseded"]).contains("Disk"));

        // From the server to this machine, and back.
        let exported = served.done(&["export"]);
        let file = stage.write("entries.jsonl", &exported);
        let file = file.to_str().unwrap();
        assert_eq!(served.done(&["import", "--local", file]), "2 of 2 entries were added\n");
        assert!(served.done(&["ls", "--local"]).contains("New"));
        served.done(&["rm", newer.trim()]);
        assert_eq!(
            served.done(&["import", file]),
            "1 of 2 entries were added; 1 were there already\n"
        );
        served.done(&["backup", stage.path("copy.db").to_str().unwrap()]);

        // The server's words, and this machine's.
        let missing = served.refused(&["show", "66666666-6666-4666-8666-666666666666"]);
        assert!(missing.contains("error: Not Found: Diary entry not found"), "{missing}");
        assert!(served.refused(&["add", ""]).contains("/content must not be empty"));
        assert!(served.refused(&["ls", "--diary", "nosuch"]).contains("called nosuch"));
        let unnamed = stage.pinfold(&["memory", "ls"]).env("MOLTNET_AGENT_KEY", "x").output();
        assert!(text(&unnamed.unwrap()).contains("hint: set MOLTNET_DIARY_ID"));
        let unknown = output(
            stage
                .pinfold(&["memory", "ls"])
                .env("MOLTNET_DIARY_ID", &served.diary)
                .env("MOLTNET_AGENT_KEY", "a-wrong-canary"),
        );
        assert!(text(&unknown).contains("rejected the credentials"), "{}", text(&unknown));
        assert!(!text(&unknown).contains("canary"));
        let audit = own(&stage, &["audit", "--json"]);
        assert!(audit.contains("serve:create_entry") && audit.contains("serve:remove_entry"));
    }
}

#[test]
fn identity_signs_what_it_adds_to_a_server() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let ws = stage.workspace();
        let init = stage.command("git").args(["init", "-q"]).current_dir(&ws).status();
        assert!(init.unwrap().success());
        let agents = stage.state().join("memory/agents.json");
        let agents: Value = serde_json::from_slice(&std::fs::read(agents).unwrap()).unwrap();
        let client = agents["agents"][0]["id"].as_str().unwrap();
        let moltnet = format!(
            r#"{{"identity_id":"{client}","keys":{{"private_key":"{SEED}","public_key":"{PUBLIC}"}},
                "oauth2":{{"client_id":"{client}","client_secret":"{}"}},"endpoints":{{"api":"{}"}}}}"#,
            served.key, served.address
        );
        let env = format!("MOLTNET_AGENT_NAME=builder\nMOLTNET_DIARY_ID={}\n", served.diary);
        for (name, content) in [("moltnet.json", &*moltnet), ("env", &*env)] {
            let path = stage.write(&format!("ws/.moltnet/builder/{name}"), content);
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
        }
        let memory = |args: &[&str]| {
            let identity = ["--identity", "builder"];
            own(&stage, &[&["memory"], args, &identity].concat())
        };
        let id = memory(&["add", "by hand", "--title", "Hand", "--sign"]);
        let shown = memory(&["show", id.trim()]);
        let signed = format!("signed by:  FE81-2C12-F3AB-4CE6 (identity {client})\n");
        assert!(shown.contains(&signed), "{shown}");
        let plain = memory(&["add", "not signed"]);
        assert!(!memory(&["show", plain.trim()]).contains("signed by"));
        assert!(served.refused(&["rm", id.trim()]).contains("immutable"));

        // So does a session of the identity.
        let run = ["run", "--identity", "builder", "--memory-grant", "write", "--", "sh", "-c"];
        let script = r#"pinfold-memory moltnet_create_entry '{"title":"Inside","content":"c"}'"#;
        let made = own(&stage, &[&run[..], &[script]].concat());
        let made: Value = serde_json::from_str(&made).unwrap();
        let shown = memory(&["show", made["id"].as_str().unwrap()]);
        assert!(shown.contains(&signed), "{shown}");

        // A file that is changed outside of pinfold is an error, for every command that reads it.
        let other = own(
            &stage,
            &["memory", "show", made["id"].as_str().unwrap(), "--local", "--diary", "team"],
        );
        assert!(other.contains(&signed), "{other}");
    }
}

#[test]
fn words_of_a_hostile_server_drive_no_terminal_and_show_no_key() {
    let stage = Stage::new(people()[0]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    settings(&stage, &format!("http://{}", listener.local_addr().unwrap()));
    let diary = "22222222-2222-4222-8222-222222222222";
    let entry = |more: &str| {
        format!(
            r#"{{"results":[{{"id":"{diary}","diaryId":"{diary}","title":"x\u001b]0;owned\u0007","content":"a\u009b2J",
                "createdAt":"2026-01-01T00:00:00Z"{more}}}]}}"#
        )
    };
    let problem = r#"{"title":"\u001b[2Jno","detail":"\u202e the-key-canary \u0007"}"#;
    let answers = [
        ("403", problem.to_owned()),
        ("200", entry("")),
        (
            "200",
            entry(
                r#","contentHash":"bafkreiffzrhzip7nri65lsjh2nr7g2ygsosdpk7x5ebfxctsiwvsfgfnsi""#,
            ),
        ),
        ("200", r#"{"results":[["#.repeat(100_000)),
        ("200", "[".repeat(1 << 20)),
        ("200", "{}".to_owned()),
        ("302", "{}".to_owned()),
        ("200", format!(r#"{{"results":"{}"}}"#, "x".repeat(20 << 20))),
    ];
    let count = answers.len();
    let server = std::thread::spawn(move || {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0_u8; 4096];
            let _ = stream.read(&mut request);
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nlocation: http://127.0.0.1:1/\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body.as_bytes());
        }
    });
    for number in 0..count {
        let mut ls = stage.pinfold(&["memory", "ls"]);
        ls.env("MOLTNET_AGENT_KEY", "the-key-canary").env("MOLTNET_DIARY_ID", diary);
        let output = output(&mut ls);
        let shown = text(&output);
        assert_eq!(output.status.success(), number == 1, "{number}: {shown:.500}");
        assert!(!shown.contains("canary"), "{number}: {shown:.500}");
        let is_plain =
            |letter: char| letter == '\n' || !letter.is_control() && letter != '\u{202e}';
        assert!(shown.chars().all(is_plain), "{number}: {shown:?}");
    }
    server.join().unwrap();
}

#[test]
fn hostile_sandbox_gets_nothing_of_a_server_but_its_diary() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let hidden = own(&stage, &["memory", "add", "HOST-ONLY", "--local", "--diary", "other"]);
    let id =
        own(&stage, &["memory", "show", hidden.trim(), "--json", "--local", "--diary", "other"]);
    let id: Value = serde_json::from_str(&id).unwrap();
    let (entry, other) = (id["id"].as_str().unwrap(), id["diaryId"].as_str().unwrap());
    served.done(&["add", "of the team", "--title", "Team"]);
    let script = format!(
        r#"
        try() {{ echo "== $1"; printf '%s' "$2" | pinfold-memory "$1" -; echo "= $?"; }}
        try moltnet_get_entry '{{"entryId":"{entry}"}}'
        try moltnet_get_entry '{{"entryId":"../diaries"}}'
        try moltnet_get_entry '{{"entryId":"{entry}/../../crypto/identity"}}'
        try moltnet_create_entry '{{"title":"t","content":"c","diaryId":"{other}"}}'
        try moltnet_search_entries '{{"query":"x","diaryId":"{other}","limit":100}}'
        try moltnet_list_entries '{{"tags":["a&diaryId={other}"]}}'
        try moltnet_pack_provenance '{{"packCid":"../../agents/whoami"}}'
        try moltnet_pack_create '{{"entries":[{{"entryId":"{entry}","rank":1}}],"force":true,"supersedesPackId":"{entry}"}}'
        try moltnet_create_entry '{{"title":"t","content":"c","signingRequestId":"{entry}","contentHash":"bafkx"}}'
        try crypto_sign '{{"message":"send all my money"}}'
        head -c 12000000 /dev/zero | tr '\0' x | pinfold-memory moltnet_create_entry -; echo "= $?"
        for n in 1 2 3 4 5 6 7 8 9 10; do pinfold-memory moltnet_diary_tags '{{}}' >/dev/null & done; wait
        env | grep -i moltnet; cat /proc/*/environ 2>/dev/null | tr '\0' '\n' | grep -i moltnet_agent
        (echo > /dev/tcp/{}) 2>/dev/null && echo REACHED
        true
        "#,
        served.address.trim_start_matches("http://").replace(':', "/")
    );
    let run = ["run", "--memory-grant", "write", "--", "bash", "-c", &script];
    let mut command = stage.pinfold(&run);
    command.env("MOLTNET_AGENT_KEY", &served.key).env("MOLTNET_DIARY_ID", &served.diary);
    let output = output(&mut command);
    let shown = text(&output);
    assert!(output.status.success(), "{shown}");
    for never in ["HOST-ONLY", &served.key, "REACHED", "MOLTNET_AGENT"] {
        assert!(!shown.contains(never), "{never}: {shown}");
    }
    // A search and a list ignore what they do not know, and an entry is added without the signature that it claims.
    let statuses: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("= ")).collect();
    assert_eq!(statuses, ["1", "1", "1", "1", "0", "0", "1", "1", "0", "1", "2"], "{shown}");
    let made = served.done(&["ls", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["entries"].as_array().unwrap().len(), 2, "{made:#}");
    assert!(made["entries"].as_array().unwrap().iter().all(|it| it["contentSignature"].is_null()));
    let packs = served.done(&["pack"]);
    assert_eq!(packs, "");
}
