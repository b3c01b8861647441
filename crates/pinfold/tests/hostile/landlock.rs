//! The boundary `landlock`: what it holds, how it ends, and what it refuses by name.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User, engine, executable, installed, people, skip};
use rustix::process::{Pid, Signal, kill_process};

use super::hostile::{PYTHON, tried_by};
use super::nested::text;

const REFUSE: &str = include_str!("landlock/refuse.py");
const VIEW: [&str; 4] = ["--boundary", "landlock", "--workspace", "overlay"];

/// What a sandbox of this boundary sees or lacks that others have otherwise, by category and how the names begin. Each is in
/// docs/guides/landlock.md.
const KNOWN: [(&str, &str); 12] = [
    // Where the sandbox's /tmp lies.
    ("environment", "find a variable that is not listed"),
    ("environment", "learn the host's name"),
    ("host files", "find the host's users in /etc/passwd"),
    // That there is a process, and nothing about it.
    ("processes", "reach a host process with getpgid"),
    ("processes", "reach a host process with pidfd_open"),
    // The bits are there, and count for nothing (`no_new_privs`).
    ("set-user-id", "gain rights from"),
    ("granted", "change a file that is granted in full"),
    ("granted", "list interfaces by netlink"),
    ("granted", "open a terminal of one's own"),
    ("granted", "serve and connect at"),
    ("granted", "use shared memory and threads"),
    ("granted", "write in /"),
];

/// Returns the ordinary user; none where the boundary does not work, with a note that the test is skipped.
fn user(test: &str) -> Option<User> {
    if engine().is_some() || !installed("python3") {
        skip(test, "it needs python3, and chooses the boundary itself");
        return None;
    }
    let user = people().into_iter().find(|user| !user.is_root());
    let Some(user) = user else {
        skip(test, "root has no sandboxes of this boundary");
        return None;
    };
    let stage = Stage::new(user);
    let tried = run(&stage, "true");
    if text(&tried).contains("Landlock ABI") {
        skip(test, "the kernel's Landlock is too old");
        return None;
    }
    assert!(tried.status.success(), "{}", text(&tried));
    Some(user)
}

fn run(stage: &Stage, script: &str) -> Output {
    stage.run_shell(&VIEW, script)
}

/// A repository with a file, a directory and a secret.
fn repository(stage: &Stage) -> PathBuf {
    stage.write("ws/kept", "as it was\n");
    stage.write("ws/old/one", "1\n");
    stage.write("ws/.env", "TOKEN=hunter2\n");
    stage.write("ws/.gitignore", ".env\n");
    let script =
        "git init -q -b main && git add -A && git -c user.name=a -c user.email=a@b commit -qm one";
    let made = stage.command("sh").args(["-c", script]).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    stage.workspace()
}

