//! Sessions as hosts of OpenSSH's own programs.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, Tmux, User, installed, people, skip};

/// A live session named `dev`, with OpenSSH's configuration for it. It is stopped with the value.
struct Dev {
    stage: Stage,
}

impl Dev {
    fn start(user: User) -> Self {
        let stage = Stage::new(user);
        let started = stage.pinfold(&["run", "-d", "--idle", "--name", "dev"]).output().unwrap();
        assert!(started.status.success(), "{started:?}");
        let dev = Self { stage };
        let config = dev.stage.pinfold(&["ssh-config"]).output().unwrap();
        assert!(config.status.success(), "{config:?}");
        dev.stage.write("home/config", config.stdout);
        dev
    }

    fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.stage.command(program);
        command.arg("-F").arg(self.stage.path("home/config")).args(args);
        command.current_dir(self.stage.workspace());
        command
    }

    fn ssh(&self, args: &[&str], input: &[u8]) -> Output {
        let mut ssh = self.program("ssh", args);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        output
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.stage.pinfold(&["stop", "dev"]).output();
    }
}

fn is_lacking(test: &str) -> bool {
    let lacking = ["ssh", "scp", "sftp"].into_iter().find(|program| !installed(program));
    if let Some(program) = lacking {
        skip(test, &format!("{program} is not installed"));
    }
    lacking.is_some()
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn commands_have_their_streams_status_and_signals() {
    if is_lacking("commands by ssh") {
        return;
    }
    for user in people() {
        let dev = Dev::start(user);
        let output = dev.ssh(&["dev.pinfold", "cat; echo err >&2; exit 7"], b"in\n");
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"in\n"[..], &b"err\n"[..])
        );
        let output = dev.ssh(&["dev.pinfold", "kill -9 $$"], b"");
        assert_eq!(output.status.code(), Some(137), "{output:?}");
        // The shell, with its input from a pipe, and the environment of the session.
        let output = dev.ssh(&["dev.pinfold"], b"pwd; exit 3\n");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(text(&output).contains(&dev.stage.workspace().display().to_string()), "{output:?}");
        // What it has left running with its output keeps nobody waiting.
        let started = Instant::now();
        dev.ssh(&["dev.pinfold", "sleep 60 & echo left"], b"");
        assert!(started.elapsed() < Duration::from_secs(20));
        let output = dev.ssh(&["nobody.pinfold", "true"], b"");
        assert!(!output.status.success() && text(&output).contains("nobody"), "{output:?}");
    }
}

