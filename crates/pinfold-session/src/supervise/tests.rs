//! An init that lies, against the real loop of a session.
//!
//! An attacker who takes over the first process inside has its end of the channel and nothing else. Here a
//! thread of the test has it; a process that waits stands for the sandbox, whose end is what the loop has to
//! bring about.

use std::fs;
use std::io::pipe;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use pinfold_boundary::{Backing, Capabilities, Group, Inside};
use pinfold_egress::Egress;
use pinfold_host::audit::Audit;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::wrappers::Wrappers;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::PublishedPort;
use pinfold_wire::{Channel, Ended, LaunchOrder, Limit, Order, Program, Report, Step, Wire};
use proptest::prelude::any;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::OpenptFlags;
use tempfile::TempDir;

use super::*;
use crate::control::{Base, Change, change, stop};
use crate::doors::publish;
use crate::doors::records::{LiveLines, Records};

const PATIENCE: Duration = Duration::from_secs(20);
/// A session's name.
const ID: &str = "0123456789ab";

/// What stands behind a process that the test reaps.
#[derive(Debug)]
struct Adopted;

impl Backing for Adopted {
    fn is_parent(&self) -> bool {
        false
    }

    fn group(&self) -> Option<&Group> {
        None
    }
}

/// A session whose init is in the test's hands.
struct Rig {
    directory: TempDir,
    places: Places,
    init: Channel,
    inside: Child,
    loops: JoinHandle<Result<Outcome, RunError>>,
}

impl Rig {
    #[expect(clippy::disallowed_methods, reason = "stands for what a boundary starts")]
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let part = |name: &str| directory.path().join(name);
        let places = Places {
            home: part("home"),
            config: part("config"),
            state: part("state"),
            cache: part("cache"),
        };
        let private = places.state.join("private").join(ID);
        fs::create_dir_all(&private).unwrap();
        let audit = Arc::new(Audit::open(&places.state, None).unwrap());
        let launcher = Launcher::new(Wrappers::none());
        let (env, variables, roots) = (Vec::new(), Vec::new(), Vec::new());
        let base = Base {
            env,
            variables,
            cwd: b"/".to_vec(),
            roots,
            boundary: "none",
            lacks: &[],
            launcher,
        };
        let control =
            Control::open(&private, Err("not tried".into()), base, Arc::clone(&audit)).unwrap();
        let records = Arc::new(Records::new(audit, LiveLines::None, Vec::new()));
        let origin = Origin::Flag { name: "--publish" };
        let published = [Valued::new(
            PublishedPort { host: "127.0.0.1:0".parse().unwrap(), sandbox: 1 },
            origin,
        )];
        let (_publishing, sockets) = publish::open(&published, Arc::clone(&records) as _).unwrap();

