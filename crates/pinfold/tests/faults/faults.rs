//! Whatever dies, and whenever: nothing is left, and a next start cleans up.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::tracer::kill_at;
use pinfold_testkit::{
    OWN_PROCESSES, Stage, User, executable, installed, not_behind_gvisor, people, processes_with,
    skip,
};

/// What a run may leave nothing in.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    temporary: BTreeSet<String>,
    workspace: BTreeSet<String>,
    sessions: BTreeSet<String>,
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn traces(stage: &Stage) -> Traces {
    Traces {
        temporary: names(&stage.path("tmp")),
        workspace: names(&stage.workspace()),
        sessions: names(&stage.state().join("sessions")),
    }
}

/// Every control group of pinfold's.
fn groups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut rest = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with("pinfold-") {
                found.insert(entry.path());
            }
            rest.push(entry.path());
        }
    }
    found
}

/// Those named after one of these processes, except what was there before: one of the same number may
/// have been left below another group by a run that was killed.
fn groups_of(pids: &[i32], old: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let names: Vec<String> = pids.iter().map(|pid| format!("pinfold-{pid}-0")).collect();
    let is_theirs = |path: &&PathBuf| names.iter().any(|name| path.ends_with(name));
    groups().difference(old).filter(is_theirs).cloned().collect()
}

