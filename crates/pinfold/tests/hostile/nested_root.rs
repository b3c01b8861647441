//! Attempts of who is root of namespaces that were made in a sandbox, and what they leave to the host.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User, engine, installed, people, python_program, skip};
use rustix::io::Errno;

use super::hostile::{DRIVER, Host, Line, PYTHON, attempts, complaints};
use super::nested::text;

const ATTEMPTS: &str = include_str!("hostile/nested_root.py");
const SECRET: &str = "hunter2";

/// Returns whether a test has what it needs, and prints that it is skipped if not.
fn is_possible(test: &str) -> bool {
    let is_possible = installed("python3") && engine().is_none();
    if !is_possible {
        skip(test, "it needs python3 and the boundary namespace");
    }
    is_possible
}

fn tried_by(user: User) -> Vec<Line> {
    let stage = Stage::new(user);
    stage.write("ws/.env", SECRET);
    stage.write("ws/sub/.env", SECRET);
    let host = Host::start(&stage);
    stage.write("ws/attempts.py", python_program(&[DRIVER, ATTEMPTS]));
    host.tell(&stage, false);
    let script = format!(
        "sleep 600 & echo $! >outer; exec unshare --map-root-user --mount --net --ipc --uts {PYTHON} -I attempts.py facts.json"
    );
    let mut run = stage.pinfold(&["run", "--nested", "--workspace", "overlay", "--write"]);
    run.arg(stage.path("writable")).args(["--", "sh", "-c", &script]);
    let lines = attempts(run);
    assert!(host.end(), "the host's process did not survive");
    lines
}

#[test]
fn every_attempt_of_root_in_a_nested_sandbox_is_refused() {
    if !is_possible("every_attempt_of_root_in_a_nested_sandbox_is_refused") {
        return;
    }
    for user in people() {
        let lines = tried_by(user);
        let complaints = complaints(&lines, &[], &[]);
        assert!(complaints.is_empty(), "uid {}:\n{complaints}", user.uid);
        println!("uid {}: {} attempts", user.uid, lines.len());
    }
}

/// An overlay's whiteouts are made by the kernel, past the filter of modes.
#[test]
fn device_nodes_of_a_nested_overlay_do_not_stay_in_a_live_directory() {
    if !is_possible("device_nodes_of_a_nested_overlay_do_not_stay_in_a_live_directory") {
        return;
    }
    let inner = "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr none merged && rm merged/file";
    let script = format!(
        "rm -rf upper work; mkdir -p lower upper work merged; echo x >lower/file; unshare --map-root-user --mount sh -c '{inner}'"
    );
    for user in people() {
        let stage = Stage::new(user);
        let output = stage.run_shell(&["--nested"], &script);
        let said = text(&output);
        assert!(output.status.success(), "uid {}: {said}", user.uid);
        let left = fs::symlink_metadata(stage.path("ws/upper/file"));
        assert!(left.is_err(), "uid {}: {left:?} {said}", user.uid);
        assert!(said.contains("upper/file (set aside"), "{said}");
        let wanted = stage.run_shell(&["--nested", "--opt-in", "devices"], &script);
        let left = fs::symlink_metadata(stage.path("ws/upper/file"));
        assert!(left.unwrap().file_type().is_char_device(), "{}", text(&wanted));
    }
}

/// Root of a nested sandbox gives a program capabilities, which count where the owner of the file is root.
#[test]
fn no_capability_of_a_program_counts_on_the_host() {
    const TEST: &str = "no_capability_of_a_program_counts_on_the_host";
    if !is_possible(TEST) {
        return;
    }
    let set = "import os, struct; os.setxattr('program', 'security.capability', struct.pack('<5I', 0x02000001, 0x80, 0, 0, 0))";
    let give =
        format!("cp /bin/true program; unshare --map-root-user --mount {PYTHON} -c \"{set}\"");
    for user in people() {
        let stage = Stage::new(user);
        let writable = stage.path("writable").display().to_string();
        for (options, place) in [
            (&["--nested"][..], "ws"),
            (&["--nested", "--workspace", "overlay"], "ws"),
            (&["--nested", "--workspace", "overlay", "--write", &writable], "writable"),
        ] {
            let directory = stage.path(place);
            let output =
                stage.run_shell(options, &format!("cd {}; {give}; ls", directory.display()));
            let said = text(&output);
            assert!(said.contains("program\n"), "{said}");
            // What waits in a view comes to the workspace without them.
            if place == "ws" && options.len() > 1 {
                let applied = stage.pinfold(&["apply"]).output().unwrap();
                assert!(applied.status.success(), "{}", text(&applied));
            }
            // Of 24 bytes four say where it counts (`struct vfs_ns_cap_data`, linux/capability.h).
            let mut found = [0_u8; 64];
            let found = rustix::fs::getxattr(
                directory.join("program"),
                "security.capability",
                &mut found[..],
            );
            assert!(
                matches!(found, Err(Errno::NODATA) | Ok(24)),
                "uid {}, {options:?}: {found:?} {said}",
                user.uid
            );
            fs::remove_file(directory.join("program")).unwrap();
        }
    }
}

