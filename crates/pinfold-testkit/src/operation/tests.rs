//! The tools that real clients offer, and what they get.

use super::*;
use crate::TempRepo;

fn tools(list: &[(&str, &[&str])]) -> Tools {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    list.iter().map(|(name, parameters)| ((*name).to_owned(), own(parameters))).collect()
}

fn edit_of(old: &str, new: &str) -> Operation {
    let (path, old, new) = ("a/x.txt".to_owned(), old.to_owned(), new.to_owned());
    Operation::Edit(EditFile { path, old, new })
}

#[test]
fn each_client_gets_its_own_shell() {
    let bash = Operation::Bash("ls 'x'".to_owned());
    for (offered, name, input) in [
        (tools(&[("bash", &["command"])]), "bash", json!({ "command": "ls 'x'" })),
        (
            tools(&[("Bash", &["command", "description"])]),
            "Bash",
            json!({ "command": "ls 'x'", "description": "Run a scripted command" }),
        ),
        (tools(&[("exec_command", &["cmd"])]), "exec_command", json!({ "cmd": "ls 'x'" })),
        (
            tools(&[("shell", &["command"])]),
            "shell",
            json!({ "command": ["bash", "-lc", "ls 'x'"] }),
        ),
        (
            tools(&[("exec", &[])]),
            "exec",
            json!(
                "const r = await tools.exec_command({cmd: \"ls 'x'\"});\n\
                 text(r.output ?? JSON.stringify(r));\n"
            ),
        ),
    ] {
        assert_eq!(bash.translate(&offered, None), Some((name.to_owned(), input)));
    }
    assert_eq!(bash.translate(&tools(&[("read", &["path"])]), None), None);
}

#[test]
fn each_client_gets_its_own_edit() {
    let edit = edit_of("a", "b");
    let claude = tools(&[("Edit", &["file_path", "old_string", "new_string"])]);
    let input = json!({ "file_path": "/w/a/x.txt", "old_string": "a", "new_string": "b" });
    assert_eq!(edit.translate(&claude, Some("/w/")), Some(("Edit".to_owned(), input)));
    let pi = tools(&[("edit", &["path", "edits"])]);
    let input = json!({ "path": "a/x.txt", "edits": [{ "oldText": "a", "newText": "b" }] });
    assert_eq!(edit.translate(&pi, Some("/w")), Some(("edit".to_owned(), input)));
    let opencode = tools(&[("edit", &["filePath", "oldString", "newString"])]);
    let input = json!({ "filePath": "/w/a/x.txt", "oldString": "a", "newString": "b" });
    assert_eq!(edit.translate(&opencode, Some("/w")), Some(("edit".to_owned(), input)));
    let codex = tools(&[("apply_patch", &[]), ("exec_command", &["cmd"])]);
    let patch = "*** Begin Patch\n*** Update File: a/x.txt\n@@\n-a\n+b\n*** End Patch\n";
    assert_eq!(edit.translate(&codex, None), Some(("apply_patch".to_owned(), json!(patch))));
}

#[test]
fn an_edit_by_shell_needs_nothing_but_a_posix_userland() {
    let repo = TempRepo::new();
    let shell = tools(&[("bash", &["command"])]);
    let run = |old, new| {
        let (_, input) = edit_of(old, new).translate(&shell, None).unwrap();
        repo.run("sh", &["-c", input["command"].as_str().unwrap()]).status.success()
    };
    repo.write("a/x.txt", "one\n  $2 'two' \\n & \"three\"\nfour\n");
    assert!(run("$2 'two' \\n & \"three\"\nfo", "it's \\1 & $(x)"));
    assert_eq!(repo.read("a/x.txt"), "one\n  it's \\1 & $(x)ur\n");
    assert!(!run("absent", "x"));
    assert_eq!(repo.read("a/x.txt"), "one\n  it's \\1 & $(x)ur\n");
}
