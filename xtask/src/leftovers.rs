//! `cargo xtask leftovers`: runs a command and fails if something of it outlives it.
//!
//! Processes are found by descent: this one becomes the reaper of orphans, so a daemon that leaves
//! its session and its parent is still a descendant. Mounts, control groups and files are found by
//! comparing lists from before and after; on a machine where others work at the same time these may
//! name something of theirs, so the task only fails where `CI` is set, and never for files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

use crate::Outcome;
use crate::cargo;

/// How long processes may take to end by themselves after the command.
const GRACE: Duration = Duration::from_secs(10);
/// Directories whose entries are compared.
const SHARED: &[&str] = &["/dev/shm", "/run", "/tmp", "/var/lib", "/var/tmp"];
/// The same below the caller's home, where package managers may keep their caches.
const HOME: &[&str] = &["", ".config", ".local/share", ".local/state"];
const CACHES: &[&str] = &[".cache", ".cargo", ".npm", ".rustup"];
/// How a line about a file begins.
const FILE: &str = "file";
/// Control groups are compared this many directories deep.
const GROUP_DEPTH: usize = 3;

/// Runs a command, and reports what is left of it.
///
/// # Errors
/// Returns an error if the command fails or if something is left of it.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let [program, arguments @ ..] = words else {
        return Err("usage: cargo xtask leftovers COMMAND…".into());
    };
    // The caller's own id asks for orphans. `None` would decline them.
    set_child_subreaper(Some(getpid()))?;
    let before = Traces::find();
    let child = cargo::command(program).args(arguments).spawn()?;
    let status = wait_for(Pid::from_child(&child))?;
    let left = end_descendants(GRACE)?;
    for process in &left {
        eprintln!("leftovers: process {process}");
    }
    let traces = lasting_traces(&before);
    for trace in &traces {
        eprintln!("leftovers: {trace}");
    }
    // Daemons of the system make and remove files too, whenever they like.
    let is_file = |trace: &&String| trace.starts_with(FILE);
    let lasting = traces.iter().filter(|trace| !is_file(trace)).count();
    let is_alone = std::env::var_os("CI").is_some();
    if status != Some(0) {
        let status = status.map_or("a signal".to_owned(), |status| format!("exit status {status}"));
        return Err(format!("{program} ended with {status}").into());
    }
    if !is_alone || (left.is_empty() && lasting == 0) {
        return Ok(());
    }
    Err(format!("{program} left {} processes, {lasting} mounts or groups", left.len()).into())
}

/// Waits for a child and returns its exit status, `None` if a signal ended it. Reaps orphans too:
/// tests look whether a process has gone, and a zombie has not.
fn wait_for(child: Pid) -> io::Result<Option<i32>> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Ok(status.exit_status()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives descendants time to end, ends those that do not, and returns their command lines.
fn end_descendants(grace: Duration) -> io::Result<Vec<String>> {
    let begun = Instant::now();
    while begun.elapsed() < grace && !descendants()?.is_empty() {
        reap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut left = Vec::new();
    // Who is ended may leave another orphan.
    loop {
        let alive = descendants()?;
        if alive.is_empty() {
            return Ok(left);
        }
        for pid in alive {
            let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
            let words = String::from_utf8_lossy(&line).replace('\0', " ");
            left.push(format!("{} {}", pid.as_raw_pid(), words.trim_end()));
            // A process that has gone by now is what was wanted.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(50));
        reap();
    }
}

/// Returns the traces that are there all the time for a while: daemons of the system remove some later, and what others
/// do at the same time comes and goes.
fn lasting_traces(before: &Traces) -> Vec<String> {
    let begun = Instant::now();
    let mut lasting = Traces::find().since(before);
    while !lasting.is_empty() && begun.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(200));
        let still = Traces::find().since(before);
        lasting.retain(|trace| still.contains(trace));
    }
    lasting
}

/// Reaps all children that have ended.
fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Returns all processes below this one, except zombies.
fn descendants() -> io::Result<Vec<Pid>> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let Ok(pid) = name.parse::<i32>() else { continue };
        // A process may end between the listing and here.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = parent_of(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![getpid().as_raw_pid()]);
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            next.push(child);
        }
    }
    Ok(found)
}

/// Reads the parent's id from `/proc/PID/stat` (proc_pid_stat(5)); `None` for a zombie. The name in
/// brackets may hold any byte, brackets too, so fields are counted from the last one.
fn parent_of(stat: &[u8]) -> Option<i32> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = stat[after_name..].split(|byte| *byte == b' ').skip(1);
    let state = fields.next()?;
    let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    (state != b"Z").then_some(parent)
}

/// What a program can leave besides processes, each as a line of text.
#[derive(Debug)]
struct Traces(BTreeSet<String>);

impl Traces {
    /// Lists what is there now. What cannot be read is no trace.
    fn find() -> Self {
        let mut lines = BTreeSet::new();
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        for line in String::from_utf8_lossy(&mounts).lines() {
            // Field 5 is the mount point (proc_pid_mountinfo(5)).
            lines.extend(line.split(' ').nth(4).map(|at| format!("mount {at}")));
        }
        for directory in SHARED {
            lines.extend(entries(Path::new(directory)).map(|path| shown(FILE, &path)));
        }
        if let Some(home) = std::env::var_os("HOME") {
            for directory in HOME {
                let is_cache = |path: &PathBuf| CACHES.iter().any(|name| path.ends_with(name));
                let found = entries(&Path::new(&home).join(directory));
                lines.extend(found.filter(|path| !is_cache(path)).map(|path| shown(FILE, &path)));
            }
        }
        add_groups(Path::new("/sys/fs/cgroup"), GROUP_DEPTH, &mut lines);
        Self(lines)
    }

    /// Returns what an earlier list does not have.
    fn since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn shown(kind: &str, path: &Path) -> String {
    format!("{kind} {}", path.display())
}

/// Adds the control groups of pinfold below a directory. Their directories cannot be links. Engines that tests kill
/// leave groups of their own.
fn add_groups(directory: &Path, depth: usize, lines: &mut BTreeSet<String>) {
    for path in entries(directory).filter(|path| path.is_dir()) {
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        if name.contains("pinfold") {
            lines.insert(shown("control group", &path));
        }
        if depth > 1 {
            add_groups(&path, depth - 1, lines);
        }
    }
}

#[cfg(test)]
mod tests;