fn audit_is_whole(stage: &Stage) {
    let text = fs::read_to_string(stage.state().join("audit.jsonl")).unwrap();
    let output = stage.pinfold(&["audit", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with('\n'), "the next start ends what a killed one began: {text}");
}

/// The next start cleans up. A control group, though, is busy for a while after its last process
/// was reaped (the kernel unlinks it later, and tells nobody), or its number is that of another
/// process by now: then it is a start after that.
fn start_until_clean(stage: &Stage, dead: &[i32], old: &BTreeSet<PathBuf>) {
    const PATIENCE: Duration = Duration::from_secs(20);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let output = stage.run(&[], &["true"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if groups_of(dead, old).is_empty() {
            return;
        }
    }
    panic!("{:?} are left", groups_of(dead, old));
}

/// The mounts of this mount namespace.
fn mounts() -> BTreeSet<String> {
    let all = fs::read_to_string("/proc/self/mounts").unwrap();
    all.lines().map(str::to_owned).collect()
}

/// Waits until every mount that was not there before is gone. Other tests and other programs mount and unmount at the
/// same time; what a run leaves behind stays.
fn wait_for_no_new_mounts(before: &BTreeSet<String>, at: &str) {
    const PATIENCE: Duration = Duration::from_secs(60);
    const OF_OTHERS: [&str; 6] = [
        "/mmdebstrap.",
        "/pinfold-docker-",
        "/pinfold-podman-",
        "/pinfold-rootless-",
        "/run/pinfold-mounts/",
        "nsfs /run/netns/",
    ];
    let begun = Instant::now();
    loop {
        let now = mounts();
        let is_others = |line: &str| OF_OTHERS.iter().any(|place| line.contains(place));
        let new: Vec<_> = now.difference(before).filter(|line| !is_others(line)).collect();
        if new.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{new:?} are left, {at}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the `nth` process of a run at one step after the other, `stride` apart; gives how many
/// times.
fn killed_at_every_step(user: User, nth: usize, stride: u32) -> u32 {
    let stage = Stage::new(user);
    assert!(stage.run(&[], &["true"]).status.success());
    let (before, mounted, old) = (traces(&stage), mounts(), groups());
    let errors = stage.path("other/errors");
    let mut kills = 0;
    loop {
        let step = 1 + kills * stride;
        let mut run = stage.pinfold(&["run", "--", "true"]);
        run.stdout(Stdio::null()).stderr(fs::File::create(&errors).unwrap());
        let traced = kill_at(run, nth, step);
        let at = format!("as uid {}, process {nth} killed at step {step}", user.uid);
        assert!(traced.survivors.is_empty(), "{:?} survive {at}", traced.survivors);
        if !traced.killed {
            let errors = fs::read_to_string(&errors).unwrap();
            assert_eq!(traced.status, Some(0), "nobody was killed at step {step}: {errors}");
            break;
        }
        assert!(nth == 0 || traced.status.is_some(), "pinfold did not end: {at}");
        start_until_clean(&stage, &traced.pids, &old);
        assert_eq!(traces(&stage), before, "{at}");
        wait_for_no_new_mounts(&mounted, &at);
        kills += 1;
    }
    audit_is_whole(&stage);
    kills
}

/// Odd, so that beginnings and ends of calls take turns.
const STRIDE: u32 = 37;

#[test]
fn a_supervisor_killed_at_any_step_leaves_nothing() {
    if not_behind_gvisor("a_supervisor_killed_at_any_step_leaves_nothing", OWN_PROCESSES) {
        return;
    }
    for user in people() {
        let kills = killed_at_every_step(user, 0, STRIDE);
        assert!(kills > 10, "only {kills} steps");
    }
}

#[test]
fn an_init_killed_at_any_step_leaves_nothing() {
    if not_behind_gvisor("an_init_killed_at_any_step_leaves_nothing", OWN_PROCESSES) {
        return;
    }
    for user in people() {
        // For root a process that carries a mapping of ids comes before init.
        let init = if user.is_root() { 2 } else { 1 };
        let kills = killed_at_every_step(user, init, STRIDE);
        assert!(kills > 10, "only {kills} steps");
    }
}

#[test]
fn a_helper_of_the_start_killed_at_any_step_leaves_nothing() {
    if not_behind_gvisor("a_helper_of_the_start_killed_at_any_step_leaves_nothing", OWN_PROCESSES) {
        return;
    }
    for user in people().into_iter().filter(|user| user.is_root()) {
        killed_at_every_step(user, 1, 1);
    }
}

/// A run whose command has said that it is there, and whose output ends with everything inside.
struct Running {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(stage: &Stage, script: &str) -> Self {
        let script = format!("echo ready; {script}");
        let mut run = stage.pinfold(&["run", "--", "sh", "-c", &script]);
        let mut process = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { process, output }
    }

    /// The first process inside.
    fn init(&self) -> u32 {
        let pid = self.process.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Waits until nobody inside holds the output any more, and for pinfold's own end.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let output = self.process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_command_and_all_it_started_die_with_the_supervisor() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "setsid sleep 1000 & (trap '' TERM HUP; sleep 1000) & sleep 1000";
        let old = groups();
        let running = Running::start(&stage, script);
        let pid = i32::try_from(running.process.id()).unwrap();
        kill(running.process.id());
        running.end();
        start_until_clean(&stage, &[pid], &old);
        assert_eq!(names(&stage.state().join("sessions")), BTreeSet::from(["lock".to_owned()]));
    }
}

#[test]
fn the_run_ends_with_its_init_and_says_so() {
    for user in people() {
        let stage = Stage::new(user);
        let running = Running::start(&stage, "setsid sleep 1000 & sleep 1000");
        kill(running.init());
        let (status, _) = running.end();
        assert_eq!(status, Some(128 + 9));
        assert_eq!(names(&stage.state().join("sessions")), BTreeSet::from(["lock".to_owned()]));
    }
}

#[test]
fn a_killed_command_is_reported_as_killed() {
    if not_behind_gvisor("a_killed_command_is_reported_as_killed", OWN_PROCESSES) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let marker = format!("6{}", std::process::id());
        let running = Running::start(&stage, &format!("exec sleep {marker}"));
        let pid = loop {
            if let [pid] = processes_with(&format!("sleep\0{marker}"))[..] {
                break pid;
            }
            std::thread::yield_now();
        };
        kill(pid);
        assert_eq!(running.end().0, Some(128 + 9));
    }
}

#[test]
fn many_starts_leave_nothing() {
    for user in people() {
        let stage = Stage::new(user);
        assert!(stage.run(&[], &["true"]).status.success());
        let (before, mounted, old) = (traces(&stage), mounts(), groups());
        let mut pids = Vec::new();
        for _ in 0..200 {
            let mut run = stage.pinfold(&["run", "--", "true"]).spawn().unwrap();
            pids.push(i32::try_from(run.id()).unwrap());
            assert!(run.wait().unwrap().success());
        }
        assert_eq!(traces(&stage), before);
        wait_for_no_new_mounts(&mounted, "after 200 starts");
        assert_eq!(groups_of(&pids, &old), Vec::<PathBuf>::new());
    }
}

#[test]
fn fifty_starts_at_once_work() {
    for user in people() {
        let stage = Stage::new(user);
        let start = |number: usize| {
            let script = format!("echo {number}");
            let mut run = stage.pinfold(&["run", "--", "sh", "-c", &script]);
            run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let runs: Vec<Child> = (0..50).map(start).collect();
        for (number, run) in runs.into_iter().enumerate() {
            let output = run.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{number}\n"), "{errors}");
        }
        assert_eq!(names(&stage.state().join("sessions")), BTreeSet::from(["lock".to_owned()]));
        audit_is_whole(&stage);
    }
}

/// Runs it and gives what it says when it refuses to start.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    errors
}

#[test]
fn a_start_in_a_deleted_directory_says_so() {
    for user in people() {
        let stage = Stage::new(user);
        let line =
            format!("mkdir gone && cd gone && rmdir ../gone && exec {} run -- true", executable());
        let errors = refused(stage.command("/bin/sh").args(["-c", &line]));
        assert!(errors.contains("does not exist any more"), "{errors}");
        assert!(errors.contains("hint: change into a directory"), "{errors}");
    }
}

#[test]
fn a_start_without_a_home_says_what_to_set() {
    for user in people() {
        let stage = Stage::new(user);
        let errors = refused(stage.pinfold(&["run", "--", "true"]).env_remove("HOME"));
        assert!(errors.contains("HOME"), "{errors}");
        let errors = refused(stage.pinfold(&["run", "--", "true"]).env("HOME", "relative"));
        assert!(errors.contains("HOME"), "{errors}");
    }
}

#[test]
fn a_state_directory_that_cannot_be_written_stops_the_start() {
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let stage = Stage::new(user);
        assert!(stage.run(&[], &["true"]).status.success());
        let state = stage.state();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(state.join("sessions"), fs::Permissions::from_mode(0o500)).unwrap();
        let errors = refused(&mut stage.pinfold(&["run", "--", "touch", "ran"]));
        assert!(errors.contains(state.to_str().unwrap()), "{errors}");
        assert!(!stage.path("ws/ran").exists(), "it ran without a session of its own");
        fs::set_permissions(state.join("sessions"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(state.join("audit.jsonl"), fs::Permissions::from_mode(0o400)).unwrap();
        let errors = refused(&mut stage.pinfold(&["run", "--", "touch", "ran"]));
        assert!(errors.contains("audit"), "{errors}");
        assert!(!stage.path("ws/ran").exists(), "it ran without being recorded");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_full_state_directory_stops_the_start() {
    if !rustix::process::geteuid().is_root() || !installed("unshare") || !installed("setpriv") {
        return skip("a full state directory", "it takes root, unshare and setpriv");
    }
    for user in people() {
        let stage = Stage::new(user);
        assert!(stage.run(&[], &["true"]).status.success());
        // In a mount namespace of its own, so that the mount goes with the shell.
        let line = format!(
            "mount -t tmpfs -o size=16k,mode=777 full {state} && \
             head -c 64k /dev/zero >{state}/filler; \
             exec setpriv --reuid {} --regid {} --clear-groups {} run -- touch ran",
            user.uid,
            user.gid,
            executable(),
            state = stage.state().display(),
        );
        let root = User { uid: 0, gid: 0 };
        let mut shell = root.command("unshare");
        shell.args(["-m", "sh", "-c", &line]).current_dir(stage.workspace());
        let errors = refused(shell.env("HOME", stage.path("home")).stdin(Stdio::null()));
        assert!(errors.contains("No space left"), "{errors}");
        assert!(errors.contains(stage.state().to_str().unwrap()), "{errors}");
        assert!(!stage.path("ws/ran").exists(), "it ran without being recorded");
    }
}

#[test]
fn concurrent_sessions_all_run_and_leave_nothing() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/a", "content");
        let git = stage.command("git").args(["init", "-q"]).status().unwrap();
        assert!(git.success());
        for round in 0..10 {
            let start = |_| {
                let mut run = stage.pinfold(&["run", "--", "cat", "a"]);
                run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            };
            let runs: Vec<_> = (0..4).map(start).collect();
            for run in runs {
                let output = run.wait_with_output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "round {round}: {}: {errors}", output.status);
                assert_eq!(output.stdout, b"content");
            }
        }
        assert!(!stage.path("ws/.git/commondir").exists(), "the last one takes it away");
    }
}

#[test]
fn groups_of_a_killed_session_are_removed_by_the_next_one_whatever_its_limits() {
    for user in people() {
        let stage = Stage::new(user);
        let old = groups();
        let mut run =
            stage.pinfold(&["run", "--memory", "64M", "--", "sh", "-c", "echo; sleep 1000"]);
        let mut process = run.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        kill(process.id());
        output.read_to_string(&mut String::new()).unwrap();
        let pid = i32::try_from(process.id()).unwrap();
        process.wait().unwrap();
        if groups_of(&[pid], &old).is_empty() {
            skip("groups of a killed session", "this user can make none");
            continue;
        }
        start_until_clean(&stage, &[pid], &old);
    }
}
