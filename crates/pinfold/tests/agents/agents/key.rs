//! The real key is nowhere inside: looked for from inside, and by root in the memory of every
//! process there.

use std::fs;
use std::thread;

use pinfold_testkit::agent::{AgentScene, KEY, ready};
use pinfold_testkit::engines::Room;
use pinfold_testkit::memory::{MEMORY_SEARCH, descendants, disguised, search_memory};
use pinfold_testkit::{Script, has_engine, installed, processes_with, skip};
use serde_json::json;

use super::headless;

/// Mends the bug, searches inside, and then waits until the test has searched from outside.
fn script() -> Script {
    let search = format!("python3 search.py {} >found.txt; cat found.txt", disguised(KEY));
    // One process that stays, and no FIFO: gVisor does not open those of the host's files.
    let wait = "echo >ready; python3 -c '\
                import os, time\n\
                while not os.path.exists(\"go\"): time.sleep(0.05)'";
    let steps = json!({ "steps": [
        { "text": "I look.", "read": { "path": "sum.sh" } },
        { "text": "I mend it.",
          "edit": { "path": "sum.sh", "old": "echo $(($1 - $2))", "new": "echo $(($1 + $2))" } },
        { "text": "I test it.", "bash": "sh test.sh" },
        { "text": "I search.", "bash": search },
        { "text": "I wait.", "bash": wait },
        { "text": "DONE: the tests pass." },
    ]});
    Script::parse(steps.to_string().as_bytes()).unwrap()
}

fn nowhere_inside(agent: &str, engine: Option<&'static str>, room: Option<&Room>) {
    if !installed("python3") {
        return skip(agent, "python3 is not installed");
    }
    let Some(user) = ready(agent) else { return };
    let mut scene = AgentScene::new(user, script());
    scene.engine = engine;
    // The command inside and this test wait for each other's files.
    scene.workspace = Some("shared_mount");
    let search = scene.repo.path().join("search.py");
    fs::write(&search, MEMORY_SEARCH).unwrap();
    scene.stage.own(&search);
    let mut run = scene.run(agent, headless(agent));
    if let Some(room) = room {
        room.open(&mut run);
    }
    let run = run.spawn().unwrap();
    let pid = run.id();
    let ready = scene.repo.path().join("ready");
    let agent_run = thread::spawn(move || run.wait_with_output().unwrap());
    while !ready.exists() && !agent_run.is_finished() {
        // There is no event for a file in a tree that the agent makes; it takes seconds.
        thread::sleep(std::time::Duration::from_millis(20));
    }
    if !agent_run.is_finished() {
        search_from_outside(agent, pid, room);
        fs::write(scene.repo.path().join("go"), "go").unwrap();
    }
    let output = agent_run.join().unwrap();
    scene.assert_done(agent, &output);
    let found = scene.repo.read("found.txt");
    assert!(found.contains("and found []"), "{agent}: {found}");
    let megabytes: u32 = found.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(megabytes > 20, "{agent}: {found}");
}

fn search_from_outside(agent: &str, pid: u32, room: Option<&Room>) {
    if !rustix::process::geteuid().is_root() {
        return skip(agent, "only root reads init's memory: searched from inside alone");
    }
    let (_, supervisor) = search_memory(pid, KEY);
    assert!(!supervisor.is_empty(), "the probe finds nothing where the key is: in the supervisor");
    let inside = match room {
        None => descendants(pid),
        // Of others' sessions they may be as well: the key is in none.
        Some(_) => {
            let inits = processes_with("/run/pinfold/init\0managed-init");
            inits.into_iter().flat_map(|init| [vec![init], descendants(init)].concat()).collect()
        }
    };
    assert!(inside.len() >= 3, "init, {agent} and its shell: {inside:?}");
    for pid in inside {
        let (searched, found) = search_memory(pid, KEY);
        // One of another test's may wait to be reaped: it has neither memory nor a command line any more (proc(5)).
        let has_ended = || fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty();
        assert!(searched > 0 || has_ended(), "cannot read the memory of {pid}");
        assert!(found.is_empty(), "{agent}: the key is in process {pid}: {found:?}");
    }
}

#[test]
fn the_real_key_is_nowhere_inside_claude() {
    nowhere_inside("claude", None, None);
}

#[test]
fn the_real_key_is_nowhere_inside_codex() {
    nowhere_inside("codex", None, None);
}

#[test]
fn the_real_key_is_nowhere_inside_pi() {
    nowhere_inside("pi", None, None);
}

/// Each reads, edits and tests during that.
fn nowhere_inside_behind(engine: &'static str) {
    if !has_engine(engine) {
        return skip(engine, "it is not installed");
    }
    for agent in ["pi", "claude"] {
        nowhere_inside(agent, Some(engine), None);
    }
}

#[test]
fn pi_and_claude_work_behind_runc_and_the_real_key_is_nowhere_inside() {
    nowhere_inside_behind("runc");
}

#[test]
fn pi_and_claude_work_behind_gvisor_and_the_real_key_is_nowhere_inside() {
    nowhere_inside_behind("runsc");
}

#[test]
fn pi_and_claude_work_behind_docker_and_podman_and_the_real_key_is_nowhere_inside() {
    const TEST: &str = "pi_and_claude_work_behind_docker_and_podman";
    let Some(user) = ready(TEST) else { return };
    let rooms = [Room::docker(TEST), Room::users_docker(TEST, user), Room::rootless(TEST, user)];
    for room in rooms.into_iter().flatten() {
        for agent in ["pi", "claude"] {
            nowhere_inside(agent, Some(room.name), Some(&room));
        }
    }
}
