//! A hostile program in a sandbox: every way out that we could think of, tried.
//!
//! The attempts are small Python functions next to this file, in one program that runs inside,
//! where each must be refused, and then outside as the same user, where those that a user may do
//! must succeed: an attempt that fails everywhere proves nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pinfold_testkit::{
    Stage, User, behind_gvisor, engine, installed, people, python_program, skip,
};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const PYTHON: &str = "/usr/bin/python3";
pub(super) const DRIVER: &str = include_str!("hostile/driver.py");
const ATTEMPTS: [&str; 8] = [
    include_str!("hostile/files.py"),
    include_str!("hostile/metadata.py"),
    include_str!("hostile/procfs.py"),
    include_str!("hostile/processes.py"),
    include_str!("hostile/network.py"),
    include_str!("hostile/kernel.py"),
    include_str!("hostile/surroundings.py"),
    include_str!("hostile/granted.py"),
];
const HOST: &str = include_str!("hostile/host.py");
/// In the caller's environment, and to be found nowhere inside.
const MARKER: &str = "the-caller-knows-8c1d";
const KEY: &str = "sk-ant-api03-not-a-real-key-5f0e";

/// Set in an emulated machine, which needs minutes for it: the attempts are tried inside alone.
const WITHOUT_CONTROL: &str = "PINFOLD_TEST_WITHOUT_CONTROL";

/// Attempts, by category and how their names begin, that gVisor's kernel grants or does not know, at what is
/// its own: a /proc, /sys and /dev in which nothing is the host's, its own processes and sockets, of which
/// none reaches further than those of the session. That its init can be looked at gives nothing: its memory
/// and descriptors are not available.
const OF_GVISOR: [(&str, &str); 24] = [
    ("host files", "list /sys"),
    ("host files", "write in /dev"),
    ("paths", "find an open descriptor that leads out"),
    ("set-user-id", "gain rights from"),
    ("procfs", "open any of the host's files in /proc for writing"),
    ("procfs", "change the mode of any of the host's files in /proc"),
    ("procfs", "read init's maps"),
    ("procfs", "read init's smaps"),
    ("procfs", "read init's auxv"),
    ("procfs", "read init's io"),
    ("procfs", "list init's"),
    ("procfs", "write init's oom_score_adj"),
    ("procfs", "read what pinfold was started with"),
    ("processes", "reach init with get_robust_list"),
    ("own network", "set a socket's"),
    ("other doors", "call the kernel as a 32-bit program"),
    ("rights", ""),
    ("devices", ""),
    ("control groups", "find a hierarchy"),
    ("granted", "read a child's memory"),
    ("granted", "set the persona for a debugger"),
    ("granted", "set the persona for the query"),
    ("processes", "end or stop init with any signal"),
    ("processes", "make ten thousand timers"),
];

/// Attempts that sandboxes which may nest are granted: namespaces, which give rights over nothing that was there. Those of control
/// groups are not among them.
const OF_NESTED: [(&str, &str); 13] = [
    ("namespaces", "unshare mount with"),
    ("namespaces", "unshare uts with"),
    ("namespaces", "unshare ipc with"),
    ("namespaces", "unshare pid with"),
    ("namespaces", "unshare net with"),
    ("namespaces", "unshare time with"),
    ("namespaces", "unshare user"),
    ("namespaces", "clone into mount"),
    ("namespaces", "clone into uts"),
    ("namespaces", "clone into ipc"),
    ("namespaces", "clone into user"),
    ("namespaces", "clone into pid"),
    ("namespaces", "clone into net"),
];

/// One attempt's result, as the driver prints it.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    category: String,
    name: String,
    outside: String,
    outcome: String,
    detail: String,
    milliseconds: u64,
}

/// What lies outside, alive until its input ends.
pub(super) struct Host {
    process: Child,
    facts: Value,
}

