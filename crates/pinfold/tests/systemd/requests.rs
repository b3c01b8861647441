//! Requests that are refused, and callers that mean harm.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Instant;

use pinfold_runner::Refusal;
use pinfold_runner::request::{HELLO, MOST_DESCRIPTORS, Request, Wanted};
use pinfold_runner_client as message;
use pinfold_testkit::systemd::{PINFOLD, Systemd, own};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, shutdown,
    socketpair,
};

use crate::{failure, nothing_is_left, run, system, text};

pub(crate) const RUN: &str = "/opt/pinfold run --boundary systemd -- true";

#[test]
fn what_the_policy_does_not_give_is_refused_with_what_it_gives() {
    let Some(system) = system("what_the_policy_does_not_give_is_refused") else { return };
    system.project("alice", "/home/alice/elsewhere");
    system.project("alice", "/home/alice/workshop");
    for place in ["elsewhere", "workshop"] {
        let said = failure(&system.shell("alice", &format!("cd {place} && {RUN}")));
        let path = format!("/home/alice/{place}");
        assert!(said.contains(&format!("{path} is in no project of alice")), "{said}");
        assert!(said.contains("hint: the administrator gives: /home/alice/work, "), "{said}");
    }
    // Root's, which are in no policy, and a user's without an entry.
    let said =
        failure(&system.shell("root", &format!("cd /home/alice/work/proj && HOME=/root {RUN}")));
    assert!(said.contains("has no user root"), "{said}");
    system.project("carol", "/home/carol/work");
    let said = failure(&system.shell("carol", &format!("cd work && {RUN}")));
    assert!(said.contains("has no user carol"), "{said}");
    // Another user's project.
    system.project("bob", "/home/bob/work");
    let said = failure(&system.shell("alice", &run("--write /home/bob/work", "true")));
    assert!(said.contains("/home/bob/work is in no project of alice"), "{said}");
    nothing_is_left(&system);
}

#[test]
fn policy_that_others_could_have_written_is_refused() {
    let Some(system) = system("policy_that_others_could_have_written_is_refused") else { return };
    let line = run("", "true");
    for change in [
        "chmod g+w /etc/pinfold/runner.json",
        "chmod o+w /etc/pinfold",
        "chown alice /etc/pinfold/runner.json",
        "chown alice /etc/pinfold",
        "chmod o+w /opt/pinfold",
        "echo \"{}\" > /etc/pinfold/runner.json",
        "mv /etc/pinfold/runner.json /etc/r.json; ln -s ../r.json /etc/pinfold/runner.json",
        "rm /etc/pinfold/runner.json",
    ] {
        let _ = system.shell("root", change);
        let said = failure(&system.shell("alice", &line));
        assert!(
            said.contains("pinfold-runner: /etc/pinfold")
                || said.contains("pinfold-runner: /opt/pinfold"),
            "{change}: {said}"
        );
        let _ = system.shell("root", "rm -f /etc/pinfold/runner.json; chown root:root /etc/pinfold; chmod 755 /etc/pinfold /opt/pinfold");
        system.set_policy(crate::POLICY);
        let output = system.shell("alice", &line);
        assert!(output.status.success(), "after {change}: {}", text(&output.stderr));
    }
}

#[test]
fn own_namespaces_and_own_programs_give_a_caller_nothing() {
    let Some(system) = system("own_namespaces_and_own_programs_give_nothing") else { return };
    // The name is one of alice's projects, and what lies there another user's or root's.
    let secret = system.project("bob", "/home/bob/work");
    fs::write(secret.join("a.txt"), "bob's\n").unwrap();
    for there in ["/etc", "/home/bob/work"] {
        let line = format!(
            "exec unshare --map-root-user --mount sh -c 'mount --rbind {there} ~/work/proj && cd ~/work/proj && \
             exec unshare --map-user=1000 --map-group=1000 {PINFOLD} run --boundary systemd -- cat a.txt'"
        );
        let said = failure(&system.shell("alice", &line));
        // Nothing is root's there, not even the policy.
        assert!(said.contains("pinfold-runner: / does not belong to root"), "{there}: {said}");
    }
    let said = failure(&system.shell(
        "alice",
        "cp /opt/pinfold ~/own && cd work/proj && ~/own run --boundary systemd -- true",
    ));
    assert!(said.contains("this is not the pinfold that the administrator installed"), "{said}");
    nothing_is_left(&system);
}