#[test]
fn hostile_program_gains_nothing_but_what_the_guide_says() {
    let Some(user) = user("hostile_program_gains_nothing_but_what_the_guide_says") else { return };
    let complaints = tried_by(user, &VIEW, &KNOWN);
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn changes_wait_for_the_user_and_secrets_stay_out() {
    let Some(user) = user("changes_wait_for_the_user_and_secrets_stay_out") else { return };
    let stage = Stage::new(user);
    let workspace = repository(&stage);
    let script = "cat .env; echo more >>kept; chmod +x kept; rm -r old; mkdir new; echo n >new/n
        echo planted >.envrc; ln -s /etc/passwd out
        git add kept new && git -c user.name=a -c user.email=a@b commit -qm two && git log --format=%s";
    let ran = run(&stage, script);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "two\none\n", "{}", text(&ran));
    assert_eq!(fs::read(workspace.join("kept")).unwrap(), b"as it was\n");
    assert!(workspace.join("old/one").exists());

    let applied = stage.pinfold(&["apply"]).output().unwrap();
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(fs::read(workspace.join("kept")).unwrap(), b"as it was\nmore\n");
    let mode = fs::metadata(workspace.join("kept")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert!(!workspace.join("old").exists());
    assert_eq!(fs::read(workspace.join("new/n")).unwrap(), b"n\n");
    assert!(!workspace.join(".envrc").exists(), "what the host executes was taken over");
    assert_eq!(fs::read(workspace.join(".env")).unwrap(), b"TOKEN=hunter2\n");
    let log = stage.command("git").args(["log", "--format=%s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "two\none\n", "{}", text(&applied));
}

#[test]
fn secrets_outlive_the_directories_that_a_session_removes() {
    let Some(user) = user("secrets_outlive_the_directories_that_a_session_removes") else { return };
    for script in ["rm -rf sub", "mv sub new", "rm -rf sub; echo >sub", "rm -rf sub; ln -s old sub"]
    {
        let stage = Stage::new(user);
        stage.write("ws/sub/deep/.env", "TOKEN=hunter2\n");
        stage.write("ws/sub/seen", "");
        let workspace = repository(&stage);
        let ran = run(&stage, script);
        assert!(ran.status.success(), "{script}: {}", text(&ran));
        let applied = stage.pinfold(&["apply"]).output().unwrap();
        assert!(applied.status.success(), "{script}: {}", text(&applied));
        let secret = fs::read(workspace.join("sub/deep/.env")).unwrap();
        assert_eq!(secret, b"TOKEN=hunter2\n", "{script}");
        assert!(!workspace.join("sub/seen").exists(), "{script}");
    }
}

#[test]
fn changes_in_directories_without_rights_are_collected() {
    let Some(user) = user("changes_in_directories_without_rights_are_collected") else { return };
    let stage = Stage::new(user);
    let workspace = repository(&stage);
    let script = "mkdir -p new/deep none; echo 1 >new/deep/file; echo 2 >old/two; echo 3 >none/file
        chmod 555 new/deep new old .; chmod 0 none";
    let ran = run(&stage, script);
    assert!(ran.status.success(), "{}", text(&ran));
    let applied = stage.pinfold(&["apply"]).output().unwrap();
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(fs::read(workspace.join("new/deep/file")).unwrap(), b"1\n");
    assert_eq!(fs::read(workspace.join("old/two")).unwrap(), b"2\n");
}

#[test]
fn what_the_host_changes_during_a_session_stays() {
    let Some(user) = user("what_the_host_changes_during_a_session_stays") else { return };
    let stage = Stage::new(user);
    let workspace = repository(&stage);
    let gate = stage.path("writable");
    let mut session = stage.pinfold(&["run"]);
    let script = "echo ready; read line; echo new >made; rm old/one";
    session.args(VIEW).args(["--", "sh", "-c", script]);
    let mut session =
        session.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(session.stdout.as_mut().unwrap(), &mut ready).unwrap();
    stage.write("ws/kept", "by the host\n");
    stage.write("ws/later", "by the host\n");
    drop(session.stdin.take());
    assert!(session.wait().unwrap().success());
    let diff = stage.pinfold(&["diff", "--name-only"]).output().unwrap();
    let names = String::from_utf8(diff.stdout).unwrap();
    let mut names: Vec<&str> = names.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["made", "old/one"]);
    assert_eq!(fs::read(workspace.join("later")).unwrap(), b"by the host\n");
    assert!(gate.exists());
}

/// Starts a session in which something that has left everything holds a lock, and returns it when that is so.
fn with_a_daemon(stage: &Stage) -> (std::process::Child, File) {
    stage.write("ws/lock", "");
    let script = "for i in 1 2 3; do setsid flock lock sh -c 'trap : TERM HUP INT; sleep 1000; sleep 1000' & done
        until ! flock -n lock true; do :; done; echo held; sleep 1000";
    let mut session = stage.pinfold(&["run"]);
    session.args(VIEW);
    session.args(["--", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut session = session.spawn().unwrap();
    let mut held = [0; 5];
    std::io::Read::read_exact(session.stdout.as_mut().unwrap(), &mut held).unwrap();
    assert_eq!(&held, b"held\n");
    (session, copied(stage, "lock"))
}

/// Opens a file of the only session's copy.
fn copied(stage: &Stage, name: &str) -> File {
    let mut reviews = fs::read_dir(stage.state().join("review")).unwrap();
    let review = reviews.next().unwrap().unwrap().path();
    File::open(review.join("layers/work/ws").join(name)).unwrap()
}

/// Waits until nobody holds a lock.
fn is_let_go(lock: &File) -> bool {
    let begun = Instant::now();
    while lock.try_lock().is_err() {
        if begun.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Returns the child of a process.
fn child_of(process: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let is_reaper = |pid: &&str| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.starts_with(b"pinfold reaper")
    };
    children.split_whitespace().find(is_reaper).unwrap().parse().unwrap()
}

fn kill(process: u32) {
    let process = Pid::from_raw(process.cast_signed()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
}

#[test]
fn nothing_outlives_a_session() {
    let Some(user) = user("nothing_outlives_a_session") else { return };
    let stage = Stage::new(user);
    let (mut session, lock) = with_a_daemon(&stage);
    let process = Pid::from_raw(session.id().cast_signed()).unwrap();
    kill_process(process, Signal::TERM).unwrap();
    session.wait().unwrap();
    assert!(lock.try_lock().is_ok(), "something held the lock when the session had ended");
}

#[test]
fn nothing_outlives_a_supervisor_that_was_killed() {
    let Some(user) = user("nothing_outlives_a_supervisor_that_was_killed") else { return };
    let stage = Stage::new(user);
    let (mut session, lock) = with_a_daemon(&stage);
    session.kill().unwrap();
    session.wait().unwrap();
    assert!(is_let_go(&lock));
}

#[test]
fn nothing_outlives_a_reaper_that_was_killed() {
    let Some(user) = user("nothing_outlives_a_reaper_that_was_killed") else { return };
    let stage = Stage::new(user);
    let (mut session, lock) = with_a_daemon(&stage);
    kill(child_of(session.id()));
    assert!(!session.wait().unwrap().success());
    assert!(is_let_go(&lock));
}

#[test]
fn processes_that_fork_without_end_are_ended() {
    let Some(user) = user("processes_that_fork_without_end_are_ended") else { return };
    let stage = Stage::new(user);
    stage.write("ws/lock", "");
    // Each of them holds the lock.
    let script =
        "exec 9<lock; flock 9; echo held; read line; f() { f & f & }; f 2>/dev/null; exit 3";
    let mut session = stage.pinfold(&["run"]);
    session.args(VIEW).args(["--pids", "64", "--", "sh", "-c", script]);
    let session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut session = session.spawn().unwrap();
    let mut held = [0; 5];
    std::io::Read::read_exact(session.stdout.as_mut().unwrap(), &mut held).unwrap();
    let lock = copied(&stage, "lock");
    drop(session.stdin.take());
    assert_eq!(session.wait().unwrap().code(), Some(3));
    assert!(lock.try_lock().is_ok(), "a process is left");
}

#[test]
fn it_works_where_user_namespaces_are_refused() {
    let Some(user) = user("it_works_where_user_namespaces_are_refused") else { return };
    let stage = Stage::new(user);
    let workspace = repository(&stage);
    let refuse = stage.write("refuse.py", REFUSE);
    let pinfold = |args: &[&str]| {
        let mut command = stage.command(PYTHON);
        command.arg(&refuse).arg(executable()).args(args).output().unwrap()
    };
    let by_default = pinfold(&["run", "--", "true"]);
    assert_eq!(by_default.status.code(), Some(125));
    assert!(text(&by_default).contains("--boundary landlock"), "{}", text(&by_default));

    let script = "echo more >>kept; chmod 700 kept; cat .env; exit 7";
    let ran = pinfold(&[&["run"], &VIEW[..], &["--", "sh", "-c", script]].concat());
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran));
    assert!(ran.stdout.is_empty(), "{}", text(&ran));
    let applied = pinfold(&["apply"]);
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(fs::read(workspace.join("kept")).unwrap(), b"as it was\nmore\n");
}

#[test]
fn what_it_lacks_is_refused_by_name() {
    let Some(user) = user("what_it_lacks_is_refused_by_name") else { return };
    let stage = Stage::new(user);
    stage.write("ws/sub/.env", "TOKEN=hunter2\n");
    stage.write("readable/.env", "TOKEN=hunter2\n");
    stage.write("writable/file", "");
    let readable = stage.path("readable");
    let writable = stage.path("writable");
    let refusals: [(&[&str], &str); 6] = [
        (
            &[&VIEW[..], &["--write", writable.to_str().unwrap()]].concat(),
            "neither hide nor protect",
        ),
        (&["--boundary", "landlock"], "no live workspace"),
        (&[&VIEW[..], &["--allow-host", "example.org"]].concat(), "no network"),
        (&[&VIEW[..], &["--nested"]].concat(), "no nested sandboxes"),
        (&[&VIEW[..], &["--publish", "8080"]].concat(), "no port that the host can reach"),
        (
            &[&VIEW[..], &["--read", readable.to_str().unwrap()]].concat(),
            "neither hide nor protect",
        ),
    ];
    for (options, word) in refusals {
        let ran = stage.run(options, &["true"]);
        assert_eq!(ran.status.code(), Some(125), "{options:?}: {}", text(&ran));
        assert!(text(&ran).contains(word), "{options:?}: {}", text(&ran));
    }
}

#[test]
fn check_says_what_the_kernel_does_here() {
    let Some(user) = user("check_says_what_the_kernel_does_here") else { return };
    let stage = Stage::new(user);
    stage.write("home/private", "mine");
    let private = stage.path("home/private").display().to_string();
    let paths = [
        "/etc/passwd",
        "/dev/null",
        "/proc/self/status",
        "/tmp/x",
        "/usr/bin/env",
        "/bin/sh",
        "/proc/version",
        &private,
    ];
    for path in paths {
        let checked = stage.pinfold(&["check"]).args(VIEW).args(["read", path]).output().unwrap();
        let done = run(&stage, &format!("head -c 1 {path}"));
        assert_eq!(checked.status.success(), done.status.success(), "{path}: {}", text(&checked));
    }
    let checked = stage.pinfold(&["check"]).args(VIEW).args(["write", "/tmp/x"]).output().unwrap();
    let done = run(&stage, "echo x >/tmp/x");
    assert_eq!(checked.status.success(), done.status.success(), "{}", text(&checked));
}
