//! Running a program next to the command of a live session.

mod ends;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Session, Stage, Tmux, User, executable, installed, patience, people, skip};

const PATIENCE: Duration = Duration::from_secs(20);

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience(PATIENCE), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A number that the command line of nobody else holds.
fn mark(user: User) -> String {
    format!("{}{}", 1_000_000 + std::process::id(), user.uid)
}

#[test]
fn a_command_begins_at_its_first_word_with_or_without_dashes_before_it() {
    let stage = Stage::new(people()[0]);
    let session = Session::start(&stage, &[]);
    let name = session.id.as_str();
    for (words, said) in [
        (["exec", name, "echo", "-n", "--timeout", "1s"].as_slice(), "--timeout 1s"),
        (&["exec", name, "--timeout", "60s", "echo", "--", "a"], "-- a\n"),
        (&["exec", "--timeout", "60s", name, "--", "echo", "--", "a"], "-- a\n"),
    ] {
        let output = stage.pinfold(words).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{words:?}");
    }
    session.end();
}

#[test]
fn status_streams_environment_and_directory_are_its_own() {
    for user in people() {
        let stage = Stage::new(user);
        fs::create_dir(stage.path("ws/sub")).unwrap();
        let session = Session::start(&stage, &["--env", "A=session", "--env", "B=session"]);
        let sub = stage.path("ws/sub");
        let options = ["--env", "A=own", "--cwd", sub.to_str().unwrap()];
        let script = "echo \"$A $B $PINFOLD_WORKSPACE $(pwd)\"; echo wrong >&2; exit 7";
        let output = session.exec(&options, &["sh", "-c", script]);
        let workspace = stage.workspace();
        let expected = format!("own session {} {}\n", workspace.display(), sub.display());
        assert_eq!((said(&output), errors(&output).as_str()), (expected, "wrong\n"));
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(session.shell("kill -USR1 $$").status.code(), Some(128 + 10));

        let missing = session.exec(&[], &["no-such-program"]);
        assert_eq!(missing.status.code(), Some(127));
        assert!(errors(&missing).contains("command not found inside: no-such-program"));
        for directory in ["/missing", "/etc/passwd"] {
            let nowhere = session.exec(&["--cwd", directory], &["true"]);
            assert_eq!(nowhere.status.code(), Some(125));
            let says = format!("cannot enter the directory {directory} inside: ");
            assert!(errors(&nowhere).contains(&says), "{}", errors(&nowhere));
        }
        assert_eq!(session.exec(&[], &["/etc/passwd"]).status.code(), Some(126));
        let reserved = session.exec(&["--env", "HOME=/x"], &["true"]);
        assert!(errors(&reserved).contains("HOME is reserved"), "{}", errors(&reserved));

        // Longer than a message between two processes may be.
        let long = "x".repeat(120_000);
        let output = session.exec(&[], &["sh", "-c", "echo ${#1}", "sh", &long]);
        assert_eq!(said(&output), "120000\n");
        session.end();
    }
}

#[test]
fn exec_happens_inside_and_is_recorded() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("private", "secret of the host");
        let session = Session::start(&stage, &[]);
        let script = format!(
            "cat {}; grep -c Seccomp:.2 /proc/self/status; cat /proc/1/environ; echo $$ >mark",
            stage.path("private").display()
        );
        let output = session.shell(&script);
        assert_eq!(said(&output), "1\n", "{}", errors(&output));
        assert!(!errors(&output).contains("secret of the host"));
        let audit = said(&stage.pinfold(&["audit", "--json"]).output().unwrap());
        assert!(audit.contains("Seccomp") && audit.contains("\"launch\""), "{audit}");
        // One session, one process tree: what the command sees, it sees.
        assert!(stage.path("ws/mark").exists());
        session.end();
    }
}

#[test]
fn bytes_cross_exactly_however_slowly_they_are_taken() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let mut slow = session.spawn("head -c 50000000 /dev/urandom | tee copy | cat");
        // Nobody reads it, and others are not slowed down.
        assert_eq!(said(&session.shell("echo there")), "there\n");
        let mut taken = Vec::new();
        slow.stdout.take().unwrap().read_to_end(&mut taken).unwrap();
        assert!(slow.wait().unwrap().success());
        assert!(taken == fs::read(stage.path("ws/copy")).unwrap());

        let mut back = session.spawn("cat > back; sha256sum < back");
        let mut input = back.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(&taken).map(|()| taken));
        let output = back.wait_with_output().unwrap();
        let taken = writer.join().unwrap().unwrap();
        assert_eq!(taken, fs::read(stage.path("ws/back")).unwrap(), "{}", said(&output));
        session.end();
    }
}

#[test]
fn many_at_once_do_not_mix() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let execs: Vec<Child> =
            (0..40).map(|number| session.spawn(&format!("read x; echo $x {number}"))).collect();
        for (number, mut exec) in execs.into_iter().enumerate() {
            writeln!(exec.stdin.take().unwrap(), "in{number}").unwrap();
            let output = exec.wait_with_output().unwrap();
            assert_eq!(said(&output), format!("in{number} {number}\n"), "{}", errors(&output));
        }
        session.end();
    }
}