/// Connects whenever it is asked to, and hands the socket over. systemd 257 ends its own socket if a process connects that it
/// cannot see, as those outside of its namespace of processes.
const CONNECT: &str = r#"
import socket
control = socket.socket(fileno=0)
while control.recv(1):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect("/run/pinfold/runner.sock")
        socket.send_fds(control, [b"x"], [caller.fileno()])
"#;

/// A caller that speaks the runner's language itself, as alice.
pub(crate) struct Hostile<'s> {
    pub(crate) system: &'s Systemd,
    /// Where a process in the system is asked to connect,
    control: OwnedFd,
    /// and the process.
    connects: Child,
}

impl<'s> Hostile<'s> {
    pub(crate) fn new(system: &'s Systemd) -> Self {
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let mut connects = system.as_user("alice");
        connects.args(["/usr/bin/python3", "-I", "-c", CONNECT]).stdin(theirs);
        Self { system, control, connects: connects.spawn().unwrap() }
    }
}

impl Drop for Hostile<'_> {
    fn drop(&mut self) {
        // It ends with the socket.
        let _ = shutdown(&self.control, Shutdown::Both);
        let _ = self.connects.wait();
    }
}

impl Hostile<'_> {
    /// Sends this as alice, and returns why it is refused; nothing if a unit is started.
    fn send(&self, message: &[u8], files: &[BorrowedFd<'_>]) -> Option<Refusal> {
        self.begin(message, files).1
    }

    /// The same, with the socket, which is init's if it is not refused.
    pub(crate) fn begin(
        &self,
        message: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> (OwnedFd, Option<Refusal>) {
        // The runner closes those of a user who has too many.
        let mut begun = None;
        crate::until("the runner answers", || {
            begun = self.begin_once(message, files);
            begun.is_some()
        });
        begun.unwrap()
    }

    fn begin_once(
        &self,
        message: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Option<(OwnedFd, Option<Refusal>)> {
        let socket = self.connect();
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
        }
        // It may have gone already.
        let _ = rustix::net::sendmsg(
            &socket,
            &[IoSlice::new(message)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        );
        let mut answer = vec![0; 65_536];
        let mut receive = || rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty());
        let length = match receive() {
            // What was not read comes before what was answered (unix(7)).
            Err(Errno::CONNRESET) => receive().map_or(0, |(_, length)| length),
            received => received.unwrap().1,
        };
        let refusal = message::refusal(&answer[..length]);
        // It may have become a request for a unit without files, which ends with this socket.
        let is_known = length == 0 || refusal.is_some() || &answer[..length] == HELLO;
        assert!(is_known, "{:?}", &answer[..length]);
        (length > 0).then_some((socket, refusal))
    }

    /// Connects as alice.
    pub(crate) fn connect(&self) -> OwnedFd {
        rustix::net::send(&self.control, b"c", SendFlags::NOSIGNAL).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let slices = &mut [IoSliceMut::new(&mut byte)];
        recvmsg(&self.control, slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
        let connected = ancillary.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        connected.unwrap()
    }

    pub(crate) fn open(&self, path: &str) -> OwnedFd {
        open(&self.system.path(path))
    }

    /// Asks for files by these names, with these descriptors.
    pub(crate) fn ask(&self, names: &[&str], files: &[&OwnedFd]) -> String {
        let program = self.open(PINFOLD);
        let message = message::encode(&request(names)).unwrap();
        let files: Vec<_> =
            [&program].into_iter().chain(files.iter().copied()).map(OwnedFd::as_fd).collect();
        self.send(&message, &files).unwrap().what
    }
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
        .unwrap()
}

pub(crate) fn request(names: &[&str]) -> Request {
    let grants = names.iter().map(|name| Wanted { path: PathBuf::from(name), is_writable: true });
    Request {
        session: "00000000000a".to_owned(),
        memory: None,
        cpus: None,
        tasks: None,
        grants: grants.collect(),
    }
}

#[test]
fn hostile_request_is_refused_before_any_right_is_used() {
    let Some(system) = system("hostile_request_is_refused") else { return };
    let hostile = Hostile::new(&system);
    let project = system.path("/home/alice/work/proj");
    let make = |name: &str, to: &str| {
        symlink(to, project.join(name)).unwrap();
    };
    make("etc", "/etc");
    make("up", "..");
    make("proc", "/proc/1/root");
    let _ =
        system.shell("alice", "mkfifo work/proj/pipe; mkdir work/proj/closed work/proj/closed/in");
    own(&project.join("closed"), "root");
    let _ = system.shell("root", "chmod 700 /home/alice/work/proj/closed");
    let (etc, own_project) = (hostile.open("/etc"), hostile.open("/home/alice/work/proj"));
    let other = |names: &[&str], files: &[&OwnedFd]| hostile.ask(names, files);
    let at = |name: &str| format!("/home/alice/work/proj/{name}");

    assert_eq!(other(&["/etc"], &[&etc]), "/etc is in no project of alice");
    assert!(other(&["/home/alice"], &[&hostile.open("/home/alice")]).contains("is in no project"));
    assert!(other(&["/home/alice/.config/pinfold"], &[&etc]).contains("is in no project"));
    assert!(
        other(&["/home/alice/work/proj"], &[&etc])
            .ends_with("is not the file that was handed over")
    );
    for link in ["etc", "up", "proc", "etc/passwd", "up/proj"] {
        let said = other(&[&at(link)], &[&etc]);
        assert!(said.starts_with("a symbolic link is on the path"), "{link}: {said}");
    }
    assert!(
        other(&[&at("pipe")], &[&hostile.open(&at("pipe"))])
            .ends_with("is neither a file nor a directory")
    );
    // What root alone may reach, although the caller has a descriptor of it.
    assert!(
        other(&[&at("closed/in")], &[&hostile.open(&at("closed/in"))])
            .contains("Permission denied")
    );
    for more in [0, 2] {
        let files = vec![&own_project; more];
        assert_eq!(other(&["/home/alice/work/proj"], &files), "malformed request");
    }
    assert!(
        hostile
            .send(&message::encode(&request(&[])).unwrap(), &[])
            .unwrap()
            .what
            .contains("malformed")
    );
    assert!(
        hostile
            .send(&message::encode(&request(&[])).unwrap(), &[etc.as_fd()])
            .unwrap()
            .what
            .contains("not the pinfold")
    );
    let all = vec![etc.as_fd(); MOST_DESCRIPTORS];
    hostile.send(b"pinfold-runner 1\n", &all).unwrap();
    // As long as it takes, from a caller that says nothing.
    let (mut begun, mut answer, mut length) = (Instant::now(), [0; 4096], 0);
    crate::until("a connection is served", || {
        begun = Instant::now();
        let silent = hostile.connect();
        length = rustix::net::recv(&silent, &mut answer[..], RecvFlags::empty()).unwrap().1;
        length > 0
    });
    assert_eq!(message::refusal(&answer[..length]).unwrap().what, "no request within 5 seconds");
    assert!(begun.elapsed().as_secs() < 20);
    nothing_is_left(&system);
}

#[test]
fn hostile_requests_keep_nobody_else_from_the_runner() {
    let Some(system) = system("hostile_requests_keep_nobody_else") else { return };
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |value| value.parse::<u64>().unwrap())
    };
    let hostile = Hostile::new(&system);
    let program = hostile.open(PINFOLD);
    let message = message::encode(&request(&["/home/alice/work/proj"])).unwrap();
    // From one seed: each message is a request with some of its bytes changed, cut or repeated.
    let mut state = number("PINFOLD_SEED", 0x9e37_79b9_7f4a_7c15).max(1);
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below.max(1)
    };
    for _ in 0..number("PINFOLD_REQUESTS", 1000) {
        let mut bytes = message.clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] = next(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.extend_from_within(at..),
            }
        }
        hostile.send(&bytes, &[program.as_fd()]);
    }
    nothing_is_left(&system);
    system.project("bob", "/home/bob/work");
    let output = system.shell("bob", &format!("cd work && {RUN}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    nothing_is_left(&system);
}
