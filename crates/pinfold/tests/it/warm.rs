//! Sandboxes that are prepared before somebody wants one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::tmux::Tmux;
use crate::common::{Person, Stage, installed, people, processes_with, skip};

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

/// What is looked over is the workspace as it is when the run starts, not when it was prepared.
#[test]
fn what_came_after_the_preparation_is_protected() {
    for person in people() {
        let stage = git_workspace(person);
        let keeper = Keeper::start(&stage, &[]);
        stage.write("ws/.env", "TOKEN=secret");
        stage.write("ws/.git/hooks/pre-commit", "#!/bin/sh\n");
        let script =
            "cat .env; echo evil >> .git/hooks/pre-commit; ls .git >/dev/null && echo seen";
        let output = taken(&stage, &[], script);
        assert!(!said(&output).contains("secret") && said(&output).contains("seen"));
        let hook = fs::read_to_string(stage.workspace().join(".git/hooks/pre-commit")).unwrap();
        assert_eq!(hook, "#!/bin/sh\n");
        keeper.end();
    }
}

#[test]
fn a_run_with_other_settings_makes_its_own() {
    for person in people() {
        let stage = Stage::new(person);
        stage.write("data/file", "granted");
        let keeper = Keeper::start(&stage, &[]);
        let data = stage.path("data");
        let data = data.to_str().unwrap();
        for options in [&["--read", data][..], &["--files", "99"], &["--allow-host", "example.com"]]
        {
            let (output, is_taken) = run(&stage, options, &format!("cat {data}/file; ulimit -n"));
            assert!(!is_taken, "{options:?}");
            match options[0] {
                "--read" => assert!(said(&output).starts_with("granted")),
                "--files" => assert_eq!(said(&output), "99\n"),
                _ => {}
            }
        }
        // What the user writes down meanwhile counts at once, and is prepared from then on.
        stage.write("ws/sandbox.json", r#"{"vfs":{"shadow":["hidden"]}}"#);
        stage.write("ws/hidden/file", "on the host");
        let script = "cat hidden/file 2>/dev/null; echo done";
        assert_eq!(said(&run(&stage, &[], script).0), "done\n");
        assert_eq!(said(&taken(&stage, &[], script)), "done\n");
        keeper.end();
    }
}

#[test]
fn another_directory_at_a_granted_path_is_not_what_was_prepared() {
    for person in people() {
        let stage = Stage::new(person);
        stage.write("data/file", "first");
        let data = stage.path("data");
        let options = ["--read", data.to_str().unwrap()];
        let script = format!("cat {}/file", data.display());
        let keeper = Keeper::start(&stage, &options);
        host(&stage, "cd ..; mv data old; mkdir data; echo second > data/file");
        assert_eq!(said(&run(&stage, &options, &script).0), "second\n");
        assert_eq!(said(&taken(&stage, &options, &script)), "second\n");
        keeper.end();
    }
}

#[test]
fn what_was_mounted_after_the_preparation_is_there() {
    let is_root = |person: &Person| person.is_root();
    for person in people().into_iter().filter(is_root) {
        let stage = Stage::new(person);
        let pinfold = env!("CARGO_BIN_EXE_pinfold");
        let script = format!(
            "mkdir -p data/sub; {pinfold} warm 2>&1 & keeper=$!; \
             until ls \"$HOME\"/.local/state/pinfold/warm/* >/dev/null 2>&1; do sleep 0.01; done; \
             sleep 0.3; mount -t tmpfs none data/sub; echo mounted >data/sub/file; \
             {pinfold} run -- cat data/sub/file; kill $keeper; wait $keeper"
        );
        let mut command = stage.command("/usr/bin/unshare");
        let output = command.args(["-m", "/bin/sh", "-c", &script]).output().unwrap();
        assert!(said(&output).contains("\nmounted\n"), "{}{}", said(&output), errors(&output));
    }
}

/// An inside inherits from the process that makes it: who is confined more than the keeper must not
/// get what the keeper has.
#[test]
fn what_a_caller_set_for_a_run_is_not_lost() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        taken(&stage, &[], "true");
        let pinfold = env!("CARGO_BIN_EXE_pinfold");
        for (before, shown, expected) in [
            ("umask 77", "umask", "0077"),
            ("renice -n 9 $$ >/dev/null", "nice", "9"),
            ("ulimit -s 4096", "ulimit -s", "4096"),
            ("taskset -p 1 $$ >/dev/null", "nproc", "1"),
            ("ionice -c 3 -p $$", "ionice", "idle"),
        ] {
            let script = format!("{before}; exec {pinfold} run --timings -- sh -c '{shown}'");
            let output = stage.command("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(said(&output).trim(), expected, "{before}");
            assert!(!errors(&output).contains(TAKEN), "{before}");
        }
        keeper.end();
    }
}

