//! What the command line shows, word for word. `INSTA_UPDATE=always` writes it again.

use std::process::Output;

use pinfold_testkit::{Stage, people};

/// Returns the status and both streams of a command, without what differs from run to run.
fn shown(stage: &Stage, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = stage.pinfold(args).output().unwrap();
    let text = |bytes: &[u8]| steady(&String::from_utf8_lossy(bytes), stage);
    let code = status.code().unwrap();
    format!("$ pinfold {}\n{}{}[{code}]\n", args.join(" "), text(&stdout), text(&stderr))
}

/// Replaces the stage's directory and the ids of sessions.
fn steady(text: &str, stage: &Stage) -> String {
    let text = text.replace(&*stage.base().to_string_lossy(), "[STAGE]");
    let is_id = |word: &str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_alphanumeric());
    let word = |word: &str| {
        let bare = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        if is_id(bare) { word.replace(bare, "[SESSION]") } else { word.to_owned() }
    };
    words.map(word).collect()
}

fn all(stage: &Stage, commands: &[&[&str]]) -> String {
    commands.iter().map(|args| shown(stage, args)).collect::<Vec<_>>().join("\n")
}

#[test]
fn empty_lists_say_so() {
    let stage = Stage::new(people()[0]);
    let lists: [&[&str]; 13] = [
        &["ps"],
        &["ps", "--all"],
        &["adopt"],
        &["hide"],
        &["snapshot", "ls"],
        &["secret", "ls"],
        &["trust", "--list"],
        &["approvals"],
        &["audit"],
        &["task", "ls"],
        &["task", "group", "ls"],
        &["memory", "ls"],
        &["memory", "pack"],
    ];
    insta::assert_snapshot!(all(&stage, &lists));
}

#[test]
fn common_errors_say_what_to_do() {
    let stage = Stage::new(people()[0]);
    let commands: [&[&str]; 12] = [
        &["run"],
        &["run", "clade"],
        &["run", "claude"],
        &["exec", "night", "--", "true"],
        &["attach", "night"],
        &["wait", "night"],
        &["logs", "night"],
        &["stop", "night"],
        &["allow", "example.org", "--session", "night"],
        &["approvals", "--session", "night"],
        &["diff"],
        &["adopt", "missing"],
    ];
    insta::assert_snapshot!(all(&stage, &commands));
}

#[test]
fn origins_of_settings_name_their_files() {
    let stage = Stage::new(people()[0]);
    stage.write("home/.config/pinfold/config.toml", "[resources]\nmemory = \"2G\"\n");
    stage.write("ws/sandbox.json", "{\"resources\": {\"timeout\": \"1h\"}}\n");
    insta::assert_snapshot!(shown(&stage, &["config", "--origins"]));
}

#[test]
fn lists_show_live_and_ended_sessions() {
    let stage = Stage::new(people()[0]);
    let commands: [&[&str]; 4] = [
        &["run", "--detach", "--idle", "--name", "night"],
        &["ps"],
        &["stop", "night"],
        &["ps", "--all"],
    ];
    // How wide a column is depends on the stage's directory.
    let narrow = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.collect::<Vec<_>>().join("  ")
    };
    let lines: Vec<String> = all(&stage, &commands).lines().map(narrow).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_end_of_a_run_names_what_the_host_would_run() {
    let stage = Stage::new(people()[0]);
    let changes =
        "echo all: >Makefile; echo x >.envrc; git init -q new; git -C new config core.fsmonitor x";
    insta::assert_snapshot!(shown(&stage, &["run", "--", "sh", "-c", changes]));
}

#[test]
fn the_end_of_a_run_names_what_waits() {
    let stage = Stage::new(people()[0]);
    let view = ["run", "--workspace", "overlay", "--apply", "never", "--", "touch", "new"];
    let timeout = ["run", "--timeout", "1s", "--", "sleep", "60"];
    let missing = ["run", "--", "/no-such-program"];
    insta::assert_snapshot!(all(&stage, &[&view, &timeout, &missing]));
}
