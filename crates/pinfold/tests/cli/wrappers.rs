//! Every launch goes through the wrappers of the user's settings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use pinfold_testkit::{Stage, installed, people, skip};
use serde_json::{Value, json};

/// Changes a launch in every way that a wrapper may, and writes down what it was sent.
const CHANGES: &str = r#"#!/usr/bin/python3
import json, sys
launch = sys.stdin.read()
context = json.loads(launch)
with open(sys.argv[1], "a") as notes:
    notes.write(launch + "\n")
context["args"] = [context["command"], *context["args"], "added"]
context["command"] = "/usr/bin/env"
context["env"]["BY_A_WRAPPER"] = "yes"
if context["boundary"] != "host":
    context["cwd"] = "/"
print(json.dumps(context))
"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn errors(output: &Output) -> String {
    text(&output.stderr)
}

fn script(stage: &Stage, name: &str, content: &str) -> String {
    let path = stage.write(name, content);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The settings with these wrappers: id, command, label.
fn settings(stage: &Stage, wrappers: &[(&str, &[&str], Option<&str>)]) {
    let entry = |(id, command, label): &(&str, &[&str], Option<&str>)| {
        let label = label.map(|label| format!("label = {}\n", json!(label))).unwrap_or_default();
        format!("[[wrappers]]\nid = {}\ncommand = {}\n{label}", json!(id), json!(command))
    };
    let all: Vec<String> = wrappers.iter().map(entry).collect();
    stage.write("home/.config/pinfold/config.toml", all.concat());
}

/// What the audit log has of launches.
fn launches(stage: &Stage) -> Vec<Value> {
    let log = fs::read_to_string(stage.state().join("audit.jsonl")).unwrap();
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["event"] == "launch").collect()
}

