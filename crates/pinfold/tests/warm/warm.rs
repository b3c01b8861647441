//! Sandboxes that are prepared before somebody wants one.

mod deaths;
mod fits;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Person, Stage, Tmux, executable, installed, people, skip};

const PATIENCE: Duration = Duration::from_secs(20);
/// What `--timings` says of a run that took what was prepared.
const TAKEN: &str = "takes a prepared inside";

/// A keeper that has said that it is ready.
struct Keeper {
    process: Child,
    errors: BufReader<ChildStderr>,
}

impl Keeper {
    fn start(stage: &Stage, options: &[&str]) -> Self {
        let mut command = stage.pinfold(&["warm"]);
        let mut process = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        let mut keeper = Self { process, errors };
        let said = keeper.line();
        assert!(said.contains("prepared for runs in"), "{said}");
        keeper
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), signal).unwrap();
    }

    fn end(mut self) {
        self.signal(rustix::process::Signal::TERM);
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a script with these options, and says whether its inside was prepared.
fn run(stage: &Stage, options: &[&str], script: &str) -> (Output, bool) {
    let output = stage.run_shell(&[&["--timings"], options].concat(), script);
    let is_taken = errors(&output).contains(TAKEN);
    (output, is_taken)
}

/// Runs until one takes what was prepared: the keeper needs some milliseconds for the next, and
/// starts again whenever something is mounted on this machine.
fn taken(stage: &Stage, options: &[&str], script: &str) -> Output {
    let begun = Instant::now();
    loop {
        let (output, is_taken) = run(stage, options, script);
        if is_taken {
            return output;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is taken: {}", errors(&output));
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn host(stage: &Stage, script: &str) {
    let output = stage.command("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", errors(&output));
}

fn names(path: PathBuf) -> BTreeSet<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn sessions(stage: &Stage) -> usize {
    names(stage.state().join("sessions")).iter().filter(|name| *name != "lock").count()
}

/// Waits until something is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn git_workspace(person: Person) -> Stage {
    let stage = Stage::new(person);
    host(&stage, "git init -q .; mkdir sub; echo text > sub/file");
    stage
}

#[test]
fn a_run_that_takes_what_was_prepared_is_like_any_other() {
    for person in people() {
        let stage = git_workspace(person);
        let keeper = Keeper::start(&stage, &["-n", "2"]);
        let output =
            taken(&stage, &["--env", "A=b"], "cat sub/file; echo \"$A\" $(pwd) >&2; exit 7");
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(said(&output), "text\n");
        let pwd = stage.workspace();
        assert!(errors(&output).contains(&format!("b {}", pwd.display())), "{}", errors(&output));

        // From below, with input, an argument longer than a message and signals.
        let begun = Instant::now();
        loop {
            let mut command = stage.pinfold(&["run", "--timings", "--", "sh", "-c"]);
            command.arg("cat; echo ${#1}; pwd; kill -TERM $$").arg("sh").arg("x".repeat(100_000));
            command.current_dir(stage.workspace().join("sub")).stdin(Stdio::piped());
            let mut process =
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut process.stdin.take().unwrap(), b"input\n").unwrap();
            let output = process.wait_with_output().unwrap();
            assert_eq!(said(&output), format!("input\n100000\n{}/sub\n", pwd.display()));
            assert_eq!(output.status.code(), Some(128 + 15));
            if errors(&output).contains(TAKEN) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE);
        }
        keeper.end();
        assert_eq!((sessions(&stage), names(stage.state().join("warm")).len()), (0, 0));
    }
}

#[test]
fn nothing_of_a_run_is_there_for_the_next() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        let script =
            "ls -A /tmp /home/agent; echo secret > /tmp/left; echo x > ~/left; ps ax | wc -l";
        let first = said(&taken(&stage, &[], script));
        assert_eq!(said(&taken(&stage, &[], script)), first);
        keeper.end();
    }
}

fn spawn_quietly(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn runs_at_once_each_get_one_of_their_own() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &["-n", "3"]);
        let runs: Vec<Child> = (0..8)
            .map(|number| {
                let script = format!("echo {number} > /tmp/mark; sleep 0.2; cat /tmp/mark");
                spawn_quietly(stage.pinfold(&["run", "--", "sh", "-c", &script]))
            })
            .collect();
        for (number, run) in runs.into_iter().enumerate() {
            let output = run.wait_with_output().unwrap();
            assert_eq!(said(&output), format!("{number}\n"), "{}", errors(&output));
        }
        keeper.end();
        assert_eq!(sessions(&stage), 0);
    }
}

#[test]
fn a_terminal_is_the_runs_own() {
    if !installed("tmux") {
        skip("a_terminal_is_the_runs_own", "tmux is not installed");
        return;
    }
    let pinfold = executable();
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &["-n", "2"]);
        taken(&stage, &[], "true");
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let script = "trap 'echo caught; stty size; exit 4' INT; tty; echo up; read line";
        tmux.line(&format!("{pinfold} run --timings -- sh -c \"{script}\"; echo status $?"));
        tmux.wait_for_line("up");
        tmux.resize(100, 30);
        tmux.keys(&["C-c"]);
        tmux.wait_for_line("status 4");
        let screen = tmux.screen();
        assert!(screen.contains("/dev/pts/0\n") && screen.contains("30 100"), "{screen}");
        assert!(screen.contains(TAKEN), "{screen}");
        keeper.end();
    }
}

#[test]
fn a_prepared_view_is_reviewed_like_any_other() {
    for person in people() {
        let stage = git_workspace(person);
        let options = ["--workspace", "overlay"];
        let keeper = Keeper::start(&stage, &options);
        stage.write("ws/late", "written after the preparation");
        let output = taken(&stage, &options, "cat late; echo changed > sub/file");
        assert_eq!(said(&output), "written after the preparation");
        let output = stage.pinfold(&["diff"]).output().unwrap();
        assert!(said(&output).contains("+changed"), "{}", errors(&output));
        assert!(stage.pinfold(&["apply"]).output().unwrap().status.success());
        assert_eq!(fs::read_to_string(stage.workspace().join("sub/file")).unwrap(), "changed\n");
        keeper.end();
        assert_eq!(names(stage.state().join("review")).len(), 0);
    }
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    for person in people() {
        let stage = git_workspace(person);
        let refused = |options: &[&str]| {
            let output = stage.pinfold(&["warm"]).args(options).output().unwrap();
            assert!(!output.status.success());
            errors(&output)
        };
        assert!(refused(&["--worktree-branch", "b"]).contains("nothing to prepare"));
        assert!(refused(&["-n", "0"]).contains("0"));
        stage.write("ws/sandbox.json", r#"{"vsf":{}}"#);
        assert!(refused(&[]).contains("vfs"));
        assert_eq!(sessions(&stage), 0);
    }
}
