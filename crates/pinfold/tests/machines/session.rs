//! What a user has of a machine: a command with its streams and its end, the doors, and what is refused. That everything
//! else holds in one as well is what `scripts/conformance vm` shows.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User, engine, machine_settings, people, processes_with, skip};

pub(super) const SETTINGS: &str = "home/.config/pinfold/config.toml";

/// A stage for each kind of user, with what machines are made of.
pub(super) fn stages(test: &str) -> Vec<Stage> {
    let stage = |user: User| {
        let stage = Stage::new(user);
        // A stage for machines has these by itself.
        stage.write(SETTINGS, if engine().is_none() { machine_settings() } else { String::new() });
        let doctor = stage.pinfold(&["doctor", "--json"]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let mut boundaries = report["boundaries"].as_array().unwrap().iter();
        let vm = boundaries.find(|boundary| boundary["name"] == "vm").unwrap();
        if vm["usable"] == true {
            return Some(stage);
        }
        skip(test, vm["findings"][0]["what"].as_str().unwrap());
        None
    };
    people().into_iter().filter_map(stage).collect()
}

pub(super) fn run(stage: &Stage, options: &[&str], script: &str) -> Output {
    let mut run = stage.command(pinfold_testkit::executable());
    run.args(["run", "--boundary", "vm"]).args(options);
    run.args(["--", "sh", "-c", script]).output().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn command_in_a_machine_has_its_streams_its_status_and_another_kernel() {
    for stage in stages("command") {
        fs::write(stage.workspace().join(".env"), "SECRET=1").unwrap();
        let mut run = stage.command(pinfold_testkit::executable());
        run.args(["run", "--boundary", "vm", "--", "sh", "-c"]);
        run.arg(
            "cat; pwd; echo $PINFOLD_HANDLED_BY; echo no >&2; id -u; touch made; cat .env; ls /dev/vda; \
             grep -cE 'CapBnd.*[1-9a-f]' /proc/self/status; seq 1 30000; uname -r >&2; exit 7",
        );
        let streams = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = streams.spawn().unwrap();
        run.stdin.take().unwrap().write_all(b"in\n").unwrap();
        let output = run.wait_with_output().unwrap();
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(7), "{errors}");
        let uid = if stage.user.is_root() { 1000 } else { stage.user.uid };
        let numbers: String = (1..=30_000).map(|number| format!("{number}\n")).collect();
        let expected = format!("in\n{}\nvm\n{uid}\n0\n{numbers}", stage.workspace().display());
        assert!(said == expected, "{} bytes, {errors}", said.len());
        let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(errors.contains("no\n") && !errors.contains(&own), "{errors}");
        let made = fs::metadata(stage.workspace().join("made")).unwrap();
        assert_eq!(made.uid(), stage.user.uid);
    }
}

/// Asks a host, by name and by address, for what it says. A host that is not allowed is not reached.
const CONNECTS: &str = r#"
import socket, sys, urllib.request
def ask(address):
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.read().decode()
    except Exception as error:
        return type(error).__name__
port = sys.argv[1]
print(ask(f'http://localhost:{port}/'))
print(ask(f'http://127.0.0.1:{port}/'))
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))
print(ask(f'http://localhost:{port}/'))
print(ask('http://198.51.100.1/'), ask('http://denied.example/'))
try:
    socket.getaddrinfo('denied.example', 80)
    print('a name was resolved')
except OSError:
    print('no name')
"#;