/// The kernel copies a file of an overlay's lower directory with its mode and attributes, past the filter of both.
#[test]
fn overlay_copies_no_program_with_roots_rights_into_a_live_directory() {
    const TEST: &str = "overlay_copies_no_program_with_roots_rights_into_a_live_directory";
    let user = User::current();
    if !is_possible(TEST) || !user.is_root() {
        return;
    }
    let stage = Stage::new(user);
    let closed = stage.path("readable");
    for name in ["set-id", "capable"] {
        fs::copy("/bin/true", closed.join(name)).unwrap();
    }
    // CAP_SETUID (`struct vfs_cap_data`, linux/capability.h).
    let capabilities = [0x0200_0001_u32, 0x80, 0, 0, 0].map(u32::to_le_bytes).concat();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(closed.join("capable"), "security.capability", &capabilities, flags)
        .unwrap();
    fs::set_permissions(closed.join("set-id"), Permissions::from_mode(0o4755)).unwrap();
    // A closed one shows files of root's as the sandbox's own; of an open one the kernel copies none (EOVERFLOW).
    for mode in [0o700, 0o755] {
        fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
        let inner = format!(
            "mount -t overlay -o lowerdir={},upperdir=upper,workdir=work,userxattr none merged; cd merged; mv set-id a; mv capable b",
            closed.display()
        );
        let script = format!(
            "mkdir -p upper work merged; unshare --map-root-user --mount sh -c '{inner}'; echo tried"
        );
        let grant = closed.display().to_string();
        let output = stage.run_shell(&["--nested", "--read", &grant], &script);
        let said = text(&output);
        assert!(said.contains("tried\n"), "{said}");
        let left: Vec<_> = fs::read_dir(stage.path("ws/upper")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{mode:o}: {left:?} {said}");
    }
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let grant = closed.display().to_string();
    fs::create_dir(closed.join("ws")).unwrap();
    let mut within = stage.pinfold(&["run", "--nested", "--read", &grant, "--", "true"]);
    let said = text(&within.current_dir(closed.join("ws")).output().unwrap());
    assert!(said.contains("hint: a directory above it is closed to others"), "{said}");
    // Where nobody outside gets what is written it is shown, as without nested sandboxes.
    let options = ["--nested", "--workspace", "overlay", "--read", &grant];
    let output = stage.run_shell(&options, &format!("ls {grant}"));
    assert!(text(&output).contains("capable\n"), "{}", text(&output));
}

/// Starts a session, and returns once it has said that it is ready.
fn start(stage: &Stage, options: &[&str], script: &str) -> std::process::Child {
    let mut run = stage.pinfold(&["run", "--nested"]);
    run.args(options).args(["--", "sh", "-c", script]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ready = stage.path("writable/ready");
    let begun = Instant::now();
    while !ready.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it has not become ready");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn on_host(stage: &Stage, script: &str) {
    assert!(stage.command("sh").args(["-c", script]).status().unwrap().success(), "{script}");
}

/// A mask that the host takes off is put back in the session's mount namespace alone.
#[test]
fn session_with_nested_sandboxes_ends_when_the_host_saves_a_protected_file() {
    if !is_possible("session_with_nested_sandboxes_ends_when_the_host_saves_a_protected_file") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/.mcp.json", "{}\n");
        let writable = stage.path("writable");
        let inner = format!(
            "while :; do echo evil >>.mcp.json; touch {}/ready; done 2>/dev/null",
            writable.display()
        );
        let script = format!("timeout 60 unshare --map-root-user --mount sh -c '{inner}'");
        let child = start(&stage, &["--write", writable.to_str().unwrap()], &script);
        // The helper watches from now on.
        std::thread::sleep(Duration::from_secs(1));
        on_host(&stage, "echo {} >new; mv new .mcp.json");
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert!(said.contains(".mcp.json: replaced on the host"), "uid {}: {said}", user.uid);
        assert!(said.contains("the session was ended"), "{said}");
    }
}

/// Writes to a file once, as soon as another lies at its path.
const WRITE_ONCE: &str = "
import os, sys, time
path, place, evil, ready = sys.argv[1:]
number = lambda: os.stat(path).st_ino
first = number()
open(ready, 'w').close()
while True:
    try:
        if number() == first:
            continue
        file = os.open(place, os.O_WRONLY | os.O_APPEND)
    except OSError:
        continue
    os.write(file, evil.encode())
    time.sleep(60)
";

/// Until the session has ended, a program in another mount namespace can write to what the host put there.
#[test]
fn what_a_nested_sandbox_writes_when_a_mask_falls_off_does_not_stay() {
    const TEST: &str = "what_a_nested_sandbox_writes_when_a_mask_falls_off_does_not_stay";
    if !is_possible(TEST) || !installed("git") {
        return;
    }
    for user in people() {
        for (path, place, evil) in [
            (".mcp.json", ".mcp.json", "evil"),
            (".git", ".git/config", "[core]\n\tfsmonitor = evil\n"),
        ] {
            // It is a race, which the program wins every second time.
            for _ in 0..4 {
                let stage = Stage::new(user);
                stage.write("ws/.mcp.json", "{}\n");
                stage.write("ws/write.py", WRITE_ONCE);
                on_host(
                    &stage,
                    "git init --quiet; cp -r .git ../other/.git; echo {} >../other/.mcp.json",
                );
                let writable = stage.path("writable");
                let script = format!(
                    "exec timeout 60 unshare --map-root-user --mount {PYTHON} -I write.py {path} {place} '{evil}' {}/ready",
                    writable.display()
                );
                let child = start(&stage, &["--write", writable.to_str().unwrap()], &script);
                // The helper watches from now on.
                std::thread::sleep(Duration::from_secs(1));
                on_host(
                    &stage,
                    &format!("mv -T {path} ../tmp/old 2>/dev/null; mv -T ../other/{path} {path}"),
                );
                let said = text(&child.wait_with_output().unwrap());
                assert!(said.contains("the session was ended"), "{said}");
                let left = fs::read_to_string(stage.path("ws").join(place)).unwrap_or_default();
                assert!(!left.contains("evil"), "uid {}: {left} {said}", user.uid);
            }
        }
    }
}

#[test]
fn session_with_nested_sandboxes_ends_when_the_host_renames_a_hidden_file_below_its_view() {
    const TEST: &str =
        "session_with_nested_sandboxes_ends_when_the_host_renames_a_hidden_file_below_its_view";
    if !is_possible(TEST) {
        return;
    }
    for user in people() {
        for rename in ["mv sub moved", "mv sub/.env sub/moved"] {
            let stage = Stage::new(user);
            stage.write("ws/sub/.env", SECRET);
            let writable = stage.path("writable");
            let inner = format!(
                "while :; do cat moved/.env sub/moved; touch {}/ready; done 2>/dev/null",
                writable.display()
            );
            let script = format!("timeout 60 unshare --map-root-user --mount sh -c '{inner}'");
            let options = ["--workspace", "overlay", "--write", writable.to_str().unwrap()];
            let child = start(&stage, &options, &script);
            std::thread::sleep(Duration::from_secs(2));
            on_host(&stage, rename);
            let begun = Instant::now();
            let output = child.wait_with_output().unwrap();
            let said = text(&output);
            assert!(begun.elapsed() < Duration::from_secs(30), "it went on: {said}");
            assert!(
                said.contains("renamed to") && said.contains("the session was ended"),
                "{said}"
            );
        }
    }
}

/// Processes of nested process namespaces end with the session, however that ends.
#[test]
fn killed_supervisor_leaves_nothing_of_nested_sandboxes() {
    if !is_possible("killed_supervisor_leaves_nothing_of_nested_sandboxes") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let writable = stage.path("writable");
        let marker = format!("{}", 86_400 + u64::from(std::process::id()));
        let inner = format!(
            "trap \"\" TERM HUP; mount -t tmpfs none /var/tmp; setsid sleep {marker} & setsid unshare --pid --fork --net sleep {marker} & \
             sleep 1; touch {}/ready; wait",
            writable.display()
        );
        let script =
            format!("setsid unshare --map-root-user --mount --pid --fork sh -c '{inner}' & wait");
        let options = ["--write", writable.to_str().unwrap()];
        let mut child = start(&stage, &options, &script);
        assert!(is_running(&stage, &marker));
        child.kill().unwrap();
        child.wait().unwrap();
        let begun = Instant::now();
        while is_running(&stage, &marker) {
            assert!(begun.elapsed() < Duration::from_secs(20), "something runs on");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn is_running(stage: &Stage, marker: &str) -> bool {
    stage
        .command("pgrep")
        .args(["-f", &format!("sleep {marker}$")])
        .output()
        .unwrap()
        .status
        .success()
}
