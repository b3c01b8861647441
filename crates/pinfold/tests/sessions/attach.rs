//! The terminal of a detached session, and who is attached to it.

mod shown;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, people, processes_with};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize};

const PATIENCE: Duration = Duration::from_secs(30);
/// Ctrl-P, Ctrl-Q.
const DETACH: &str = "\x10\x11";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn detached(stage: &Stage, options: &[&str], script: &str) -> String {
    let mut run = stage.pinfold(&["run", "--detach", "--name", "desk"]);
    let started = run.args(options).args(["--", "sh", "-c", script]).output().unwrap();
    assert!(started.status.success(), "{}", errors(&started));
    said(&started).trim().to_owned()
}

fn end(stage: &Stage) {
    assert!(stage.pinfold(&["stop", "--grace", "1s", "desk"]).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A terminal with a program at it.
struct Desk {
    controller: File,
    user: File,
    process: Child,
    seen: String,
}

impl Desk {
    fn attach(stage: &Stage, options: &[&str], (rows, columns): (u16, u16)) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = rustix::pty::openpt(flags).unwrap();
        rustix::pty::unlockpt(&controller).unwrap();
        let user = File::from(rustix::pty::ioctl_tiocgptpeer(&controller, flags).unwrap());
        let mut attach = stage.pinfold(&["attach", "desk"]);
        let end = || Stdio::from(user.try_clone().unwrap());
        attach.args(options).stdin(end()).stdout(end()).stderr(end());
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&controller, size).unwrap();
        let process = attach.spawn().unwrap();
        Self { controller: controller.into(), user, process, seen: String::new() }
    }

    fn resize(&self, (rows, columns): (u16, u16)) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.controller, size).unwrap();
        // It is not the program's controlling terminal, which would tell it.
        rustix::process::kill_process(self.pid(), Signal::WINCH).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn keys(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads what is shown until this is, and forgets what came before.
    fn wait_for(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(begun.elapsed() < PATIENCE, "waited for {text:?} in vain: {:?}", self.seen);
            self.read(100_000_000);
        }
    }

    fn read(&mut self, nanoseconds: i64) {
        let mut ready = [PollFd::new(&self.controller, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        if rustix::event::poll(&mut ready, Some(&patience)).unwrap() > 0 {
            let mut buffer = [0; 65536];
            let count = self.controller.read(&mut buffer).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    fn is_raw(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.user).unwrap();
        !modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the program's end; everything that it has shown, and how it ended.
    fn end(mut self) -> (String, ExitStatus) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {:?}", self.seen);
            self.read(20_000_000);
        };
        // The kernel hands on what was written last by and by.
        while {
            let before = self.seen.len();
            self.read(100_000_000);
            self.seen.len() > before
        } {}
        assert!(!self.is_raw(), "the terminal is as it was");
        (self.seen, status)
    }

    fn detach(mut self) -> String {
        self.keys(DETACH);
        let (seen, status) = self.end();
        assert!(status.success() && seen.contains("detached"), "{seen:?}");
        seen
    }
}

/// Says its size whenever it changes, and repeats each line.
const ECHO: &str = r#"
import os, signal, sys
def size(*_):
    size = os.get_terminal_size(0)
    os.write(1, f"size {size.lines} {size.columns}\n".encode())
signal.signal(signal.SIGWINCH, size)
os.write(1, os.environ.get("ASK", "up").encode().decode("unicode_escape").encode())
for line in sys.stdin:
    os.write(1, f"got {line}".encode())
"#;

/// A session that does.
fn echoing(stage: &Stage, before: &str, ask: &str) -> String {
    stage.write("ws/echo.py", ECHO);
    detached(
        stage,
        &["--tty", "--env", &format!("ASK={ask}")],
        &format!("{before}; python3 echo.py"),
    )
}

/// Waits until it has written so much.
fn has_written(stage: &Stage, id: &str, text: &str) {
    let log = stage.state().join("logs").join(id);
    wait_until(text, || fs::read_to_string(&log).is_ok_and(|log| log.ends_with(text)));
}

#[test]
fn typed_input_arrives_and_the_end_is_reported_with_its_status() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "tty; stty size; read line; echo \"got $line\"; exit 7";
        let id = detached(&stage, &["--tty"], script);
        has_written(&stage, &id, "80\r\n");
        let mut desk = Desk::attach(&stage, &[], (30, 100));
        desk.wait_for("ctrl-p,ctrl-q detaches");
        wait_until("raw", || desk.is_raw());
        desk.keys("hello\r");
        desk.wait_for("got hello\r\n");
        let (_, status) = desk.end();
        assert_eq!(status.code(), Some(7));
        // From its first line on, of which nobody has seen some.
        let log = said(&stage.pinfold(&["logs", &id]).output().unwrap());
        let expected = "/dev/pts/0\r\n24 80\r\n";
        assert!(log.starts_with(expected) && log.ends_with("got hello\r\n"), "{log:?}");
    }
}

