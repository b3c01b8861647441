//! The local API, as root and as an ordinary user.

mod files;
mod hostile;
mod memory;
mod modes;
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_client::api::{
    ApprovalAnswer, ApprovalsAnswer, ApprovalsList, ApprovalsWatch, Ended, ExecLimit, ExecLimits,
    ExecRun, ExecStart, FilesEdit, FilesFind, FilesGrep, FilesRead, FilesWatch, FilesWrite,
    Program, SessionList, SessionStart, SessionStop, Stream,
};
use pinfold_client::{Client, ClientError, ExecEvent};
use pinfold_testkit::{Stage, people, processes_with};
use pinfold_tools::{Bytes, Change, Edit, Find, Grep, Read, Replacement, Watch, Write};

/// A server for one client on standard streams.
struct Served<'a> {
    stage: &'a Stage,
    server: Child,
    client: Client,
}

impl<'a> Served<'a> {
    fn new(stage: &'a Stage) -> Self {
        let (own, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let server = stage
            .pinfold(&["serve", "--stdio"])
            .stdin(Stdio::from(theirs.try_clone().unwrap()))
            .stdout(Stdio::from(theirs))
            .spawn()
            .unwrap();
        Self { stage, server, client: Client::new(own).unwrap() }
    }

    fn start(&self, options: &[&str]) -> String {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let workspace = self.stage.workspace();
        let start = SessionStart { workspace, options, ..SessionStart::default() };
        self.client.call(&start).unwrap().session
    }

    fn shell(&self, session: &str, script: &str) -> (Ended, String) {
        let run =
            ExecRun { session: session.to_owned(), program: shell(script), ..ExecRun::default() };
        let done = self.client.call(&run).unwrap();
        let said = [done.stdout.as_slice(), done.stderr.as_slice()].concat();
        (done.ended, String::from_utf8_lossy(&said).into_owned())
    }

    fn read(&self, session: &str, path: &str) -> Result<Bytes, ClientError> {
        let read = Read { path: path.into(), range: None };
        self.client.call(&FilesRead { session: session.to_owned(), read }).map(|file| file.content)
    }

    fn write(&self, session: &str, path: &str, content: &str) -> Result<(), ClientError> {
        let write = Write { path: path.into(), ..Write::default() };
        let call = FilesWrite { session: session.to_owned(), write, content: content.into() };
        self.client.call(&call).map(drop)
    }

    /// Ends the client, and waits until the server has cleaned up.
    fn end(mut self) {
        drop(self.client);
        assert!(self.server.wait().unwrap().success());
    }
}

fn shell(script: &str) -> Program {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Program { argv, ..Program::default() }
}

fn until(what: &str, is: impl Fn() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn sessions(stage: &Stage) -> usize {
    let entries = fs::read_dir(stage.state().join("private"));
    entries.map_or(0, Iterator::count)
}

#[test]
fn a_session_is_used_through_the_api_and_ends_with_its_client() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let list = served.client.call(&SessionList {}).unwrap();
        assert_eq!(list.sessions[0].session, session);
        let program = Program {
            env: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
            ..shell("echo $GREETING; cat; echo no >&2; id -u; exit 3")
        };
        let run = ExecRun { session: session.clone(), program, input: "in\n".into(), limit: None };
        let done = served.client.call(&run).unwrap();
        assert_eq!(done.ended, Ended { status: 3, timed_out: false, limit: None });
        assert!(done.stdout.to_text().starts_with("hello\nin\n"), "{:?}", done.stdout);
        assert_eq!(done.stderr, "no\n".into());

        let write = Write { path: "a/b.txt".into(), parents: true, new: true };
        let session = || session.clone();
        let write = FilesWrite { session: session(), write, content: "one\ntwo\n".into() };
        assert!(served.client.call(&write).unwrap().created);
        assert_eq!(fs::read_to_string(stage.path("ws/a/b.txt")).unwrap(), "one\ntwo\n");
        let two = Replacement { old: "two".to_owned(), new: "2".to_owned(), all: false };
        let edit = Edit { path: "a/b.txt".into(), edits: vec![two] };
        served.client.call(&FilesEdit { session: session(), edit }).unwrap();
        assert_eq!(served.read(&session(), "a/b.txt").unwrap(), "one\n2\n".into());
        let grep = Grep { pattern: "^2".to_owned(), path: ".".into(), ..Grep::default() };
        let found = served.client.call(&FilesGrep { session: session(), grep }).unwrap();
        assert_eq!((found.lines[0].path.clone(), found.lines[0].line), ("a/b.txt".into(), 2));
        let find = Find { pattern: "b.*".to_owned(), path: ".".into(), ..Find::default() };
        let found = served.client.call(&FilesFind { session: session(), find }).unwrap();
        assert_eq!(found.entries[0].name, "a/b.txt".into());

        let session = session();
        served.end();
        assert_eq!(sessions(&stage), 0, "{session} is gone");
    }
}

