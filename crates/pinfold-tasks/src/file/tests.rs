use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use pinfold_policy::document::SettingsFile;
use proptest::prelude::*;

use super::{from_stored, load_task, read_task, to_stored};
use crate::spec::TaskSpec;
use crate::testing::id;

fn read(text: impl AsRef<[u8]>) -> Result<TaskSpec, String> {
    let file = SettingsFile { path: Path::new("t.md"), bytes: text.as_ref() };
    read_task(file).map_err(|error| error.to_string())
}

fn error(text: impl AsRef<[u8]>) -> String {
    read(text).unwrap_err()
}

/// Returns a task that asks for all that there is.
fn everything() -> String {
    format!(
        r#"+++
title = "Fix the parser"
repository = "/src/app"
base = "main"
branch = "fix/parser"
agent = "claude"
provider = "bedrock"
model = "claude-sonnet-4-6"
identity = "night"
group = "dev"
workspace = "overlay"
verify = ["make test", "scripts/lint --all"]
depends = ["{}"]
priority = 7
attempts = 5

[limits]
cpus = 1.5
memory = "4G"
pids = 500
disk = "2G"
time = "30m"

[budget]
usd = 2.5
tokens = 100000
requests = 50

[timeouts]
dispatch = "1m"
running = "3h"
+++
# The parser

It fails on `a---b`.
"#,
        id(9)
    )
}

#[test]
fn toml_front_matter_may_ask_for_all_there_is() {
    let task = read(everything()).unwrap();
    assert_eq!(task.title, "Fix the parser");
    assert_eq!(task.brief, "# The parser\n\nIt fails on `a---b`.");
    assert_eq!(task.depends, [id(9)]);
    assert_eq!(task.verify.len(), 2);
    assert_eq!((task.priority, task.attempts), (7, 5));
    assert_eq!(task.budget.usd.unwrap().to_string(), "$2.50");
    assert_eq!(task.timeouts.running, Duration::from_secs(3 * 3_600));
}

#[test]
fn yaml_front_matter_is_read_as_toml_is() {
    let yaml = format!(
        "---\n# a comment\ntitle: Fix the parser\nrepository: /src/app\nbase: main\nbranch: fix/parser\n\
         agent: claude\nprovider: bedrock\nmodel: 'claude-sonnet-4-6'\nidentity: night\ngroup: dev\nworkspace: overlay\n\
         verify:\n  - make test\n  - \"scripts/lint --all\"\ndepends: [{}]\npriority: 7\nattempts: 5\n\
         limits: {{cpus: 1.5, memory: 4G, pids: 500, disk: 2G, time: 30m}}\n\
         budget:\n  usd: 2.5\n  tokens: 100000\n  requests: 50\n\
         timeouts: {{dispatch: 1m, running: 3h}}\n---\n# The parser\n\nIt fails on `a---b`.\n",
        id(9)
    );
    assert_eq!(read(yaml), read(everything()));
}

#[test]
fn stored_task_is_read_back() {
    for task in [read(everything()).unwrap(), TaskSpec::new("t", ""), TaskSpec::new("t", "ä\n\"'")]
    {
        assert_eq!(from_stored(&to_stored(&task)).unwrap(), task);
    }
}

#[test]
fn stored_task_of_a_newer_program_is_refused() {
    let stored = to_stored(&TaskSpec::new("t", "b")).replace("priority", "sandbox");
    let error = from_stored(&stored).unwrap_err().to_string();
    assert!(error.contains("task.sandbox: unknown key"), "{error}");
}

#[test]
fn file_without_front_matter_is_a_brief_with_a_title() {
    let task = read("\n## Fix it\r\n\r\nSoon.\n").unwrap();
    assert_eq!((task.title.as_str(), task.brief.as_str()), ("Fix it", "## Fix it\r\n\r\nSoon."));
    assert_eq!(read("Just do it").unwrap().title, "Just do it");
    let long = read("ä".repeat(500)).unwrap();
    assert_eq!(long.title.len(), 254);
}

#[test]
fn title_shows_nothing_that_drives_a_terminal() {
    assert_eq!(read("Fix\u{202e} it").unwrap().title, "Fix it");
    assert!(error("+++\ntitle = \"a\\u001b[2J\"\n+++\n").contains("does not show"));
}

#[test]
fn unknown_key_is_named_with_the_one_that_was_meant() {
    assert_eq!(
        error("+++\n\nverifyy = []\n+++\n"),
        "t.md:3: verifyy: unknown key; did you mean `verify`?"
    );
    assert_eq!(
        error("---\n\nverifyy: []\n---\n"),
        "t.md:3: verifyy: unknown key; did you mean `verify`?"
    );
    assert_eq!(
        error("---\nlimits:\n  memoryy: 4G\n---\n"),
        "t.md:3: limits.memoryy: unknown key; did you mean `memory`?"
    );
}