#[test]
fn large_streams_pass_whole_both_ways_and_through_new_keys() {
    if is_lacking("large streams by ssh") {
        return;
    }
    let dev = Dev::start(people()[0]);
    let large: Vec<u8> = (0..8_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for options in [&[][..], &["-o", "RekeyLimit=1M"]] {
        let output = dev.ssh(&[options, &["dev.pinfold", "cat"]].concat(), &large);
        assert!(output.stdout == large, "{} bytes of {}", output.stdout.len(), large.len());
    }
    // A program that reads nothing holds its client up, which sends no more than the window.
    let output = dev.ssh(&["dev.pinfold", "exec <&-; sleep 1; echo done"], &large);
    assert!(text(&output).contains("done"), "{output:?}");
}

#[test]
fn scp_and_sftp_copy_files_there_and_back() {
    if is_lacking("scp") {
        return;
    }
    for user in people() {
        let dev = Dev::start(user);
        if !dev.ssh(&["-s", "dev.pinfold", "sftp"], b"").stderr.is_empty() {
            return skip("scp", "there is no sftp-server");
        }
        let content: Vec<u8> = (0..500_000_u32).flat_map(u32::to_be_bytes).collect();
        dev.stage.write("ws/large", &content);
        for command in [
            ("scp", &["large", "dev.pinfold:/tmp/there"][..]),
            ("scp", &["dev.pinfold:/tmp/there", "back"]),
            ("scp", &["-O", "dev.pinfold:/tmp/there", "old"]),
        ] {
            let output = dev.program(command.0, command.1).output().unwrap();
            assert!(output.status.success(), "{command:?}: {output:?}");
        }
        dev.stage.write(
            "ws/batch",
            "mkdir /tmp/d\nput large /tmp/d/x\nget /tmp/d/x third\nls -l /tmp/d\n",
        );
        let output = dev.program("sftp", &["-b", "batch", "dev.pinfold"]).output().unwrap();
        assert!(output.status.success() && text(&output).contains("/tmp/d/x"), "{output:?}");
        for copy in ["back", "old", "third"] {
            assert!(fs::read(dev.stage.path(&format!("ws/{copy}"))).unwrap() == content, "{copy}");
        }
    }
}

#[test]
fn terminal_has_the_clients_size_and_follows_it() {
    if is_lacking("a terminal by ssh") || !installed("tmux") {
        return;
    }
    let dev = Dev::start(people()[0]);
    let tmux = Tmux::start(&dev.stage, &dev.stage.workspace(), &[]);
    tmux.line(&format!(
        "clear; ssh -F {} -t dev.pinfold sh",
        dev.stage.path("home/config").display()
    ));
    tmux.wait_for("$");
    tmux.line("clear; echo $TERM; stty size");
    let screen = tmux.wait_for("24 80");
    assert!(screen.contains("screen") || screen.contains("tmux"), "{screen}");
    tmux.resize(100, 30);
    tmux.line("clear; stty size");
    tmux.wait_for("30 100");
    tmux.line("clear; sleep 1044");
    tmux.wait_for_command("sleep 1044");
    tmux.keys(&["C-c"]);
    tmux.line("echo status $?");
    tmux.wait_for("status 130");
    tmux.line("exit 5");
    // ssh would take what is typed before.
    tmux.wait_for("outer>");
    tmux.line("echo ended $?");
    tmux.wait_for("ended 5");
}

#[test]
fn nothing_is_forwarded_and_a_client_that_goes_takes_its_programs_along() {
    if is_lacking("forwarding by ssh") {
        return;
    }
    let dev = Dev::start(people()[0]);
    let config = fs::read_to_string(dev.stage.path("home/config")).unwrap();
    // As a user's own configuration might have it.
    dev.stage.write("home/config", config.replace("    ClearAllForwardings yes\n", ""));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let output = dev.ssh(&["-W", &format!("127.0.0.1:{port}"), "dev.pinfold"], b"");
    assert!(text(&output).contains("forwards nothing"), "{output:?}");
    let remote = format!("{port}:127.0.0.1:1");
    let output =
        dev.ssh(&["-o", "ExitOnForwardFailure=yes", "-R", &remote, "dev.pinfold", "true"], b"");
    assert!(!output.status.success(), "{output:?}");
    let output = dev
        .ssh(&["-A", "-X", "dev.pinfold", "echo \"agent=$SSH_AUTH_SOCK display=$DISPLAY\""], b"");
    assert_eq!(output.stdout, b"agent= display=\n", "{output:?}");
    let output = dev.ssh(&["-o", "SetEnv=COLOUR=blue", "dev.pinfold", "echo $COLOUR"], b"");
    assert_eq!(output.stdout, b"blue\n", "{output:?}");

    let mut ssh = dev.program("ssh", &["dev.pinfold", "echo $$ >pid; exec sleep 1000"]);
    let mut child: Child = ssh.stdin(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    let pid = loop {
        let pid = fs::read_to_string(dev.stage.path("ws/pid")).unwrap_or_default();
        if pid.ends_with('\n') {
            break pid;
        }
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let is_there = format!("kill -0 {} 2>/dev/null && echo there || echo gone", pid.trim());
    let started = Instant::now();
    while dev.ssh(&["dev.pinfold", &is_there], b"").stdout != b"gone\n" {
        assert!(started.elapsed() < Duration::from_secs(20), "it still runs");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn many_commands_share_one_connection() {
    if is_lacking("a shared connection by ssh") {
        return;
    }
    let dev = Dev::start(people()[0]);
    let socket = dev.stage.path("tmp/mux").display().to_string();
    let mut master = dev.program("ssh", &["-M", "-S", &socket, "-N", "dev.pinfold"]);
    let mut master = master.stdin(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !dev.stage.path("tmp/mux").exists() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let run = |number: u32| {
            let (dev, socket) = (&dev, &socket);
            scope.spawn(move || {
                let command = format!("seq {number}00000; echo last");
                dev.ssh(&["-S", socket, "dev.pinfold", &command], b"")
            })
        };
        let all: Vec<_> = (1..=8).map(run).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (number, output) in outputs.iter().enumerate() {
        assert_eq!(text(output).lines().count(), (number + 1) * 100_000 + 1);
    }
    master.kill().unwrap();
    master.wait().unwrap();
}

/// What a hostile client would send, at every place of a conversation: the server ends, and nothing else does.
#[test]
fn hostile_clients_end_their_own_connection() {
    let dev = Dev::start(people()[0]);
    let version = b"SSH-2.0-hostile\r\n".to_vec();
    let packet = |payload: &[u8]| {
        let length = u32::try_from(payload.len() + 1 + 8).unwrap().to_be_bytes();
        [&length[..], &[8], payload, &[0; 8]].concat()
    };
    let attempts: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"SSH-1.5-old\r\n".to_vec(),
        vec![b'x'; 10_000],
        [version.clone(), vec![0xff; 100]].concat(),
        [version.clone(), packet(&[50, 0, 0, 0, 1])].concat(),
        [version.clone(), packet(&[90])].concat(),
        [version.clone(), packet(&[20])].concat(),
        [version.clone(), packet(&[&[20_u8][..], &[0; 16], &[0xff; 4]].concat())].concat(),
        [version, packet(&[&[20_u8][..], &[0; 16], &[0; 45]].concat())].concat(),
    ];
    for attempt in attempts {
        let mut proxy = dev.stage.pinfold(&["ssh-proxy", "dev.pinfold"]);
        proxy.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = proxy.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let _ = stdin.write_all(&attempt);
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && !said.contains("panicked"), "{attempt:?}: {said}");
    }
    assert!(dev.stage.pinfold(&["exec", "dev", "--", "true"]).status().unwrap().success());
}

/// What a sandbox would write into `.gitmodules`, for a client before OpenSSH 9.6, which takes every name.
#[test]
fn name_of_a_host_runs_nothing_on_the_way_to_the_proxy() {
    if is_lacking("names of hosts") {
        return;
    }
    let dev = Dev::start(people()[0]);
    let config = fs::read_to_string(dev.stage.path("home/config")).unwrap();
    let line = config.lines().find_map(|line| line.trim().strip_prefix("ProxyCommand ")).unwrap();
    for name in [
        "$(touch mark)",
        "`touch mark`",
        "x;touch mark;",
        "x&touch mark&",
        "x|touch mark|",
        "x\ntouch mark\n",
        "x>mark;",
        "\"$(touch mark)\"",
        "\\",
        "x #",
        "!touch mark",
    ] {
        let command = line.replace("%n", &format!("{name}.pinfold"));
        let mut shell = dev.stage.command("/bin/sh");
        shell.args(["-c", &format!("exec {command}")]).current_dir(dev.stage.workspace());
        let output = shell.stdin(Stdio::null()).output().unwrap();
        assert!(!dev.stage.path("ws/mark").exists(), "{name}: {output:?}");
        assert!(
            !output.status.success() && text(&output).contains("pinfold"),
            "{name}: {output:?}"
        );
    }
    // This client refuses quotes in names itself. Another character shows that what excludes them is understood.
    dev.stage.write("home/config", config.replace("\"!*'*\"", "\"!*q*\""));
    for (name, is_a_session) in [("dev.pinfold", true), ("devq.pinfold", false)] {
        let shown = text(&dev.ssh(&["-G", name], b""));
        assert_eq!(shown.contains("ssh-proxy"), is_a_session, "{shown}");
    }
}
