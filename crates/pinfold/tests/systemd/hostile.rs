//! The attempts of the area `hostile`, as another user in a unit. That each would succeed outside is shown there.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use pinfold_testkit::systemd::{PINFOLD, Systemd, own};
use pinfold_testkit::{installed, python_program, skip};
use serde_json::{Value, json};

use crate::{nothing_is_left, system, text};

/// Parts of one program.
const PARTS: [&str; 9] = [
    include_str!("../hostile/hostile/driver.py"),
    include_str!("../hostile/hostile/files.py"),
    include_str!("../hostile/hostile/metadata.py"),
    include_str!("../hostile/hostile/procfs.py"),
    include_str!("../hostile/hostile/processes.py"),
    include_str!("../hostile/hostile/network.py"),
    include_str!("../hostile/hostile/kernel.py"),
    include_str!("../hostile/hostile/surroundings.py"),
    include_str!("../hostile/hostile/granted.py"),
];
const HOST: &str = include_str!("../hostile/hostile/host.py");
/// What the boundary adds to the environment.
const OWN_VARIABLES: &str = "['GOMODCACHE', 'npm_config_cache']";
const MARKER: &str = "the-caller-knows-8c1d";
/// What the attempts look for lies there.
const BASE: &str = "/home/alice/work/h";

/// A shell line of alice's, with a home below the project root.
fn alice(system: &Systemd, line: &str) -> Command {
    let mut command = system.as_user("alice");
    let line = format!("cd {BASE}/ws && export HOME={BASE}/home PINFOLD_MARKER={MARKER} && {line}");
    command.args(["sh", "-c", &line]);
    command
}

#[test]
fn every_attempt_of_a_hostile_program_in_a_unit_is_refused() {
    let test = "every_attempt_of_a_hostile_program_in_a_unit_is_refused";
    if !installed("python3") {
        return skip(test, "the attempts need python3");
    }
    let Some(system) = system(test) else { return };
    for name in ["home", "other", "ws", "readable", "writable"] {
        system.project("alice", &format!("{BASE}/{name}"));
    }
    assert!(system.shell("root", "install -d -m 1777 /var/tmp").status.success());
    let write = |name: &str, content: &str| {
        let path = system.path(BASE).join("ws").join(name);
        fs::write(&path, content).unwrap();
        own(&path, "alice");
    };
    write("host.py", HOST);
    write("hostile.py", &python_program(&PARTS));
    let mut secret = alice(&system, &format!("exec {PINFOLD} secret set anthropic"));
    let mut secret = secret.stdin(Stdio::piped()).spawn().unwrap();
    secret.stdin.take().unwrap().write_all(b"sk-ant-api03-not-a-real-key-5f0e").unwrap();
    assert!(secret.wait().unwrap().success());

    let line =
        format!("export PINFOLD_VICTIM=the-victim-is-alive-77aa; exec python3 host.py {BASE}");
    let mut host = alice(&system, &line);
    let mut host = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut facts = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut facts).unwrap();
    let mut facts: Value = serde_json::from_str(&facts).unwrap();
    for (name, value) in
        [("marker", json!(MARKER)), ("own_kernel", json!(false)), ("outside", json!(false))]
    {
        facts[name] = value;
    }
    write("facts.json", &facts.to_string());

    let line = format!(
        "exec {PINFOLD} run --boundary systemd --read {BASE}/readable --write {BASE}/writable -- \
         /usr/bin/python3 -I {BASE}/ws/hostile.py {BASE}/ws/facts.json"
    );
    let output = alice(&system, &line).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() > 200, "{} attempts", lines.len());
    let is_right = |line: &&Value| match line["outside"].as_str().unwrap() {
        "granted" => line["outcome"] == "breach",
        _ => line["outcome"] == "refused" || line["detail"] == OWN_VARIABLES,
    };
    let wrong: Vec<String> =
        lines.iter().filter(|line| !is_right(line)).map(Value::to_string).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(host.try_wait().unwrap().is_none(), "the host's process did not survive");
    drop(host.stdin.take());
    assert!(host.wait().unwrap().success());
    nothing_is_left(&system);
}