#[test]
fn client_detaches_and_attaches_again() {
    for user in people() {
        let stage = Stage::new(user);
        let id = echoing(&stage, "true", "up");
        has_written(&stage, &id, "up");
        let mut desk = Desk::attach(&stage, &[], (30, 100));
        // What is there is painted again, since the window is another.
        desk.wait_for("size 30 100");
        desk.keys("one\r");
        desk.wait_for("got one");
        desk.detach();
        let mut desk = Desk::attach(&stage, &["--detach-keys", "ctrl-a,d"], (30, 100));
        // Also where it is the same.
        desk.wait_for("size 29 100");
        desk.wait_for("size 30 100");
        desk.keys("\x10\x11two\r");
        desk.wait_for("two");
        desk.keys("\x01");
        desk.keys("d");
        let (seen, status) = desk.end();
        assert!(status.success() && seen.contains("detached"), "{seen:?}");
        end(&stage);
    }
}

#[test]
fn of_several_windows_the_smallest_counts_and_who_only_looks_has_none() {
    for user in people() {
        let stage = Stage::new(user);
        let id = echoing(&stage, "true", "up");
        has_written(&stage, &id, "up");
        let mut first = Desk::attach(&stage, &[], (40, 120));
        first.wait_for("size 40 120");
        let mut second = Desk::attach(&stage, &[], (50, 90));
        second.wait_for("size 40 90");
        first.wait_for("size 40 90");
        let mut looks = Desk::attach(&stage, &["--read-only"], (10, 20));
        looks.wait_for("to look only");
        looks.wait_for("size 39 90");
        looks.wait_for("size 40 90");
        second.resize((30, 200));
        looks.wait_for("size 30 120");
        looks.keys("typed\r");
        second.keys("heard\r");
        looks.wait_for("got heard");
        let before = first.wait_for("got heard");
        assert!(!before.contains("typed"), "{before:?}");
        // What interrupts has nothing to interrupt there.
        looks.keys("\x03");
        let (seen, status) = looks.end();
        assert!(status.success() && seen.contains("detached"), "{seen:?}");
        second.detach();
        first.wait_for("size 40 120");
        first.detach();
        end(&stage);
    }
}

#[test]
fn a_client_that_is_killed_leaves_the_session_and_a_sane_terminal() {
    for user in people() {
        let stage = Stage::new(user);
        let id = echoing(&stage, "true", "up");
        has_written(&stage, &id, "up");
        for signal in [Signal::KILL, Signal::TERM, Signal::HUP] {
            let mut desk = Desk::attach(&stage, &[], (30, 100));
            desk.wait_for("ctrl-p,ctrl-q detaches");
            wait_until("raw", || desk.is_raw());
            rustix::process::kill_process(desk.pid(), signal).unwrap();
            desk.process.wait().unwrap();
            wait_until("the terminal is as it was", || !desk.is_raw());
        }
        let mut desk = Desk::attach(&stage, &[], (31, 100));
        desk.keys("still\r");
        desk.wait_for("got still");
        desk.detach();
        end(&stage);
    }
}

/// Modes that were asked for before somebody attached are his terminal's too, and not after he has gone.
#[test]
fn lasting_modes_come_with_attaching_and_go_with_detaching() {
    for user in people() {
        let stage = Stage::new(user);
        let ask = "\\x1b[?1049h\\x1b[?1000;1006h\\x1b[?25l\\x1b[>1uasked";
        let id = echoing(&stage, "true", ask);
        has_written(&stage, &id, "asked");
        let mut desk = Desk::attach(&stage, &[], (30, 100));
        desk.wait_for("\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h\x1b[>1u");
        desk.wait_for("size 30 100");
        let seen = desk.detach();
        let left = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1006l";
        assert!(seen.contains(left) && seen.contains("\x1b[<1u"), "{seen:?}");
        end(&stage);
    }
}