#[test]
fn wrong_values_are_named_with_line_and_key() {
    for (front, expected) in [
        ("priority = 2000", "t.md:2: priority: expected at most 1000"),
        ("attempts = 0", "t.md:2: attempts: expected at least 1"),
        ("agent = \"../x\"", "t.md:2: agent: expected letters, digits, '.', '_' and '-'"),
        ("agent = \"-p\"", "t.md:2: agent: expected letters, digits, '.', '_' and '-'"),
        ("model = \"--help\"", "t.md:2: model: begins with '-'"),
        ("repository = \"src\"", "t.md:2: repository: expected an absolute path"),
        ("repository = \"/a/../b\"", "t.md:2: repository: expected an absolute path"),
        ("verify = \"make\"", "t.md:2: verify: expected a list, found text"),
        ("verify = [\" \"]", "t.md:2: verify[0]: is empty"),
        ("timeouts.running = \"2days\"", "t.md:2: timeouts.running: expected between 1s and 1day"),
        ("budget.usd = -1", "t.md:2: budget.usd: expected an amount in USD, such as 2.50"),
        ("budget.usd = nan", "t.md:2: budget.usd: expected an amount in USD, such as 2.50"),
        ("depends = [\"x\"]", "t.md:2: depends[0]: expected a task's id, such as"),
    ] {
        let error = error(format!("+++\n{front}\n+++\nbrief\n"));
        assert!(error.starts_with(expected), "{front}: {error}");
    }
}

#[test]
fn front_matter_that_lies_is_refused() {
    for (text, expected) in [
        ("---\ntitle: x\n", "t.md:1: the front matter does not end: no line `---` follows"),
        ("+++\ntitle = 1\n---\n", "t.md:1: the front matter does not end: no line `+++` follows"),
        ("---\na: &a x\n---\n", "t.md:2: anchors are not supported"),
        ("---\na: *a\n---\n", "t.md:2"),
        ("---\ntitle: !!binary aGk=\n---\n", "t.md:2: tags are not supported"),
        ("---\ntitle: a\ntitle: b\n---\n", "t.md:3: key \"title\" appears twice; keep one"),
        ("---\ntitle: a\n...\ntitle: b\n---\n", "t.md:4: holds more than one document"),
        ("---\n? [a]\n: b\n---\n", "t.md:2: expected a key that is text"),
        ("---\n- a\n---\n", "t.md:1: expected a table, found a list"),
        ("---\ntitle: yes\nverify: no\n---\n", "t.md:3: verify: expected a list, found text"),
        ("\u{feff}---\ntitle: x\n---\n", "t.md:1: begins with a byte order mark"),
        ("", "t.md:1: the task has neither a title nor a brief"),
        ("---\n---\n", "t.md:3: the task has neither a title nor a brief"),
    ] {
        let error = error(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("---\na: {}{}\n---\n", "[".repeat(10_000), "]".repeat(10_000));
    assert!(error(deep).starts_with("t.md:2"));
}

#[test]
fn what_is_not_text_is_refused() {
    assert_eq!(error(b"# x\n\xff\xfe"), "t.md:2: not UTF-8 text");
    assert!(
        error("+++\n+++\nok\nno\u{0}").starts_with("t.md:4: the brief has a control character")
    );
}

#[test]
fn long_parts_are_refused() {
    let brief = "x".repeat(TaskSpec::LONGEST_BRIEF + 1);
    assert_eq!(error(&brief), "t.md:1: the brief has more than 1024 KiB");
    let front = format!("+++\n#{}\n+++\n", "x\n#".repeat(64 << 10));
    assert_eq!(error(front), "t.md:1: the front matter has more than 64 KiB");
    let many = format!("+++\nverify = [{}]\n+++\n", "\"x\",".repeat(65));
    assert_eq!(error(many), "t.md:2: verify: has more than 64 items");
}

#[test]
fn files_that_are_not_tasks_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("task.md");
    let refusal = |path: &Path| load_task(path).unwrap_err();
    assert!(refusal(&path).to_string().contains("cannot read task"));
    assert!(refusal(directory.path()).to_string().ends_with("it is not a regular file"));
    fs::write(&path, vec![b'x'; 10 << 20]).unwrap();
    let large = refusal(&path);
    assert!(large.to_string().ends_with("it has more than 1088 KiB"), "{large}");
    assert!(large.hint().is_some());
    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert!(load_task(&socket).is_err());
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(refusal(&fifo).to_string().ends_with("it is not a regular file"));
    fs::write(&path, "Do it.").unwrap();
    assert_eq!(load_task(&path).unwrap().brief, "Do it.");
}

proptest! {
    #[test]
    fn any_bytes_are_a_task_or_a_named_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = read(&bytes) {
            prop_assert!(error.starts_with("t.md:"), "{}", error);
        }
    }

    #[test]
    fn any_yaml_is_a_task_or_a_named_error(text in "[-a-e:&*!?\\[\\]{}'\"#|>, \n\t0-9.~]{0,200}") {
        if let Err(error) = read(format!("---\n{text}\n---\nbrief\n")) {
            prop_assert!(error.starts_with("t.md:"), "{}", error);
        }
    }

    #[test]
    fn what_is_read_is_stored_and_read_back(title in "[ -~]{1,60}", brief in "\\PC{0,200}") {
        let task = TaskSpec::new(&title, &brief);
        if let Ok(stored) = from_stored(&to_stored(&task)) {
            prop_assert_eq!(stored, task);
        } else {
            prop_assert!(title.trim().is_empty());
        }
    }
}
