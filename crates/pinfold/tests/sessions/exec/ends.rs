//! How it ends: by signals, by its time, with its client, and with the session.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::{
    OWN_PROCESSES, Session, Stage, behind_vm, not_behind_gvisor, people, processes_with,
};
use rustix::process::Signal;

use super::{PATIENCE, errors, mark, said, wait_until};

/// The process that stands above what `exec` runs is one of the sandbox's user.
const ABOVE: &str = "for stat in /proc/[0-9]*/stat; do read pid name state parent rest < $stat; \
                     [ \"$name\" = '(sleep)' ] && [ $parent != 1 ] && echo $parent; done 2>/dev/null";

fn signal(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Stops a process and waits until it has stopped.
fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    wait_until("it has stopped", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    });
}

#[test]
fn a_suspended_session_keeps_nobody_waiting_and_can_be_ended() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let mut begun = session.spawn("echo begun; exec sleep 60");
        let mut line = String::new();
        BufReader::new(begun.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        stop(session.process.id());
        let refused = session.shell("true");
        assert_eq!(refused.status.code(), Some(125));
        let says = errors(&refused);
        assert!(says.contains("is suspended") && says.contains("kill -CONT"), "{says}");
        let list = |arguments: &[&str]| stage.pinfold(arguments).output().unwrap();
        let listed = list(&["ps"]);
        assert!(said(&listed).contains("  suspended  "), "{}", said(&listed));
        let unlisted = list(&["approvals"]);
        assert_eq!(unlisted.status.code(), Some(1));
        let says = errors(&unlisted);
        assert!(says.contains(&session.id) && says.contains("is suspended"), "{says}");
        assert!(!says.contains("no requests wait"), "{says}");
        // One that waits already can be ended as usual.
        signal(begun.id(), Signal::TERM);
        assert_eq!(begun.wait().unwrap().code(), Some(125));
        signal(session.process.id(), Signal::CONT);
        assert_eq!(said(&session.shell("echo back")), "back\n");
        // At once: it need not have stopped yet.
        signal(session.process.id(), Signal::STOP);
        let stopped = stage.pinfold(&["stop", &session.id]).output().unwrap();
        assert!(stopped.status.success(), "{}", errors(&stopped));
        session.end();
    }
}

#[test]
fn a_suspended_session_that_has_no_room_for_connections_can_be_ended() {
    /// Connects more often than may wait to be accepted.
    const CONNECT: &str = "\
import socket
for _ in range(65):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect('control')
";
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        stop(session.process.id());
        let private = stage.state().join("private").join(&session.id);
        let mut connect = stage.command("/usr/bin/python3");
        let connected = connect.args(["-c", CONNECT]).current_dir(&private).status().unwrap();
        assert!(connected.success());
        let stopped = stage.pinfold(&["stop", &session.id]).output().unwrap();
        assert!(stopped.status.success(), "{}", errors(&stopped));
        session.end();
    }
}

/// However it has forked: nothing of it is left, and the session goes on.
#[test]
fn a_time_that_is_over_ends_the_whole_tree() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let mark = mark(user);
        let script = format!(
            "trap '' TERM HUP; (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; \
             (trap '' TERM; sleep {mark}) & sleep {mark}"
        );
        let output = session.exec(&["--timeout", "500ms"], &["sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(124));
        assert!(errors(&output).contains("the timeout limit ended"), "{}", errors(&output));
        wait_until("nothing is left", || processes_with(&mark).is_empty());
        assert_eq!(said(&session.shell("echo on")), "on\n");
        session.end();
    }
}

/// Counts the processes that have this argument: on the host, or in a guest.
fn count(session: &Session, mark: &str) -> usize {
    if !behind_vm() {
        return processes_with(mark).len();
    }
    // Not what grep itself has as an argument.
    let (first, rest) = mark.split_at(1);
    let script = format!("grep -lzx '[{first}]{rest}' /proc/[0-9]*/cmdline | wc -l");
    said(&session.shell(&script)).trim().parse().unwrap()
}

#[test]
fn program_of_a_client_ends_when_it_dies_and_the_session_goes_on() {
    if not_behind_gvisor("what a client ran", OWN_PROCESSES) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let mark = mark(user);
        // Some hear that it has gone, others do not.
        for deaf in ["trap '' HUP; ", ""] {
            let script = format!("(trap '' HUP; setsid sleep {mark} &); {deaf}sleep {mark}");
            let mut client = session.spawn(&script);
            wait_until("it runs", || count(&session, &mark) >= 2);
            client.kill().unwrap();
            client.wait().unwrap();
            wait_until("nothing is left", || count(&session, &mark) == 0);
            assert_eq!(said(&session.shell("echo on")), "on\n");
        }
        session.end();
    }
}