/// Landlock shows nowhere in /proc, but who stands behind it may not look at who does not.
#[test]
fn a_process_behind_landlock_gets_no_inside_that_was_made_before_it() {
    // Nothing may be written to but beneath these (landlock(7)).
    const WALL: &str = "import ctypes, os, sys\n\
        call = ctypes.CDLL(None, use_errno=True).syscall\n\
        attributes = (ctypes.c_uint64 * 1)(2)\n\
        rules = call(444, attributes, 8, 0)\n\
        for place in sys.argv[1].split(':'):\n \
          class Beneath(ctypes.Structure): _pack_ = 1; _fields_ = [('a', ctypes.c_uint64), ('f', ctypes.c_int32)]\n \
          beneath = Beneath(2, os.open(place, os.O_PATH))\n \
          assert call(445, rules, 1, ctypes.byref(beneath), 0) == 0\n\
        if call(446, rules, 0): sys.exit(77)\n\
        os.execv(sys.argv[2], sys.argv[2:])\n";
    for person in people() {
        let stage = Stage::new(person);
        let victim = stage.write("ws/victim", "original");
        let pinfold = env!("CARGO_BIN_EXE_pinfold");
        let keeper = format!("{pinfold} warm 2>&1 & keeper=$!");
        let places = format!("{}:/dev:/tmp", stage.path("home").display());
        let script = format!(
            "{keeper}; until ls \"$HOME\"/.local/state/pinfold/warm/* >/dev/null 2>&1; do \
             sleep 0.01; done; sleep 0.3; python3 -c '{}' {places} {pinfold} run -- \
             sh -c 'echo escaped >victim'; echo status $?; kill $keeper; wait $keeper",
            WALL.replace('\'', "\"")
        );
        let mut command = stage.command("/usr/bin/setpriv");
        let output = command.args(["--no-new-privs", "/bin/sh", "-c", &script]).output().unwrap();
        if said(&output).contains("status 77") {
            skip("a_process_behind_landlock", "this kernel has no Landlock");
            return;
        }
        assert_eq!(fs::read_to_string(victim).unwrap(), "original", "{}", said(&output));
    }
}

/// A run whose command has said that it is there.
fn running(stage: &Stage, script: &str) -> Child {
    let begun = Instant::now();
    loop {
        let script = format!("echo ready >&2; {script}");
        let mut run = stage.pinfold(&["run", "--timings", "--", "sh", "-c", &script]);
        let mut process = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        if is_child_of(process.id()) {
            // It made its own inside.
            process.kill().unwrap();
            process.wait().unwrap();
            assert!(begun.elapsed() < PATIENCE);
            continue;
        }
        return process;
    }
}

/// Whether a run's inside is its own child.
fn is_child_of(pid: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().is_some()
}