#[test]
fn client_that_stops_reading_stalls_nobody_and_is_painted_again_later() {
    for user in people() {
        let stage = Stage::new(user);
        let flood = "read go; head -c 80000000 /dev/zero | tr '\\0' x; touch done";
        let id = echoing(&stage, flood, "up");
        let mut stalled = Desk::attach(&stage, &[], (30, 100));
        stalled.wait_for("ctrl-p,ctrl-q detaches");
        stalled.keys("\r");
        wait_until("all is written", || stage.path("ws/done").exists());
        // The supervisor holds none of it, and the log only so much.
        let log = stage.state().join("logs").join(&id);
        // gVisor's terminals take everything at once.
        wait_until("the log is full", || fs::metadata(&log).unwrap().len() >> 20 == 64);
        stalled.wait_for("faster than it was shown");
        stalled.wait_for("size 30 100");
        stalled.detach();
        end(&stage);
        let log = fs::read(&log).unwrap();
        let tail = String::from_utf8_lossy(&log[log.len() - 200..]).into_owned();
        assert!(
            tail.contains("the log is full") && tail.contains("bytes were dropped here"),
            "{tail}"
        );
    }
}

#[test]
fn command_that_stops_itself_is_continued() {
    for user in people() {
        let stage = Stage::new(user);
        detached(&stage, &["--tty"], "read go; kill -TSTP $$; echo went on; read line");
        let mut desk = Desk::attach(&stage, &[], (30, 100));
        desk.keys("\r");
        desk.wait_for("went on");
        desk.detach();
        end(&stage);
    }
}

#[test]
fn a_session_without_a_terminal_shows_what_it_writes_and_how_it_ends() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "echo before; while [ ! -e go ]; do sleep 0.01; done; echo after; exit 3";
        let id = detached(&stage, &[], script);
        let log = stage.state().join("logs").join(&id);
        wait_until("it writes", || fs::read(&log).is_ok_and(|log| log == b"before\n"));
        let mut attach = stage.pinfold(&["attach", "desk", "--read-only"]);
        let mut attach = attach.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = vec![0; 20];
        attach.stderr.as_mut().unwrap().read_exact(&mut stderr).unwrap();
        stage.write("ws/go", "");
        let output = attach.wait_with_output().unwrap();
        assert_eq!((said(&output).as_str(), output.status.code()), ("after\n", Some(3)));
        assert!(errors(&output).contains("logs -f"), "{}", errors(&output));
    }
}

#[test]
fn attach_to_a_session_without_a_terminal_is_refused_with_a_hint() {
    for user in people() {
        let stage = Stage::new(user);
        let mut run =
            stage.pinfold(&["run", "--name", "desk", "--", "sh", "-c", "echo up; read line"]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        run.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        let attach =
            |options: &[&str]| stage.pinfold(&["attach", "desk"]).args(options).output().unwrap();
        let shell = attach(&["--read-only"]);
        assert!(errors(&shell).contains("pinfold shell"), "{}", errors(&shell));
        let looks = attach(&[]);
        assert!(errors(&looks).contains("--read-only"), "{}", errors(&looks));
        assert_eq!(looks.status.code(), Some(125));
        let keys = attach(&["--detach-keys", "ctrl-"]);
        assert!(errors(&keys).contains("ctrl-p,ctrl-q"), "{}", errors(&keys));
        drop(run.stdin.take());
        run.wait().unwrap();
    }
}

/// Its supervisor dies: nothing is left, and who is attached hears of it.
#[test]
fn a_session_that_dies_leaves_nobody_attached() {
    for user in people() {
        let stage = Stage::new(user);
        let mark = format!("{}{}", 4_000_000 + std::process::id(), user.uid);
        detached(&stage, &["--tty"], &format!("echo up; sleep {mark}"));
        let mut desk = Desk::attach(&stage, &[], (30, 100));
        desk.wait_for("ctrl-p,ctrl-q detaches");
        wait_until("raw", || desk.is_raw());
        let supervisor = processes_with(&mark).into_iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(8).any(|window| window == b"--detach")
        });
        let pid = Pid::from_raw(i32::try_from(supervisor.unwrap()).unwrap()).unwrap();
        let mut follow = stage.pinfold(&["logs", "-f", "desk"]);
        let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        follow.stdout.as_mut().unwrap().read_exact(&mut [0; 2]).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        let stderr = errors(&follow.wait_with_output().unwrap());
        assert!(stderr.contains("was killed"), "{stderr}");
        let (seen, status) = desk.end();
        assert!(seen.contains("the session has ended"), "{seen:?}");
        assert_eq!(status.code(), Some(125));
        wait_until("nothing is left", || processes_with(&mark).is_empty());
    }
}