#[test]
fn output_comes_in_order_byte_by_byte_and_waits_for_a_slow_reader() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let session = served.start(&[]);
    const BYTES: usize = 24 << 20;
    let script = format!("head -c {BYTES} /dev/urandom | tee copy; echo done >&2; exit 7");
    let start = ExecStart { session, program: shell(&script), ..ExecStart::default() };
    let mut exec = served.client.exec(&start).unwrap();
    // Nobody takes anything for a while; nothing of it is kept anywhere but in pipes.
    std::thread::sleep(Duration::from_millis(300));
    let memory = fs::read_to_string(format!("/proc/{}/status", served.server.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 48 << 10, "{peak} KiB");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = loop {
        match exec.event().unwrap() {
            ExecEvent::Output(Stream::Stdout, data) => out.extend(data),
            ExecEvent::Output(Stream::Stderr, data) => err.extend(data),
            ExecEvent::Exit(ended) => break ended.status,
            ExecEvent::Failed(error) => panic!("{error}"),
        }
    };
    assert_eq!((status, err.as_slice(), out.len()), (7, &b"done\n"[..], BYTES));
    assert!(out == fs::read(stage.path("ws/copy")).unwrap());
    drop(exec);
    served.end();
}

#[test]
fn running_program_is_ended_with_all_its_children() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let mark = format!("1{:07}", std::process::id());
        let script =
            format!("setsid sleep {mark} & (trap '' TERM HUP; sleep {mark}) & echo up; wait");
        let program = shell(&script);
        let start = ExecStart { session: session.clone(), program, ..ExecStart::default() };
        let mut exec = served.client.exec(&start).unwrap();
        assert!(matches!(exec.event(), Some(ExecEvent::Output(..))));
        // The name of one's own test contains no such number.
        let sleeping = || processes_with(&format!("sleep\0{mark}\0")).len();
        until("two sleep", || sleeping() == 2);
        drop(exec);
        until("none sleeps", || sleeping() == 0);
        let program = Program { timeout_ms: Some(100), ..shell(&format!("sleep {mark}")) };
        let run = ExecRun { session: session.clone(), program, ..ExecRun::default() };
        let ended = served.client.call(&run).unwrap().ended;
        assert_eq!((ended.timed_out, ended.limit), (true, Some(ExecLimit::Timeout)));
        assert_eq!(sleeping(), 0);
        let limits = ExecLimits { memory: Some(32 << 20), ..ExecLimits::default() };
        let program = Program { limits, ..shell("head -c 200M /dev/zero | tail") };
        let run = ExecRun { session: session.clone(), program, ..ExecRun::default() };
        match served.client.call(&run) {
            Ok(done) => assert_eq!(done.ended.limit, Some(ExecLimit::Memory)),
            // What can be bounded, and by whom, is tested in `bounded`.
            Err(error) => {
                assert!(error.to_string().contains("cannot enforce the memory limit"), "{error}");
            }
        }
        // What is left running on purpose keeps nobody waiting.
        let began = Instant::now();
        let (ended, said) = served.shell(&session, &format!("sleep {mark} & echo left"));
        assert_eq!((ended.status, said.as_str()), (0, "left\n"));
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!(sleeping(), 1);
        served.end();
        until("the session is gone", || sleeping() == 0);
    }
}

#[test]
fn a_server_that_is_killed_leaves_no_session() {
    for user in people() {
        let stage = Stage::new(user);
        let mut served = Served::new(&stage);
        served.start(&[]);
        assert_eq!(sessions(&stage), 1);
        served.server.kill().unwrap();
        served.server.wait().unwrap();
        until("the session is gone", || sessions(&stage) == 0);
    }
}