        let inside = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&inside), PidfdFlags::empty()).unwrap();
        let (ours, init) = Channel::pair().unwrap();
        let inside_held = Inside::new(ours, pidfd, Capabilities::default(), Box::new(Adopted));
        inside_held.limit_patience(HASTE).unwrap();
        let supervision = Supervision {
            inside: inside_held,
            signals: sys::signal_events().unwrap(),
            terminal: None,
            window: None,
            is_idle: false,
            inner: None,
            outputs: Vec::new(),
            input: None,
            serving: DoorServer::new(Egress::default(), records),
            control,
            broker: None,
            desk: None,
            passage: None,
            sockets: Some(sockets),
            disk_watch: None,
            deadline: None,
            background: None,
            running: None,
            drained: Vec::new(),
            state: Progress { started: true, ..Progress::default() },
        };
        let loops = spawn(move || supervision.until_end());
        Self { directory, places, init, inside, loops }
    }

    fn say(&self, report: &Report) {
        self.init.send(report, &[]).unwrap();
    }

    /// The loop still serves clients.
    fn is_served(&self) {
        let begun = Instant::now();
        let asked = change(&self.places, Some(ID), &Change::Allow("example.com".to_owned()));
        let refusal = asked.unwrap_err().to_string();
        assert!(refusal.contains("not tried"), "{refusal}");
        assert!(begun.elapsed() < Duration::from_secs(5), "after {:?}", begun.elapsed());
    }

    /// Everything inside ends, and so does the loop.
    fn ends(mut self) -> Result<Outcome, RunError> {
        let begun = Instant::now();
        while !self.loops.is_finished() {
            assert!(begun.elapsed() < PATIENCE, "the loop goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(self.inside.try_wait().unwrap().is_some(), "the sandbox goes on");
        drop(self.directory);
        self.loops.join().unwrap()
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident pages.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

fn terminal() -> OwnedFd {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    rustix::pty::openpt(flags).unwrap()
}

/// A message as it is.
struct Raw(Vec<u8>);

impl Wire for Raw {
    fn encode(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn decode(_: &[u8]) -> Result<Self, pinfold_wire::DecodeError> {
        Ok(Self(Vec::new()))
    }
}

/// Whatever init says, for as long as it likes, the loop goes on or ends everything; it never panics and
/// never waits. The seed is fixed, so that what fails once fails again.
#[test]
fn nonsense_is_heard_or_ends_the_session() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let bytes = proptest::collection::vec(any::<u8>(), 1..64);
    for _ in 0..60 {
        let rig = Rig::new();
        for number in 0..200_u8 {
            let mut message = bytes.new_tree(&mut runner).unwrap().current();
            if number < 150 {
                // One that has a meaning, cut and changed.
                message[0] = number % 15;
            }
            // A loop that has ended takes no more.
            if rig.init.send(&Raw(message), &[]).is_err() {
                break;
            }
        }
        // Nothing follows a length that is a lie.
        let _ = rig.init.send(&Raw([&[12][..], &[0xff; 12]].concat()), &[]);
        let _ = rig.ends();
    }
}

#[test]
fn a_message_that_is_too_long_ends_the_session() {
    let rig = Rig::new();
    let long = vec![0; pinfold_wire::MAX_MESSAGE + 1];
    rustix::net::send(&rig.init, &long, rustix::net::SendFlags::empty()).unwrap();
    rig.ends().unwrap();
}

#[test]
fn a_flood_about_tasks_that_are_not_there_keeps_nobody_waiting() {
    let rig = Rig::new();
    rig.is_served();
    let (files, pages) = (open_files(), resident());
    let init = Channel::from(rig.init.as_fd().try_clone_to_owned().unwrap());
    let said = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&said);
    let flood = spawn(move || {
        let terminal = terminal();
        loop {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let id = number | 1 << 31;
            let (report, with): (_, &[BorrowedFd<'_>]) = match number % 8 {
                0 => (Report::TaskTerminal(id), &[terminal.as_fd()]),
                1 => (Report::TaskEnded { id, ended: Ended::Code(0) }, &[]),
                2 => (
                    Report::TaskFailed {
                        id,
                        step: Step::Grants,
                        errno: -1,
                        detail: vec![0x1b; 8192],
                    },
                    &[],
                ),
                3 => (Report::TaskStopped(id), &[]),
                6 => (Report::TaskLimit { id, limit: Limit::Memory }, &[]),
                4 => (Report::Limit(Limit::Disk), &[]),
                5 => (Report::Times(Step::ALL.iter().map(|step| (*step, u64::MAX)).collect()), &[]),
                _ => (Report::Stopped(-5), &[]),
            };
            if init.send(&report, with).is_err() {
                return;
            }
        }
    });
    while said.load(Ordering::Relaxed) < 20_000 {
        rig.is_served();
        assert!(open_files() < files + 20, "{} files, {files} before", open_files());
    }
    // 16 MiB, for what an allocator keeps.
    assert!(resident() < pages + 4096, "{} pages, {pages} before", resident());
    rig.init.send(&Report::Ended(Ended::Code(3)), &[]).unwrap();
    assert_eq!(rig.ends().unwrap().status, 3);
    flood.join().unwrap();
}

/// Of sockets of its network it can hand in as many as anybody has asked for.
#[test]
fn sockets_that_nobody_wants_are_closed() {
    let rig = Rig::new();
    let before = open_files();
    for _ in 0..2000 {
        let socket = unconnected();
        rig.init.send(&Report::Socket, &[socket.as_fd()]).unwrap();
    }
    rig.is_served();
    assert!(open_files() < before + 100, "{} files, {before} before", open_files());
    rig.say(&Report::Ended(Ended::Code(0)));
    rig.ends().unwrap();
}

fn unconnected() -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap()
}

#[test]
fn descriptors_that_no_init_sends_end_the_session() {
    let (reader, _writer) = pipe().unwrap();
    let many = [reader.as_fd(); 8];
    for (report, with) in [
        (Report::TaskTerminal(1 << 31), &many[..1]),
        (Report::Limit(Limit::Disk), &many[..1]),
        (Report::Socket, &many[..2]),
        (Report::TaskEnded { id: 1, ended: Ended::Code(0) }, &many[..]),
        (Report::Ended(Ended::Code(0)), &many[..1]),
    ] {
        let rig = Rig::new();
        rig.init.send(&report, with).unwrap();
        // Nothing that it said counts.
        assert_eq!(rig.ends().unwrap().status, 128 + 9, "{report:?}");
    }
}

/// Closing its last descriptor would take an hour.
#[test]
fn a_socket_that_lingers_keeps_the_loop_from_nothing() {
    let rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let full = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _never_read = listener.accept().unwrap();
    let linger = Some(Duration::from_secs(3600));
    rustix::net::sockopt::set_socket_linger(&full, linger).unwrap();
    full.set_nonblocking(true).unwrap();
    while rustix::io::write(&full, &[0; 65536]).is_ok() {}
    rig.init.send(&Report::Limit(Limit::Disk), &[full.as_fd()]).unwrap();
    drop(full);
    let begun = Instant::now();
    rig.ends().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn only_the_first_end_counts() {
    let rig = Rig::new();
    rig.say(&Report::Ended(Ended::Code(4)));
    // It may have been heard already.
    let _ = rig.init.send(&Report::Ended(Ended::Code(5)), &[]);
    let _ = rig.init.send(&Report::TaskEnded { id: 1 << 31, ended: Ended::Code(6) }, &[]);
    assert_eq!(rig.ends().unwrap().status, 4);
}

/// Returns what asks for a command, with this for its milliseconds.
fn exec(timeout: &str) -> Vec<u8> {
    let rest = r#""user":null,"files":null,"nice":0,"limits":{}"#;
    format!(r#"{{"Exec":{{"timeout":{timeout},{rest}}}}}"#).into_bytes()
}

/// It does not even read its orders: the session ends, and the client's request with it.
#[test]
fn an_init_that_takes_no_orders_is_ended() {
    let mut rig = Rig::new();
    let private = rig.places.state.join("private").join(ID);
    // A process that is killed closes what it has.
    let pidfd = pidfd_open(Pid::from_child(&rig.inside), PidfdFlags::empty()).unwrap();
    let deaf = std::mem::replace(&mut rig.init, Channel::pair().unwrap().0);
    spawn(move || {
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        let _ = rustix::event::poll(&mut ended, None);
        drop(deaf);
    });
    let begun = Instant::now();
    while !rig.loops.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "it goes on");
        let Ok(client) = pinfold_host::ipc::connect(&private, "control", HASTE) else { continue };
        let (reader, _) = pipe().unwrap();
        let _ = client.send(&Raw(exec("null")), &[]);
        let program = Program {
            argv: vec![vec![b'x'; 30_000]],
            env: Vec::new(),
            cwd: Vec::new(),
            ignored: 0,
        };
        let ends = [pinfold_wire::StreamEnd::Descriptor; 3];
        let streams = pinfold_wire::Streams::plain(ends);
        let _ = client.command(&program, streams, &[reader.as_fd(); 3]);
        for _ in 0..50 {
            let _ = client.send(&Raw(br#"{"Signal":15}"#.to_vec()), &[]);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    rig.ends().unwrap();
    assert!(begun.elapsed() >= HASTE);
}

/// Also one that says nothing any more and never ends is ended from outside.
#[test]
fn a_silent_one_is_ended_when_somebody_wants_it() {
    let rig = Rig::new();
    let places = rig.places.clone();
    let stopped = spawn(move || stop(&places, ID, Duration::from_millis(100)));
    rig.ends().unwrap();
    stopped.join().unwrap().unwrap();
}

/// Clients are this user's own, and still: none of them keeps the others waiting, or makes it end.
#[test]
fn clients_that_talk_nonsense_are_let_go() {
    let rig = Rig::new();
    let private = rig.places.state.join("private").join(ID);
    let connect = || pinfold_host::ipc::connect(&private, "control", HASTE).unwrap();
    let silent: Vec<Channel> = (0..100).map(|_| connect()).collect();
    let (reader, _writer) = pipe().unwrap();
    let ends = [pinfold_wire::StreamEnd::Descriptor; 3];
    let streams = pinfold_wire::Streams::plain(ends);
    let exec = exec("18446744073709551615");
    let messages: [&dyn Fn(&Channel); 8] = [
        &|client| drop(client.send(&Raw(b"{".to_vec()), &[])),
        &|client| drop(client.send(&Raw(br#"{"Signal":15}"#.to_vec()), &[reader.as_fd(); 8])),
        &|client| drop(client.send(&Raw(br#"{"Window":[1,2]}"#.to_vec()), &[])),
        &|client| drop(client.send(&Order::Finish, &[])),
        &|client| {
            drop(client.send(&Raw(exec.clone()), &[]));
            drop(client.send(&Order::Finish, &[]));
        },
        &|client| {
            drop(client.send(&Raw(exec.clone()), &[]));
            // A program that has too few streams, and a message that is not a program.
            drop(client.send(&LaunchOrder::Command { rest: vec![1], streams }, &[reader.as_fd()]));
        },
        &|client| {
            drop(client.send(&Raw(exec.clone()), &[]));
            drop(
                client.send(&LaunchOrder::Command { rest: vec![1], streams }, &[reader.as_fd(); 3]),
            );
        },
        &|client| {
            drop(client.send(&Raw(exec.clone()), &[]));
            // More than execve(2) takes.
            while client.send(&LaunchOrder::Part(vec![0; 60_000]), &[]).is_ok() {}
        },
    ];
    let before = open_files();
    for message in messages.iter().cycle().take(40) {
        message(&connect());
        rig.is_served();
    }
    drop(silent);
    rig.is_served();
    assert!(open_files() <= before, "{} files, {before} before", open_files());
    rig.say(&Report::Ended(Ended::Code(0)));
    rig.ends().unwrap();
}