#[test]
fn session_without_free_descriptors_refuses_clients_and_goes_on() {
    for user in people() {
        let stage = Stage::new(user);
        let run = "ulimit -n 70; exec \"$0\" run -- sh -c 'echo ready; read line'";
        let mut process = stage.command("sh");
        process.args(["-c", run, executable()]);
        let session = Session::of(&stage, process);
        let mut execs: Vec<Child> = (0..100).map(|_| session.spawn("echo up; read x")).collect();
        let mut up = Vec::new();
        let mut refused = 0;
        for mut exec in execs.drain(..) {
            let mut line = String::new();
            let mut output = BufReader::new(exec.stdout.take().unwrap());
            output.read_line(&mut line).unwrap();
            if line == "up\n" {
                up.push(exec);
                continue;
            }
            let ended = exec.wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(125), "{}", errors(&ended));
            assert!(is_of_descriptors(&errors(&ended)), "{}", errors(&ended));
            refused += 1;
        }
        // What other tests have on their way counts, too.
        assert!(!up.is_empty() && refused > 10, "{} ran, {refused} were refused", up.len());
        for mut exec in up {
            drop(exec.stdin.take());
            exec.wait().unwrap();
        }
        wait_until("it goes on", || said(&session.shell("echo on")) == "on\n");
        session.end();
    }
}

/// Whether it says that there was no descriptor left.
fn is_of_descriptors(says: &str) -> bool {
    says.contains("RLIMIT_NOFILE") || says.contains("os error 24")
}

/// The kernel counts what is on its way between all processes of a user (unix(7), `ETOOMANYREFS`): a
/// sandbox that keeps as much there as it may hinders its own session, and ends none.
#[test]
fn descriptors_that_are_kept_on_their_way_end_no_session() {
    const HOARD: &str = "\
import array, os, socket, sys
own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
own.setblocking(False)
null = array.array('i', [os.open('/dev/null', os.O_RDONLY)] * 250)
try:
    while True: own.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null)])
except OSError as error: print(os.strerror(error.errno), flush=True)
sys.stdin.readline()";
    for user in people() {
        let stage = Stage::new(user);
        let mut process = stage.command("sh");
        let run = "ulimit -n 200; exec \"$0\" run -- sh -c 'echo ready; read line'";
        process.args(["-c", run, executable()]);
        let session = Session::of(&stage, process);
        let mut hoarding = session.command(&[], &["python3", "-c", HOARD]);
        hoarding.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hoarding = hoarding.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(hoarding.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let while_it_hoards = session.shell("echo on");
        if !user.is_root() {
            assert_eq!(line, "Too many references: cannot splice\n");
            let says = errors(&while_it_hoards);
            assert!(is_of_descriptors(&says), "{says}");
        }
        drop(hoarding.stdin.take());
        hoarding.wait().unwrap();
        wait_until("it goes on", || said(&session.shell("echo on")) == "on\n");
        session.end();
    }
}

/// Not even root, who can do anything to it, but not in its name.
#[test]
fn other_users_do_not_reach_it() {
    let [first, second] = people()[..] else {
        skip("other_users_do_not_reach_it", "there is one user");
        return;
    };
    for (user, other) in [(first, second), (second, first)] {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let theirs = Stage::new(other);
        let state = stage.path("home/.local/state");
        for words in [&["exec", &session.id, "--", "true"][..], &["stop", &session.id]] {
            let mut command = theirs.pinfold(words);
            let output = command.env("XDG_STATE_HOME", &state).output().unwrap();
            assert!(!output.status.success());
            let says = errors(&output);
            let is_refused = ["belongs to the user with id", "cannot read"];
            assert!(is_refused.iter().any(|text| says.contains(text)), "{says}");
        }
        assert_eq!(said(&session.shell("echo on")), "on\n");
        session.end();
    }
}

#[test]
fn a_name_that_is_no_sessions_is_an_error_with_a_way_out() {
    let stage = Stage::new(people()[0]);
    let first = Session::start(&stage, &[]);
    let unknown = stage.pinfold(&["exec", "zzz", "--", "true"]).output().unwrap();
    assert!(errors(&unknown).contains("no live session zzz") && errors(&unknown).contains("ps"));
    let empty = stage.pinfold(&["exec", "", "--", "true"]).output().unwrap();
    assert!(errors(&empty).contains("a session has a name"), "{}", errors(&empty));
    first.end();
}

#[test]
fn a_shell_in_a_session_has_a_terminal_of_its_own() {
    if !installed("tmux") || !installed("bash") {
        skip("a_shell_in_a_session", "tmux or bash is not installed");
        return;
    }
    let pinfold = executable();
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        let id = &session.id;
        let shell = "bash --noprofile --norc";
        tmux.line(&format!("{pinfold} exec {id} --env 'PS1=inner> ' -- {shell}"));
        tmux.wait_for_prompt("inner>");
        tmux.resize(100, 30);
        tmux.wait_for_prompt("inner>");
        tmux.line("clear; stty size; tty");
        tmux.wait_until("its size and name", |screen| {
            screen.contains("30 100") && screen.contains("/dev/pts/")
        });
        // In a session that leads its own terminal.
        tmux.has_job_control("inner>", &format!("sleep {}", mark(user)));
        tmux.line("exit 9");
        tmux.wait_for_prompt("outer>");
        tmux.line("echo status $?");
        tmux.wait_for_line("status 9");
        // What is stopped as a whole stops its client, too.
        tmux.line(&format!("clear; {pinfold} exec {id} -- sh -c 'kill -STOP $$; echo went on'"));
        tmux.wait_for("Stopped");
        tmux.line("clear; fg");
        tmux.wait_for_line("went on");
        session.end();
    }
}