#[test]
fn a_detached_session_outlives_its_client_until_it_is_stopped() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let start = SessionStart {
        workspace: stage.workspace(),
        name: Some("kept".to_owned()),
        detached: true,
        options: Vec::new(),
    };
    let session = served.client.call(&start).unwrap().session;
    served.end();
    let served = Served::new(&stage);
    let list = served.client.call(&SessionList {}).unwrap();
    assert_eq!(
        (&list.sessions[0].session, list.sessions[0].name.as_deref()),
        (&session, Some("kept"))
    );
    assert_eq!(served.shell("kept", "echo here").1, "here\n");
    served.client.call(&SessionStop { session: "kept".to_owned(), grace_ms: None }).unwrap();
    assert_eq!(sessions(&stage), 0);
    let error = served.read("kept", "x").unwrap_err().to_string();
    assert!(error.contains("no live session kept"), "{error}");
    served.end();
}

#[test]
fn failed_start_says_why() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let options = |options: &[&str]| SessionStart {
        workspace: stage.workspace(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..SessionStart::default()
    };
    let refused = |start: &SessionStart| served.client.call(start).unwrap_err().to_string();
    assert!(refused(&options(&["--no-such"])).contains("--no-such"));
    for detached in [&["--detach"][..], &["-d"], &["-dt"], &["-td"]] {
        assert!(refused(&options(detached)).contains("cannot be used with"), "{detached:?}");
    }
    assert_eq!(refused(&options(&["--help"])), "these options start no session");
    assert!(refused(&options(&["--boundary", "cluster"])).contains("boundary cluster"));
    let nowhere = SessionStart { workspace: "/no/such".into(), ..SessionStart::default() };
    assert!(refused(&nowhere).contains("/no/such"));
    let relative = SessionStart { workspace: "x".into(), ..SessionStart::default() };
    assert!(refused(&relative).contains("absolute"));
    let session = served.start(&[]);
    let reserved =
        Program { env: BTreeMap::from([("HOME".to_owned(), "/x".to_owned())]), ..shell("true") };
    let run = ExecRun { session: session.clone(), program: reserved, ..ExecRun::default() };
    let error = served.client.call(&run).unwrap_err().to_string();
    assert!(error.contains("HOME"), "{error}");
    let never = Program { timeout_ms: Some(0), ..shell("true") };
    let run = ExecRun { session: session.clone(), program: never, ..ExecRun::default() };
    assert!(served.client.call(&run).unwrap_err().to_string().contains("timeoutMs"));
    let none = Program { argv: vec!["no-such-program".to_owned()], ..Program::default() };
    let run = ExecRun { session, program: none, ..ExecRun::default() };
    let error = served.client.call(&run).unwrap_err().to_string();
    assert!(error.contains("no-such-program"), "{error}");
    served.end();
}

#[test]
fn tool_server_can_neither_be_read_nor_stopped_from_inside() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/file", "content");
        let served = Served::new(&stage);
        let session = served.start(&[]);
        assert_eq!(served.read(&session, "file").unwrap(), "content".into());
        // Process 1 is init; the servant is a copy of it.
        let servant = "pid=$(grep -l '^Name:.pinfold' /proc/[2-9]*/status | head -1 | cut -d/ -f3)";
        let (_, said) = served.shell(
            &session,
            &format!(
                "{servant}; cat /proc/$pid/environ /proc/$pid/maps; ls /proc/$pid/fd; echo end"
            ),
        );
        assert!(said.contains("Permission denied") && said.contains("end"), "{said}");
        let all = "for p in $(grep -l '^Name:.pinfold' /proc/[2-9]*/status | cut -d/ -f3)";
        served.shell(&session, &format!("{all}; do kill -STOP $p; done; sleep 0.1"));
        assert_eq!(served.read(&session, "file").unwrap(), "content".into());
        served.end();
    }
}

