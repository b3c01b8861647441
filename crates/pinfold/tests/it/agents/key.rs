//! The real key is nowhere inside: looked for from inside, and by root in the memory of every
//! process there.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::thread;

use pinfold_testkit::Script;
use serde_json::json;

use super::{KEY, Scene, headless, ready};
use crate::common::{has_engine, installed, processes_with, skip};
use crate::image::engines::Room;

/// The key in a form that is not the key.
pub(crate) fn disguised(key: &str) -> String {
    key.bytes().map(|byte| format!("{:02x}", byte ^ 0x5A)).collect()
}

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

/// All processes that descend from this one.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

/// Bytes that were searched, and where the key was.
pub(crate) fn search_memory(pid: u32, key: &str) -> (usize, Vec<String>) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return (0, Vec::new()) };
    let (mut searched, mut found) = (0, Vec::new());
    for line in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|m| m.starts_with('r')))
    {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        let (mut at, end) = (address(start), address(end));
        let mut buffer = vec![0; 4 << 20];
        while at < end {
            let size = usize::try_from(end - at).unwrap().min(buffer.len());
            // Pages that cannot be read hold nothing.
            let Ok(read) = memory.read_at(&mut buffer[..size], at) else { break };
            if read == 0 {
                break;
            }
            searched += read;
            if holds(&buffer[..read], key) {
                found.push(line.to_owned());
            }
            // A key over the seam is seen by the next read.
            at += read as u64
                - if read == size && at + (read as u64) < end { key.len() as u64 } else { 0 };
        }
    }
    for name in ["environ", "cmdline"] {
        if holds(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default(), key) {
            found.push(name.to_owned());
        }
    }
    (searched, found)
}

fn holds(data: &[u8], key: &str) -> bool {
    // SAFETY: both areas are valid for the lengths given; memmem only reads.
    !unsafe { libc::memmem(data.as_ptr().cast(), data.len(), key.as_ptr().cast(), key.len()) }
        .is_null()
}

fn nowhere_inside(agent: &str, engine: Option<&'static str>, room: Option<&Room>) {
    if !installed("python3") {
        return skip(agent, "python3 is not installed");
    }
    let Some(person) = ready(agent) else { return };
    let scene = Scene { engine, ..Scene::new(person, script()) };
    let search = scene.repo.path().join("search.py");
    fs::write(&search, include_str!("search.py")).unwrap();
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
        let has_ended = || !fs::exists(format!("/proc/{pid}")).unwrap();
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

/// Each reads, edits and tests meanwhile.
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
    let Some(person) = ready(TEST) else { return };
    let rooms =
        [Room::docker(TEST), Room::users_docker(TEST, person), Room::rootless(TEST, person)];
    for room in rooms.into_iter().flatten() {
        for agent in ["pi", "claude"] {
            nowhere_inside(agent, Some(room.name), Some(&room));
        }
    }
}