#[test]
fn a_command_is_what_the_wrappers_make_of_it_and_says_so() {
    if !installed("python3") {
        return skip("wrappers", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let program = script(&stage, "other/wrap.py", CHANGES);
        let notes = stage.path("other/notes");
        let notes = notes.to_str().unwrap();
        let command = [program.as_str(), notes];
        settings(&stage, &[("first", &command, None), ("second", &command, Some("The Second"))]);
        let line = "pwd; echo $BY_A_WRAPPER $PINFOLD_HANDLED_BY; echo \"$@\"";
        let output = stage.run(&[], &["sh", "-c", line, "sh", "own"]);
        let said = text(&output.stdout);
        assert_eq!(said, "/\nyes namespace + first + The Second\nown added added\n");
        let launch = launches(&stage).pop().unwrap();
        assert_eq!(launch["handled_by"], json!(["namespace", "first", "The Second"]));
        assert_eq!(launch["argv"][0], "/usr/bin/env");
        assert_eq!(launch["cwd"], "/");

        let lines = fs::read_to_string(notes).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((&first["command"], &first["boundary"]), (&json!("sh"), &json!("namespace")));
        assert_eq!(first["args"], json!(["-c", line, "sh", "own"]));
        assert_eq!((&first["wrappers"], &first["shell"]), (&json!([]), &Value::Null));
        assert_eq!(
            (&second["wrappers"], &second["command"]),
            (&json!(["first"]), &json!("/usr/bin/env"))
        );
        let grants = first["subject"]["grants"].as_array().unwrap();
        let workspace = stage.workspace();
        let is_workspace = |grant: &&Value| grant["host"] == workspace.to_str().unwrap();
        let grant = grants.iter().find(is_workspace).unwrap();
        assert!(grant["access"].as_array().unwrap().contains(&json!("write")), "{grant}");
    }
}

#[test]
fn programs_on_the_host_are_wrapped_and_recorded() {
    if !installed("python3") {
        return skip("wrappers on the host", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let program = script(&stage, "other/wrap.py", CHANGES);
        let notes = stage.path("other/notes");
        let set = ["secret", "set", "token", "--from-command", "/bin/echo", "a-secret"];
        let set = stage.pinfold(&set).output().unwrap();
        assert!(set.status.success(), "{}", errors(&set));
        let command = [program.as_str(), notes.to_str().unwrap()];
        settings(&stage, &[("host", &command, Some("on the host"))]);
        let check = stage.pinfold(&["secret", "check", "token"]).output().unwrap();
        assert!(check.status.success(), "{}", errors(&check));
        let launch = launches(&stage).pop().unwrap();
        assert_eq!(launch["handled_by"], json!(["host", "on the host"]));
        assert_eq!(launch["argv"], json!(["/usr/bin/env", "/bin/echo", "a-secret", "added"]));
        assert_eq!(launch["session"], Value::Null);
    }
}

#[test]
fn a_wrapper_that_fails_refuses_the_launch() {
    let stage = Stage::new(people().pop().unwrap());
    for (line, expected) in [
        ("echo broken >&2; exit 3", "the wrapper the-wrapper failed with status 3: broken"),
        ("echo '{}'", "the wrapper the-wrapper gave an answer that is not a launch: "),
    ] {
        let program = script(&stage, "other/bad.sh", &format!("#!/bin/sh\n{line}\n"));
        settings(&stage, &[("the-wrapper", &[&program], None)]);
        let output = stage.run(&[], &["touch", "launched"]);
        assert_eq!(output.status.code(), Some(125), "{line}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{line}: {}", errors(&output));
        assert!(!stage.path("ws/launched").exists(), "{line}");
    }
}

#[test]
fn a_wrapper_that_others_can_change_is_not_asked() {
    for user in people() {
        let stage = Stage::new(user);
        let refused = |command: &[&str], expected: &str| {
            settings(&stage, &[("weak", command, None)]);
            let errors = errors(&stage.run(&[], &["true"]));
            assert!(errors.contains("the wrapper weak cannot be trusted"), "{errors}");
            assert!(errors.contains(expected), "{errors}");
        };
        let inside = script(&stage, "ws/wrap.sh", "#!/bin/sh\ncat\n");
        refused(&[&inside], "by a session");
        refused(&["/bin/sh", &inside], "by a session");
        let link = stage.path("other/link");
        std::os::unix::fs::symlink(&inside, &link).unwrap();
        refused(&[link.to_str().unwrap()], "by a session");
        // What lies outside of everything that is granted, by a link that the sandbox may turn.
        let turned = stage.path("ws/turned");
        std::os::unix::fs::symlink("/bin/cat", &turned).unwrap();
        let chain = stage.path("other/chain");
        std::os::unix::fs::symlink(&turned, &chain).unwrap();
        refused(&[chain.to_str().unwrap()], "by a session");
        refused(&["/bin/sh", chain.to_str().unwrap()], "by a session");
        let shared = script(&stage, "other/shared.sh", "#!/bin/sh\ncat\n");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        refused(&[&shared], "by other users");
    }
}

#[test]
fn a_wrapper_by_a_relative_path_or_of_a_repository_is_a_mistake_in_the_settings() {
    let stage = Stage::new(people().pop().unwrap());
    settings(&stage, &[("relative", &["wrap.sh"], None)]);
    let relative = errors(&stage.run(&[], &["true"]));
    assert!(relative.contains("absolute path"), "{relative}");
    fs::remove_file(stage.path("home/.config/pinfold/config.toml")).unwrap();
    stage.write("ws/sandbox.json", r#"{"wrappers": [{"id": "a", "command": ["/bin/cat"]}]}"#);
    let output = stage.run(&[], &["true"]);
    assert!(
        !output.status.success() && errors(&output).contains("wrappers"),
        "{}",
        errors(&output)
    );
}

#[test]
fn programs_before_and_next_to_the_command_are_wrapped_and_shown_by_ps() {
    if !installed("python3") {
        return skip("wrappers of exec", "python3 is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let program = script(&stage, "other/wrap.py", CHANGES);
        let notes = stage.path("other/notes");
        settings(&stage, &[("second", &[&program, notes.to_str().unwrap()], None)]);
        let before = r#"{"resumeCommands": ["echo $BY_A_WRAPPER > $PINFOLD_WORKSPACE/before"]}"#;
        stage.write("ws/sandbox.json", before);
        let mut started = stage.pinfold(&["run", "--detach", "--", "sh", "-c", "sleep 1000"]);
        let started = started.output().unwrap();
        let id = text(&started.stdout).trim().to_owned();
        assert!(started.status.success(), "{}", errors(&started));
        let said = |args: &[&str]| text(&stage.pinfold(args).output().unwrap().stdout);
        let exec = said(&["exec", &id, "--", "sh", "-c", "echo $BY_A_WRAPPER $PINFOLD_HANDLED_BY"]);
        let list: Value = serde_json::from_str(&said(&["ps", "--json"])).unwrap();
        let shown = said(&["ps"]);
        stage.pinfold(&["stop", &id]).output().unwrap();
        assert_eq!(exec, "yes namespace + second\n");
        assert_eq!(fs::read_to_string(stage.path("ws/before")).unwrap(), "yes\n");
        assert_eq!(list[0]["handled_by"], json!(["namespace", "second"]));
        assert!(shown.contains("namespace + second"), "{shown}");
        let handled =
            launches(&stage).iter().filter(|one| one["handled_by"][1] == "second").count();
        assert_eq!(handled, 3);
    }
}