#[test]
fn a_run_outlives_its_keeper() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &["-n", "3"]);
        let mut process = running(&stage, "cat; setsid sleep 0.1; echo end");
        keeper.signal(rustix::process::Signal::KILL);
        drop(keeper);
        drop(process.stdin.take());
        let mut rest = String::new();
        process.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "end\n");
        assert!(process.wait().unwrap().success());
        // What was prepared and not taken has gone, and the next start removes the traces.
        let (output, is_taken) = run(&stage, &[], "true");
        assert!(output.status.success() && !is_taken);
        assert_eq!((sessions(&stage), names(stage.state().join("warm")).len()), (0, 0));
    }
}

#[test]
fn everything_inside_dies_with_a_run_that_took_it() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        let mark = format!("{}", 100_000 + std::process::id());
        let script = format!("(trap '' TERM HUP; setsid sleep {mark}) & cat");
        let mut process = running(&stage, &script);
        wait_until("it runs", || !processes_with(&mark).is_empty());
        process.kill().unwrap();
        process.wait().unwrap();
        wait_until("it is gone", || processes_with(&mark).is_empty());
        assert!(taken(&stage, &[], "true").status.success());
        keeper.end();
        assert_eq!(sessions(&stage), 0);
    }
}

/// A keeper that is stopped, or that dies at any moment, costs a run some time at most.
#[test]
fn a_keeper_that_does_not_answer_is_not_waited_for() {
    for person in people() {
        let stage = Stage::new(person);
        let keeper = Keeper::start(&stage, &[]);
        keeper.signal(rustix::process::Signal::STOP);
        let begun = Instant::now();
        let (output, is_taken) = run(&stage, &[], "echo own");
        assert_eq!((said(&output).as_str(), is_taken), ("own\n", false));
        assert!(begun.elapsed() < Duration::from_secs(5));
        keeper.signal(rustix::process::Signal::CONT);
        assert!(taken(&stage, &[], "true").status.success());
    }
}

#[test]
fn a_keeper_killed_at_any_moment_fails_no_run_and_leaves_nothing() {
    for person in people() {
        let stage = Stage::new(person);
        for moment in 0..10 {
            let keeper = Keeper::start(&stage, &["-n", "2"]);
            let script = stage.pinfold(&["run", "--", "echo", "ran"]);
            let run = spawn_quietly(script);
            std::thread::sleep(Duration::from_millis(moment * 3));
            keeper.signal(rustix::process::Signal::KILL);
            drop(keeper);
            let output = run.wait_with_output().unwrap();
            // In the moment of the change of hands it may be told that init has gone.
            assert!(
                said(&output) == "ran\n" || errors(&output).contains("init ended"),
                "{moment}: {}",
                errors(&output)
            );
        }
        // A copy of the keeper that was just being made may hold its socket a little longer.
        wait_until("nothing is left", || {
            assert!(run(&stage, &[], "true").0.status.success());
            (sessions(&stage), names(stage.state().join("warm")).len()) == (0, 0)
        });
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
    let pinfold = env!("CARGO_BIN_EXE_pinfold");
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

#[test]
fn no_other_user_reaches_a_keeper() {
    let people = people();
    let [Person { .. }, other] = people[..] else { return };
    let stage = Stage::new(people[0]);
    let keeper = Keeper::start(&stage, &[]);
    let warm = stage.state().join("warm");
    let socket = warm.join(names(warm.clone()).pop_first().unwrap());
    // Even where directories above were opened by mistake, the keeper asks who comes.
    for directory in warm.ancestors().take_while(|path| path.starts_with(stage.base())) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(directory, mode).unwrap();
    }
    fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  s.connect(sys.argv[1])\n\
                  s.settimeout(10)\n\
                  try:\n \
                    s.send(b'{\"fingerprint\":[' + b'0,' * 31 + b'0]}')\n \
                    sys.exit(0 if s.recv(100) == b'' else 1)\n\
                  except (BrokenPipeError, ConnectionResetError): pass";
    let output =
        other.command("/usr/bin/python3").args(["-c", script]).arg(&socket).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(taken(&stage, &[], "true").status.success());
    keeper.end();
}