#[test]
fn tools_that_were_killed_say_so_and_come_back() {
    let stage = Stage::new(people()[0]);
    stage.write("ws/file", "content");
    let served = Served::new(&stage);
    let session = served.start(&[]);
    served.read(&session, "file").unwrap();
    // The servant is older than the task that kills it, and than its minder, whose end would be the
    // session's.
    let oldest = "grep -l '^Name:.pinfold' /proc/[2-9]*/status | cut -d/ -f3 | sort -n | head -1";
    let (_, said) = served.shell(&session, &format!("kill -KILL $({oldest}); echo $?"));
    assert_eq!(said, "0\n");
    let error = served.read(&session, "file").unwrap_err().to_string();
    assert_eq!(error, "the session's tools have ended");
    assert_eq!(served.read(&session, "file").unwrap(), "content".into());
    served.end();
}

#[test]
fn changes_are_reported_as_they_happen() {
    let stage = Stage::new(people()[0]);
    let served = Served::new(&stage);
    let session = served.start(&[]);
    let watch = Watch { path: ".".into(), recursive: true };
    let mut watching =
        served.client.watch(&FilesWatch { session: session.clone(), watch }).unwrap();
    served.shell(&session, "mkdir new; echo x > new/file");
    let wanted = Bytes::from(stage.path("ws/new/file").as_path());
    while {
        let change = watching.change().unwrap();
        change.change != Some(Change::Created) || change.path != wanted
    } {}
    drop(watching);
    served.end();
}

#[test]
fn client_answers_requests_of_the_sandbox_to_the_host() {
    for user in people() {
        let stage = Stage::new(user);
        let config = "[hostExec]\nexecutables = [\"hostname\"]\napprovalTimeout = \"20s\"\n";
        stage.write("home/.config/pinfold/config.toml", config);
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let ask = "pinfold-host hostname";
        let (ended, said) = served.shell(&session, ask);
        assert!(ended.status != 0 && said.contains("autoApprove"), "{said}");
        let watch = ApprovalsWatch { session: session.clone() };
        served.client.call(&watch).unwrap();
        for answer in [ApprovalAnswer::Deny, ApprovalAnswer::Once] {
            let (ended, said) = std::thread::scope(|scope| {
                let asking = scope.spawn(|| served.shell(&session, ask));
                let list = ApprovalsList { session: session.clone() };
                let mut waiting = Vec::new();
                until("it is asked", || !served.client.call(&list).unwrap().approvals.is_empty());
                waiting.extend(served.client.call(&list).unwrap().approvals);
                assert_eq!(waiting[0].command.as_deref(), Some("hostname"));
                let reason = Some("not now".to_owned());
                let (session, id) = (session.clone(), waiting[0].id);
                let call = ApprovalsAnswer { session, id, answer, reason };
                served.client.call(&call).unwrap();
                let late = served.client.call(&call).unwrap_err().to_string();
                assert!(late.contains("waits for an answer"), "{late}");
                asking.join().unwrap()
            });
            match answer {
                ApprovalAnswer::Once => {
                    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
                    assert_eq!((ended.status, said), (0, own));
                }
                _ => assert!(ended.status != 0 && said.contains("not now"), "{said}"),
            }
        }
        served.end();
    }
}

#[test]
fn the_socket_is_for_its_user_alone_and_for_one_server() {
    for user in people() {
        let stage = Stage::new(user);
        let socket = stage.base().join("run/api.sock");
        let path = socket.to_str().unwrap();
        let serve =
            || stage.pinfold(&["serve", "--socket", path]).stderr(Stdio::null()).spawn().unwrap();
        let mut server = serve();
        until("it listens", || socket.exists());
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(socket.parent().unwrap()), mode(&socket)), (0o700, 0o600));
        assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
        let second = stage.pinfold(&["serve", "--socket", path]).output().unwrap();
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(!second.status.success() && said.contains("another `pinfold serve`"), "{said}");
        server.kill().unwrap();
        server.wait().unwrap();
        // What it has left behind is no obstacle.
        let mut server = serve();
        until("it listens again", || UnixStream::connect(&socket).is_ok());
        if !user.is_root() {
            // Root reaches the socket, and is not its user.
            let client = Client::connect(&socket).unwrap();
            assert!(client.call(&SessionList {}).is_err());
        }
        server.kill().unwrap();
        server.wait().unwrap();
        let open = stage.base().join("open");
        fs::create_dir(&open).unwrap();
        stage.own(&open);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let at = open.join("api.sock");
        let output = stage.pinfold(&["serve", "--socket", at.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("0700"), "{said}");
    }
}