#[test]
fn doors_of_a_machine_decide_as_they_do_elsewhere() {
    for stage in stages("doors") {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        std::thread::spawn(move || {
            while let Ok((mut client, _)) = listener.accept() {
                let _ = client.read(&mut [0; 4096]);
                let _ = client.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        });
        stage.write("ws/connects.py", CONNECTS);
        let host = format!("localhost:{port}");
        let script = format!("python3 connects.py {port}");
        let output = run(&stage, &["--allow-internal-host", &host], &script);
        let said = text(&output.stdout);
        let mut lines = said.lines();
        for _ in 0..3 {
            assert_eq!(lines.next(), Some("hi"), "{said}{}", text(&output.stderr));
        }
        assert!(lines.next().is_some_and(|line| !line.contains("hi")), "{said}");
        assert_eq!(lines.next(), Some("no name"), "{said}");
    }
}

/// Gives back what it gets, on a port of each family of addresses.
const RETURNS: &str = r#"
import socket, socketserver, threading
class Return(socketserver.BaseRequestHandler):
    def handle(self):
        while some := self.request.recv(65536):
            self.request.sendall(some)
class V4(socketserver.ThreadingTCPServer):
    request_queue_size = 256
class V6(V4):
    address_family = socket.AF_INET6
threading.Thread(target=V6(("::1", 7001), Return).serve_forever, daemon=True).start()
V4(("127.0.0.1", 7000), Return).serve_forever()
"#;

/// Sends a line and waits for it to come back.
fn is_returned(client: &mut TcpStream) -> io::Result<bool> {
    client.set_read_timeout(Some(Duration::from_secs(60)))?;
    client.write_all(b"line\n")?;
    let mut returned = [0; 5];
    client.read_exact(&mut returned)?;
    Ok(&returned == b"line\n")
}

/// A port of the host's that nobody had a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn ports_of_a_machine_are_published_and_many_connections_leave_room_for_programs() {
    for stage in stages("ports") {
        stage.write("ws/returns.py", RETURNS);
        let [v4, v6, idle] = [free_port(), free_port(), free_port()];
        let publish = [(v4, 7000), (v6, 7001), (idle, 7002)];
        let publish = publish.map(|(host, guest)| format!("--publish={host}:{guest}"));
        let mut run = stage.pinfold(&["run", "--boundary", "vm", "--detach", "--name", "box"]);
        let run = run.args(&publish).args(["--", "python3", "returns.py"]).output().unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        let connect = |port| TcpStream::connect(("127.0.0.1", port)).unwrap();
        for port in [v4, v6] {
            until("a server answers", || is_returned(&mut connect(port)).unwrap_or_default());
        }
        assert!(is_returned(&mut connect(idle)).is_err(), "nobody serves there");

        // More than a machine has streams: some wait, and programs start all the same.
        let mut clients: Vec<_> = (0..150).map(|_| connect(v4)).collect();
        assert!(clients[..100].iter_mut().all(|client| is_returned(client).unwrap()));
        let exec = stage.pinfold(&["exec", "box", "--", "echo", "runs"]).output().unwrap();
        assert_eq!(text(&exec.stdout), "runs\n", "{}", text(&exec.stderr));
        let mut last = clients.split_off(100);
        drop(clients);
        assert!(last.iter_mut().all(|client| is_returned(client).unwrap()));
        assert!(stage.pinfold(&["stop", "box"]).status().unwrap().success());
        let refused = TcpStream::connect(("127.0.0.1", v4));
        assert!(refused.is_err(), "the session has ended");
    }
}

/// A machine that waits for its end.
struct Machine {
    run: Child,
    /// Tells it from those of other tests.
    mark: String,
}