#[test]
fn signals_reach_what_runs() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let mut client = session.spawn("trap 'echo caught; exit 3' TERM; echo up; read x; read y");
        let mut output = BufReader::new(client.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        let pid = rustix::process::Pid::from_raw(i32::try_from(client.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), client.wait().unwrap().code()), ("caught\n", Some(3)));
        session.end();
    }
}

#[test]
fn exec_ends_with_the_session_and_says_so() {
    for user in people() {
        let stage = Stage::new(user);
        for stop in [true, false] {
            let mut session = Session::start(&stage, &[]);
            let mut client = session.spawn("echo up; sleep 1000");
            let mut output = BufReader::new(client.stdout.take().unwrap());
            output.read_line(&mut String::new()).unwrap();
            if stop {
                let stopped = stage.pinfold(&["stop", &session.id]).output().unwrap();
                assert!(stopped.status.success(), "{}", errors(&stopped));
                // Who stops it has waited for its end.
                assert!(
                    stage.pinfold(&["stop", &session.id]).output().unwrap().status.code()
                        == Some(125)
                );
            } else {
                session.process.kill().unwrap();
            }
            let ended = client.wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(125));
            assert!(errors(&ended).contains("the session has ended"), "{}", errors(&ended));
            session.process.wait().unwrap();
        }
        assert!(stage.run(&[], &["true"]).status.success());
        assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
    }
}

#[test]
fn a_session_deaf_to_the_wish_to_end_is_killed() {
    for user in people() {
        let stage = Stage::new(user);
        let mut run = stage.pinfold(&["run", "--", "sh", "-c"]);
        run.arg("trap '' TERM; echo ready; while :; do sleep 1; done").stdout(Stdio::piped());
        let mut process = run.spawn().unwrap();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let names = fs::read_dir(stage.state().join("private")).unwrap().flatten();
        let id = names.map(|entry| entry.file_name().into_string().unwrap()).last().unwrap();
        let begun = Instant::now();
        let stopped = stage.pinfold(&["stop", "--grace", "300ms", &id]).output().unwrap();
        assert!(stopped.status.success() && begun.elapsed() < PATIENCE, "{}", errors(&stopped));
        assert_eq!(process.wait().unwrap().code(), Some(128 + 9));
    }
}

#[test]
fn command_that_stops_itself_stops_no_attached_client() {
    for user in people() {
        let stage = Stage::new(user);
        let begun = Instant::now();
        let mut run = stage.pinfold(&["run", "--timeout", "1s", "--", "sh", "-c", "kill -STOP $$"]);
        let output = run.stdin(Stdio::null()).output().unwrap();
        assert!(errors(&output).contains("timeout limit"), "{}", errors(&output));

        let session = Session::start(&stage, &[]);
        let mut exec = session.command(&["--timeout", "1s"], &["sh", "-c", "kill -STOP $$"]);
        let output = exec.stdin(Stdio::null()).output().unwrap();
        assert!(errors(&output).contains("timeout limit"), "{}", errors(&output));
        assert!(begun.elapsed() < PATIENCE);
        session.end();
    }
}

#[test]
fn stopped_minder_of_a_task_does_not_stop_its_time_limit() {
    for user in people() {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        let begun = Instant::now();
        let mut exec =
            session.command(&["--timeout", "2s"], &["sh", "-c", "echo up; exec sleep 99"]);
        let mut exec = exec.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(exec.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        let stop = format!("{ABOVE} | while read above; do kill -STOP $above; done");
        session.shell(&stop);
        assert_eq!(exec.wait().unwrap().code(), Some(124));
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(said(&session.shell("echo on")), "on\n");
        session.end();
    }
}

/// It could not be ended any more.
#[test]
fn a_session_ends_when_what_is_above_a_task_is_killed() {
    for user in people() {
        let stage = Stage::new(user);
        let mut session = Session::start(&stage, &[]);
        let mut exec = session.spawn("echo up; exec sleep 99");
        BufReader::new(exec.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        session.shell(&format!("kill -KILL $({ABOVE})"));
        assert!(!exec.wait().unwrap().success());
        assert!(!session.process.wait().unwrap().success());
    }
}

#[test]
fn nobody_inside_keeps_a_client_by_holding_its_output() {
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let stage = Stage::new(user);
        let session = Session::start(&stage, &[]);
        // Takes hold of the output of whatever is called so, when it is there.
        let script = "echo up; until pid=$(pgrep -x sleep); do :; done; \
                      exec 3>/proc/$pid/fd/1; touch held; exec tail -f /dev/null";
        let mut holder = session.spawn(script);
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        let begun = Instant::now();
        let output = session.exec(&["--timeout", "3s"], &["sleep", "1"]);
        assert!(output.status.success() && begun.elapsed() < PATIENCE, "{}", errors(&output));
        assert!(stage.path("ws/held").exists(), "nobody has held it");
        assert!(begun.elapsed() >= Duration::from_secs(3), "it was not held to the end");
        holder.kill().unwrap();
        holder.wait().unwrap();
        session.end();
    }
}
