//! Faults of our own, provoked from outside: system calls of the doors' thread that fail.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::World;
use super::world::people_with;

/// A run whose command asks for a page for each line that it is sent.
struct Asking {
    run: Child,
    wish: ChildStdin,
    said: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Asking {
    fn start(world: &World) -> Self {
        let program = format!(
            "{}\nimport sys\nfor line in sys.stdin:\n    print(attempt(lambda: status(speak(\
             connect(('web.example.com', 80), 30), 'GET / HTTP/1.0\\r\\n\\r\\n'))), flush=True)\n",
            include_str!("inside.py")
        );
        let options = ["run", "--allow-host", "web.example.com", "--", "python3", "-c", &program];
        let mut run = world.pinfold(&options);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        Self {
            wish: run.stdin.take().unwrap(),
            said: BufReader::new(run.stdout.take().unwrap()),
            stderr: BufReader::new(run.stderr.take().unwrap()),
            run,
        }
    }

    fn ask(&mut self) -> String {
        self.wish.write_all(b"\n").unwrap();
        let mut said = String::new();
        self.said.read_line(&mut said).unwrap();
        said.trim().to_owned()
    }

    fn stderr(&mut self) -> String {
        let mut stderr = String::new();
        self.stderr.read_line(&mut stderr).unwrap();
        stderr
    }

    /// Makes calls of the doors' thread fail, as strace(1) words it, until the value is dropped.
    fn failing(&self, calls: &str) -> Failing {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.run.id())).unwrap().flatten();
        let is_egress = |path: &std::path::Path| {
            fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "egress")
        };
        let task = tasks.map(|task| task.path()).find(|path| is_egress(path)).unwrap();
        let task = task.file_name().unwrap().to_str().unwrap().to_owned();
        let mut strace = strace();
        strace.args(["-p", &task, "-o", "/dev/null", "-e", &format!("inject={calls}")]);
        let mut strace = strace.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(strace.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains("attached"), "{said}");
        Failing(strace)
    }

    fn end(self) {
        drop(self.wish);
        let mut run = self.run;
        assert!(run.wait().unwrap().success());
    }
}

struct Failing(Child);

impl Failing {
    /// Waits until the thread has ended of it.
    fn until_ended(mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // What it traces goes on by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test starts programs, pinfold does not")]
fn strace() -> Command {
    Command::new("strace")
}

#[test]
fn doors_whose_thread_breaks_are_served_again() {
    for user in people_with("a doors' thread that breaks", &["strace"]) {
        let world = World::new(user, &["web"]);
        let mut asking = Asking::start(&world);
        assert_eq!(asking.ask(), "200");
        // The runtime panics when it cannot wait.
        let failing = asking.failing("epoll_wait:error=EBADF");
        let (place, fate) = (asking.stderr(), asking.stderr());
        drop(failing);
        assert!(place.starts_with("pinfold: a fault of pinfold's own: "), "{place}");
        assert!(place.contains("tokio"), "{place}");
        assert!(fate.contains("the doors are served again"), "{fate}");
        // A name keeps its address, which the command may have kept too.
        assert_eq!([asking.ask(), asking.ask()], ["200", "200"]);
        asking.end();
        let audit = world.audit();
        assert_eq!(audit.matches("\"event\":\"fault\"").count(), 2, "{audit}");
    }
}

#[test]
fn doors_that_break_again_and_again_stay_shut() {
    for user in people_with("doors that break again and again", &["strace"]) {
        let world = World::new(user, &["web"]);
        let mut asking = Asking::start(&world);
        for _ in 0..11 {
            assert_eq!(asking.ask(), "200");
            asking.failing("epoll_wait:error=EBADF").until_ended();
        }
        assert_eq!(asking.ask(), "gaierror", "nobody answers names any more");
        asking.end();
        assert!(world.audit().contains("the doors stay shut"), "{}", world.audit());
    }
}

#[test]
fn connections_that_cannot_be_accepted_wait_and_end_nothing() {
    for user in people_with("connections that cannot be accepted", &["strace"]) {
        let world = World::new(user, &["web"]);
        let mut asking = Asking::start(&world);
        assert_eq!(asking.ask(), "200");
        for error in ["EMFILE", "ENFILE", "ENOMEM", "ECONNABORTED"] {
            let failing = asking.failing(&format!("accept4:error={error}:when=1..3"));
            assert_eq!(asking.ask(), "200", "{error}");
            drop(failing);
        }
        asking.end();
        assert!(!world.audit().contains("\"event\":\"fault\""));
    }
}