impl Host {
    pub(super) fn start(stage: &Stage) -> Self {
        let script = stage.write("host.py", HOST);
        let mut process = stage
            .command(PYTHON)
            .arg(script)
            .arg(stage.base())
            .env("PINFOLD_VICTIM", "the-victim-is-alive-77aa")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut facts: Value = serde_json::from_str(&line).unwrap();
        facts["marker"] = json!(MARKER);
        facts["own_kernel"] = json!(behind_gvisor());
        Self { process, facts }
    }

    /// Writes the facts to a file: among the arguments they would be what an attempt looks for.
    pub(super) fn tell(&self, stage: &Stage, outside: bool) -> PathBuf {
        let mut facts = self.facts.clone();
        facts["outside"] = json!(outside);
        stage.write("ws/facts.json", facts.to_string())
    }

    /// Ends it; false if something else has.
    pub(super) fn end(mut self) -> bool {
        let alive = self.process.try_wait().unwrap().is_none();
        drop(self.process.stdin.take());
        alive && self.process.wait().unwrap().success()
    }
}

/// Runs the program and reads its lines.
pub(super) fn attempts(mut command: Command) -> Vec<Line> {
    let output = command.env("PINFOLD_MARKER", MARKER).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the driver ended with {}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Mode, owner, group, time of change and content of each file.
type Fingerprint = BTreeMap<PathBuf, (u32, u32, u32, [i64; 2], Vec<u8>)>;

/// What of the host's files must stay as it is.
fn fingerprint(stage: &Stage) -> Fingerprint {
    fn visit(path: &Path, seen: &mut Fingerprint) {
        // The example of a plug-in has its bundles there.
        if path.ends_with("pinfold-runc") {
            return;
        }
        let data = fs::symlink_metadata(path).unwrap();
        let content = if data.is_file() { fs::read(path).unwrap() } else { Vec::new() };
        let (mode, uid, gid) = (data.mode(), data.uid(), data.gid());
        let changed = [data.mtime(), data.mtime_nsec()];
        seen.insert(path.to_owned(), (mode, uid, gid, changed, content));
        // pinfold's own state is written to while it runs, and Podman's.
        let is_kept = path.ends_with("pinfold") || path.ends_with("containers");
        if data.is_dir() && !is_kept {
            for entry in fs::read_dir(path).unwrap() {
                visit(&entry.unwrap().path(), seen);
            }
        }
    }
    let mut seen = BTreeMap::new();
    for name in ["home", "other", "readable"] {
        visit(&stage.path(name), &mut seen);
    }
    seen
}

/// Whether an attempt is one of these, by its category and how its name begins.
fn is_of(line: &Line, attempts: &[(&str, &str)]) -> bool {
    let is =
        |(category, name): &(&str, &str)| line.category == *category && line.name.starts_with(name);
    attempts.iter().any(is)
}

/// What the results say against the boundary, or against the attempts.
pub(super) fn complaints(inside: &[Line], outside: &[Line], known: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut complain = |line: &Line, what: &str| {
        let Line { category, name, detail, .. } = line;
        writeln!(text, "{what}: {category}: {name}: {detail}").unwrap();
    };
    for line in inside.iter().filter(|line| !is_of(line, known)) {
        match (line.outside.as_str(), line.outcome.as_str()) {
            ("granted", "breach") => {}
            ("granted", _) => complain(line, "granted and yet refused inside"),
            (_, "refused") => {}
            (_, "breach") => complain(line, "BREACH"),
            _ => complain(line, "broken inside"),
        }
    }
    for line in outside {
        let must_work = matches!(line.outside.as_str(), "works" | "granted");
        if must_work && line.outcome != "breach" {
            complain(line, "proves nothing, as it fails outside too");
        }
    }
    text
}

fn summary(inside: &[Line], outside: &[Line]) -> String {
    let proven = |line: &&Line| line.outcome == "breach";
    let mut categories: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for line in inside {
        categories.entry(&line.category).or_default().0 += 1;
    }
    for line in outside.iter().filter(proven) {
        categories.entry(&line.category).or_default().1 += 1;
    }
    let each = categories.iter().map(|(name, (tried, works))| {
        format!("  {name}: {tried} tried, of which {works} succeed outside\n")
    });
    let time: u64 = inside.iter().map(|line| line.milliseconds).sum();
    let mut slowest: Vec<&Line> = inside.iter().collect();
    slowest.sort_by_key(|line| std::cmp::Reverse(line.milliseconds));
    let slowest = slowest.iter().take(5).map(|line| {
        let Line { category, name, milliseconds, .. } = line;
        format!("  slow: {category}: {name}: {milliseconds} ms\n")
    });
    let (count, each, slowest) =
        (inside.len(), each.collect::<String>(), slowest.collect::<String>());
    format!("{count} attempts in {time} ms\n{each}{slowest}")
}

/// What was found against the boundary as this user, with these options, apart from what is known to succeed.
pub(super) fn tried_by(user: User, options: &[&str], known: &[(&str, &str)]) -> String {
    let stage = Stage::new(user);
    let mut secret = stage.pinfold(&["secret", "set", "anthropic"]);
    let mut secret = secret.stdin(Stdio::piped()).spawn().unwrap();
    secret.stdin.take().unwrap().write_all(KEY.as_bytes()).unwrap();
    assert!(secret.wait().unwrap().success());
    assert!(stage.run(options, &["true"]).status.success());
    let host = Host::start(&stage);
    let program = python_program(&[&[DRIVER][..], &ATTEMPTS[..]].concat());
    let program = stage.write("ws/hostile.py", program);
    let program = program.to_str().unwrap();
    let before = fingerprint(&stage);

    let (readable, writable) = (stage.path("readable"), stage.path("writable"));
    let mut run = stage.pinfold(&["run"]);
    run.args(options).arg("--read").arg(&readable);
    // That boundary has no directory that can be written to but the workspace.
    if !options.contains(&"landlock") {
        run.arg("--write").arg(&writable);
    }
    run.args(["--", PYTHON, "-I", program]).arg(host.tell(&stage, false));
    let inside = attempts(run);
    let after = fingerprint(&stage);
    let outside = if std::env::var_os(WITHOUT_CONTROL).is_some() {
        Vec::new()
    } else {
        let mut control = stage.command(PYTHON);
        control.args(["-I", program]).arg(host.tell(&stage, true));
        attempts(control)
    };

    println!("uid {}: {}", user.uid, summary(&inside, &outside));
    let complaints = complaints(&inside, &outside, known);
    assert_eq!(before, after, "files outside changed");
    assert!(host.end(), "the host's process did not survive");
    if complaints.is_empty() { complaints } else { format!("as uid {}:\n{complaints}", user.uid) }
}

#[test]
fn every_attempt_of_a_hostile_inside_is_refused() {
    if !installed("python3") {
        return skip("hostile", "the attempts need python3");
    }
    let known: &[_] = match engine().as_deref() {
        _ if behind_gvisor() => &OF_GVISOR,
        Some("nested") => &OF_NESTED,
        _ => &[],
    };
    let found: Vec<String> = people().into_iter().map(|user| tried_by(user, &[], known)).collect();
    assert!(found.iter().all(String::is_empty), "{}", found.concat());
}

#[test]
fn every_attempt_that_nested_sandboxes_do_not_grant_is_refused() {
    const TEST: &str = "every_attempt_that_nested_sandboxes_do_not_grant_is_refused";
    if !installed("python3") || engine().is_some() {
        return skip(TEST, "it needs python3 and the boundary namespace");
    }
    let tried = |user| tried_by(user, &["--nested"], &OF_NESTED);
    let found: Vec<String> = people().into_iter().map(tried).collect();
    assert!(found.iter().all(String::is_empty), "{}", found.concat());
}