impl Machine {
    fn start(stage: &Stage) -> Self {
        let mark = format!("machine-of-{}", stage.base().file_name().unwrap().display());
        let mut run = stage.command(pinfold_testkit::executable());
        run.args(["run", "--boundary", "vm", "--", "sh", "-c"]);
        run.args(["touch started; sleep 1000", &mark]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let machine = Self { run, mark };
        until("the command runs", || stage.workspace().join("started").exists());
        machine
    }

    /// The processes below the supervisor.
    fn processes(&self) -> Vec<u32> {
        let mut all = children(self.run.id());
        let mut next = 0;
        while next < all.len() {
            all.extend(children(all[next]));
            next += 1;
        }
        all
    }

    fn qemu(&self) -> u32 {
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.processes().into_iter().find(|pid| name(pid).starts_with("qemu")).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children
        .flat_map(|text| {
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(90), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_gone(pid: &u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
}

#[test]
fn nothing_is_left_whichever_part_of_a_machine_is_killed() {
    for stage in stages("kills") {
        let mut machine = Machine::start(&stage);
        let below = machine.processes();
        assert!(below.len() >= 4, "{below:?}");
        kill(machine.run.id());
        machine.run.wait().unwrap();
        until("all end with the supervisor", || below.iter().all(is_gone));
        assert!(processes_with(&machine.mark).is_empty());

        fs::remove_file(stage.workspace().join("started")).unwrap();
        let mut machine = Machine::start(&stage);
        let below = machine.processes();
        kill(machine.qemu());
        let status = machine.run.wait().unwrap();
        let mut said = String::new();
        machine.run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("the machine ended before the command did"), "{status} {said}");
        until("all end with QEMU", || below.iter().all(is_gone));
    }
}

/// Holds more than the machine has: in one process, in some that share it, and in files that no process holds.
const HOLDERS: [&str; 3] = [
    "head -c 2G /dev/zero | tail -n 1",
    "for i in 1 2 3 4 5 6 7 8; do head -c 100M /dev/zero | tail -n 1 & done; wait",
    "cat /dev/zero >/dev/shm/a & cat /dev/zero >/tmp/b & cat /dev/zero | tail -n 1",
];

#[test]
fn memory_that_runs_out_in_a_machine_ends_the_run_and_is_named() {
    for stage in stages("memory") {
        for holder in HOLDERS {
            let script = format!("echo begun; {holder}; echo survived");
            let output = run(&stage, &["--memory", "384M"], &script);
            let (said, errors) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(137), "{holder}: {errors}");
            assert!(errors.contains("the memory limit ended the run"), "{holder}: {errors}");
            assert_eq!(said, "begun\n", "{holder}");
        }
        let enough =
            run(&stage, &["--memory", "512M"], "head -c 100M /dev/zero | tail -n 1 | wc -c");
        assert_eq!(text(&enough.stdout).trim(), "104857600", "{}", text(&enough.stderr));
    }
}

/// What runs next to the command has limits of its own, and their end is not the session's.
#[test]
fn parts_of_a_machines_session_are_bounded_alone() {
    for stage in stages("parts") {
        let detached = ["run", "--boundary", "vm", "--detach", "--idle", "--name", "box"];
        let started = stage.pinfold(&detached).output().unwrap();
        assert!(started.status.success(), "{}", text(&started.stderr));
        let exec = |limits: &[&str], script: &str| {
            let mut exec = stage.pinfold(&["exec"]);
            let output = exec.args(limits).args(["box", "--", "sh", "-c", script]);
            let output = output.output().unwrap();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let much = "echo begun; head -c 100M /dev/zero | tail -n 1 | sleep 60; echo survived";
        let (status, said, errors) = exec(&["--memory", "32M"], much);
        assert!(status != Some(0) && said == "begun\n", "{status:?} {said} {errors}");
        assert!(errors.contains("the memory limit ended the run"), "{errors}");
        let many = "echo begun; for i in $(seq 30); do sleep 60 & done; wait; echo survived";
        let (status, said, errors) = exec(&["--pids", "10"], many);
        assert!(status != Some(0) && said == "begun\n", "{status:?} {said} {errors}");
        let (status, _, errors) = exec(&["--cpus", "0.5"], "true");
        assert!(status == Some(125) && errors.contains("limit the whole session"), "{errors}");
        let within = exec(&["--memory", "200M", "--pids", "50"], "seq 3 | tail -n 1");
        assert_eq!(within, (Some(0), "3\n".into(), String::new()));
        assert!(stage.pinfold(&["stop", "box"]).status().unwrap().success());
    }
}

/// Sets a system up, and what each session on it does first.
const SYSTEM: &str = r#"{"snapshot": {"setupCommands": ["echo set-up > /opt/made"], "overlaySize": "16M"},
    "resumeCommands": ["cp /opt/made /opt/resumed"]}"#;

/// Its directories are neither private nor in the workspace, and those of the host's system below them stay as they are.
#[test]
fn system_of_layers_is_a_machines_and_can_be_changed() {
    for stage in stages("layers") {
        stage.write("ws/sandbox.json", SYSTEM);
        let trusted = stage.pinfold(&["trust", "--yes"]).output().unwrap();
        assert!(trusted.status.success(), "{}", text(&trusted.stderr));
        let script = "cat /opt/resumed; rm /opt/made; mkdir -p /opt/a /usr/local/share/b; echo changed > /opt/a/c; \
                      cat /opt/a/c; ls /opt/made; head -c 20M /dev/zero >/opt/large; uname -r >&2";
        let output = run(&stage, &[], script);
        let errors = text(&output.stderr);
        assert_eq!(text(&output.stdout), "set-up\nchanged\n", "{errors}");
        let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        for expected in ["'/opt/made': No such file", "the overlaySize limit was reached"] {
            assert!(errors.contains(expected), "{errors}");
        }
        assert!(!errors.contains(&own), "{errors}");
    }
}

#[test]
fn what_no_machine_has_is_refused_before_one_starts() {
    for stage in stages("refusals") {
        for (options, expected) in [
            (&["--memory", "100M"][..], "a machine needs 384 MiB at least\nhint: raise it"),
            (&["--nested", "--landlock", "required"], "which nested sandboxes do without"),
        ] {
            let output = run(&stage, options, "touch started");
            let said = text(&output.stderr);
            assert_eq!(
                (output.status.code(), said.contains(expected)),
                (Some(125), true),
                "{said}"
            );
        }
        assert!(!stage.workspace().join("started").exists());
    }
}

/// On any machine, with QEMU or without.
#[test]
fn missing_qemu_is_named_with_what_to_do() {
    for user in people() {
        let stage = Stage::new(user);
        let directory = stage.path("other");
        stage.write(SETTINGS, format!("qemu = \"{}\"\n", directory.display()));
        let said = text(&run(&stage, &[], "true").stderr);
        assert!(said.contains("qemu-system-x86_64 does not exist"), "{said}");
        assert!(said.contains("hint: install qemu-system-x86"), "{said}");
    }
}
