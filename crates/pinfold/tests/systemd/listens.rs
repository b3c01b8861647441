//! The process that listens: what one user does to it keeps nobody else from the runner.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::systemd::Systemd;

use crate::requests::{Hostile, RUN};
use crate::{POLICY, failure, nothing_is_left, system, text};

/// Connects as often as it can until its input ends: it holds thousands of connections, sends half a request over each, or
/// closes each at once, or has another id for each, as root of a user namespace can.
const FLOOD: &str = r#"
import itertools, os, resource, select, socket, sys
most = 6000
resource.setrlimit(resource.RLIMIT_NOFILE, (2 * most, 2 * most))
held = []
if sys.argv[1] == "ids":
    os.setgroups([os.stat("/run/pinfold/runner.sock").st_gid])
    os.setegid(1000)
print("begun", flush=True)
for number in itertools.count():
    if select.select([0], [], [], 0)[0]:
        break
    if sys.argv[1] == "ids":
        os.seteuid(0)
        os.seteuid(100000 + number % 65536)
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    caller.setblocking(sys.argv[1] not in ("spin", "ids"))
    try:
        caller.connect("/run/pinfold/runner.sock")
        if sys.argv[1] == "half":
            caller.send(b"pinfold-runner 1\n")
        if sys.argv[1] != "close":
            held.append(caller)
    except OSError:
        pass
    if len(held) == most:
        held = held[most // 2:]
"#;

#[test]
fn flood_of_connections_keeps_nobody_else_from_the_runner() {
    let Some(system) = system("flood_of_connections") else { return };
    system.project("bob", "/home/bob/work");
    let run = |user: &str, place: &str| {
        let begun = Instant::now();
        let output = system.shell(user, &format!("cd {place} && {RUN}"));
        assert!(output.status.success(), "{user}: {}", text(&output.stderr));
        begun.elapsed()
    };
    for how in ["idle", "half", "close", "spin", "ids"] {
        let mut flood = system.as_user(if how == "ids" { "root" } else { "alice" });
        flood.args(["/usr/bin/python3", "-I", "-c", FLOOD, how]);
        let mut flood = flood.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut begun = [0; 6];
        flood.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
        for _ in 0..3 {
            let took = run("bob", "work");
            assert!(took < Duration::from_secs(5), "{how}: {took:?}");
        }
        drop(flood.stdin.take());
        flood.wait().unwrap();
        // The one who floods is heard afterwards as well.
        run("alice", "work/proj");
    }
    nothing_is_left(&system);
}

/// The process that listens.
fn listener(system: &Systemd) -> String {
    let line = "systemctl show --value --property MainPID pinfold-runner.service";
    text(&system.shell("root", line).stdout).trim().to_owned()
}

/// Where the runner lies.
fn runner(system: &Systemd) -> String {
    let unit = "systemctl cat pinfold-runner.service | sed -n 's/^ExecStart=//p' | tail -n 1";
    text(&system.shell("root", unit).stdout).trim().to_owned()
}

#[test]
fn runner_that_cannot_be_started_is_not_tried_without_end() {
    let Some(system) = system("runner_that_cannot_be_started") else { return };
    let (runner, start) = (runner(&system), format!("cd work/proj && {RUN}"));
    assert!(system.shell("root", &format!("mv {runner} /opt/gone")).status.success());
    let said = failure(&system.shell("alice", &start));
    assert!(said.contains("/run/pinfold/runner.sock"), "{said}");
    crate::until("the socket is closed", || {
        let line = "systemctl show --value --property Result pinfold-runner.socket";
        text(&system.shell("root", line).stdout).trim() == "trigger-limit-hit"
    });
    assert!(system.shell("root", &format!("mv /opt/gone {runner}")).status.success());
    // Not within the time that systemd counts in.
    std::thread::sleep(Duration::from_secs(2));
    assert!(system.shell("root", "systemctl restart pinfold-runner.socket").status.success());
    let output = system.shell("alice", &start);
    assert!(output.status.success(), "{}", text(&output.stderr));
    nothing_is_left(&system);
}

#[test]
fn listener_without_descriptors_goes_on_and_leaves_no_process() {
    let Some(system) = system("listener_without_descriptors") else { return };
    system.project("bob", "/home/bob/work");
    let hostile = Hostile::new(&system);
    let mut held = vec![hostile.connect()];
    crate::until("it listens", || listener(&system) != "0");
    let process = listener(&system);
    held.extend((0..7).map(|_| hostile.connect()));
    let counts = format!("test $(ls /proc/{process}/fd | wc -l) -ge 11");
    crate::until("8 are served", || system.shell("root", &counts).status.success());
    let limit = |most: u32| {
        let line = format!("prlimit --nofile={most}:4096 --pid {process}");
        assert!(system.shell("root", &line).status.success());
    };
    limit(10);
    held.push(hostile.connect());
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(listener(&system), process);
    limit(1024);
    drop(held);
    let output = system.shell("bob", &format!("cd work && {RUN}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(listener(&system), process);
    let none = format!("! pgrep --parent {process}");
    crate::until("all are reaped", || system.shell("root", &none).status.success());
    nothing_is_left(&system);
}

/// Starts the runner with a socket that listens, as a user might have sudo do.
const LISTEN: &str = r#"
import socket, subprocess, sys
own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
own.bind("\0own")
own.listen()
caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
caller.connect("\0own")
print(subprocess.run([sys.argv[1]], stdin=own, env={"SUDO_UID": "0"}, timeout=20).returncode)
"#;

#[test]
fn sudo_has_no_socket_listened_to() {
    let Some(system) = system("sudo_has_no_socket_listened_to") else { return };
    let runner = runner(&system);
    let mut started = system.as_user("root");
    let output = started.args(["/usr/bin/python3", "-I", "-c", LISTEN, &runner]).output().unwrap();
    assert_eq!(text(&output.stdout), "1\n", "{}", text(&output.stderr));
}

#[test]
fn policy_that_gives_too_much_is_refused_by_the_runner_itself() {
    let Some(system) = system("policy_that_gives_too_much") else { return };
    let hostile = Hostile::new(&system);
    let project = hostile.open("/home/alice/work/proj");
    let names = "echo toor:x:0:0::/root:/bin/sh >>/etc/passwd; echo bob2:x:1001:1001::/:/bin/sh >>/etc/passwd; \
                 echo pi-2:x:991:991::/:/bin/sh >>/etc/passwd";
    assert!(system.shell("root", names).status.success());
    let said = |from: &str, to: &str| {
        assert!(POLICY.contains(from));
        system.set_policy(&POLICY.replace(from, to));
        hostile.ask(&["/home/alice/work/proj"], &[&project])
    };
    let service = |name: &str| said("\"pi-agent\"", &format!("\"{name}\""));
    for name in ["root", "toor", "alice"] {
        assert_eq!(service(name), format!("user {name} has the id of root or of the caller"));
    }
    for (name, other) in [("bob", "bob"), ("bob2", "bob"), ("pi-bob", "pi-bob"), ("pi-2", "pi-bob")]
    {
        assert_eq!(service(name), format!("users {name} and {other} have the same id"));
    }
    assert_eq!(said("\"user\": \"pi-bob\",", ""), "users pi-agent and pi-agent have the same id");
    for name in ["", "990", "../pi-agent", "pi-agent ", "%u", "pi-agent:x", "-h", "\\u0000"] {
        let said = service(name);
        assert!(said.starts_with("user ") && said.ends_with(" has no account"), "{name}: {said}");
    }
    for name in ["../alice", "1000", "Alice", "alice ", ""] {
        let said = said("\"alice\"", &format!("\"{name}\""));
        assert_eq!(said, "/etc/pinfold/runner.json has no user alice");
    }
    nothing_is_left(&system);
}
