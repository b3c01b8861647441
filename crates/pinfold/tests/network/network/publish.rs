//! Ports inside that the host can reach: those that were asked for, while the session lasts.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, User, installed, patience, people, skip};

/// Gives back what it gets, turned around, on each of these ports of one address.
const SERVER: &str = r#"
import socketserver, sys, threading
class Turn(socketserver.BaseRequestHandler):
    def handle(self):
        said = b""
        while more := self.request.recv(65536):
            said += more
        self.request.sendall(said[::-1])
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64
servers = [Server((sys.argv[1], int(port)), Turn) for port in sys.argv[2:]]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("serves", flush=True)
sys.stdin.read()
"#;

/// Says what comes back for three letters.
const CLIENT: &str = "import socket, sys; it = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); \
                      it.sendall(b'abc'); it.shutdown(1); print(it.recv(9).decode())";

/// Whether it can be tried here; says if not.
fn possible(test: &str) -> bool {
    let possible = installed("python3");
    if !possible {
        skip(test, "python3 is not installed");
    }
    possible
}

/// A port that nobody had a moment ago.
fn port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A session that serves on ports of which some are published.
fn serve(stage: &Stage, published: &[String], address: &str, ports: &[u16]) -> Child {
    let mut run = stage.pinfold(&["run"]);
    run.args(published.iter().flat_map(|address| ["--publish", address]));
    run.args(["--", "python3", "-c", SERVER, address]).args(ports.iter().map(u16::to_string));
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 7];
    run.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(said, *b"serves\n");
    run
}

/// What comes back, if a connection comes about.
fn ask(port: u16, said: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(patience(Duration::from_secs(20))))?;
    stream.write_all(said)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_port_that_was_asked_for_is_reached_and_no_other() {
    if !possible("a_port_that_was_asked_for") {
        return;
    }
    for user in people() {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let stage = Stage::new(user);
            let [open, closed] = [port(), port()];
            let mut run = serve(&stage, &[open.to_string()], address, &[open, closed]);
            assert_eq!(ask(open, b"abc").unwrap(), b"cba", "{address}");
            assert!(ask(closed, b"abc").is_err(), "{address}: nobody asked for this one");
            // More than a socket holds, in both directions, from many at once.
            let large: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
            let turned: Vec<u8> = large.iter().rev().copied().collect();
            std::thread::scope(|scope| {
                let asking = || assert!(ask(open, &large).unwrap() == turned, "{address}");
                let all: Vec<_> = (0..20).map(|_| scope.spawn(asking)).collect();
                all.into_iter().for_each(|one| one.join().unwrap());
            });
            drop(run.stdin.take());
            assert!(run.wait().unwrap().success());
            assert!(ask(open, b"abc").is_err(), "{address}: it has ended");
        }
    }
}

#[test]
fn two_sessions_serve_at_the_same_port_by_different_ports_of_the_host() {
    if !possible("two_sessions_serve") {
        return;
    }
    for user in people() {
        let inside = port();
        let stages = [Stage::new(user), Stage::new(user)];
        let mut runs = stages.each_ref().map(|stage| {
            let host = port();
            (host, serve(stage, &[format!("{host}:{inside}")], "127.0.0.1", &[inside]))
        });
        for (host, _) in &runs {
            assert_eq!(ask(*host, b"abc").unwrap(), b"cba");
        }
        assert!(ask(inside, b"abc").is_err(), "the sandbox's own number is not published");
        for (_, run) in &mut runs {
            drop(run.stdin.take());
            assert!(run.wait().unwrap().success());
        }
    }
}

#[test]
fn a_port_where_nobody_serves_ends_and_one_that_is_taken_is_named() {
    if !possible("a_port_where_nobody_serves") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let [served, idle] = [port(), port()];
        let mut run = serve(&stage, &[idle.to_string()], "127.0.0.1", &[served]);
        let begun = Instant::now();
        assert!(ask(idle, b"abc").is_ok_and(|said| said.is_empty()) || ask(idle, b"abc").is_err());
        assert!(begun.elapsed() < Duration::from_secs(15), "it ends");
        let taken = stage.run(&["--publish", &idle.to_string()], &["true"]);
        let errors = String::from_utf8_lossy(&taken.stderr);
        assert_eq!(taken.status.code(), Some(125), "{errors}");
        assert!(errors.contains(&idle.to_string()) && errors.contains("in use"), "{errors}");
        drop(run.stdin.take());
        assert!(run.wait().unwrap().success());
    }
}

/// The sandbox cannot have the host connect elsewhere: what is published leads to its own loopback,
/// where nothing of the host's is.
#[test]
fn port_that_is_roots_or_an_address_that_is_not_here_is_named_with_what_helps() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let stage = Stage::new(user);
        let hint = |port: &str| {
            let output = stage.pinfold(&["run", "--publish", port, "--", "true"]).output().unwrap();
            assert!(!output.status.success(), "{port}");
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let said = hint("192.0.2.1:8080:3000");
        assert!(said.contains("hint: `ip address` shows the addresses of this machine"), "{said}");
        if first.trim().parse::<u16>().unwrap() > 80 {
            let said = hint("80:3000");
            let expected = format!("hint: ports below {} are root's: publish", first.trim());
            assert!(said.contains(&expected), "{said}");
        }
    }
}

#[test]
fn services_of_the_host_are_not_reached_through_a_published_port() {
    if !possible("what_the_host_serves") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let host = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = host.local_addr().unwrap().port();
        let script = format!(
            "import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), 5)\n    \
             print('reached')\nexcept OSError:\n    print('refused')"
        );
        let run = stage.run(&["--publish", &self::port().to_string()], &["python3", "-c", &script]);
        assert_eq!(String::from_utf8_lossy(&run.stdout), "refused\n");
        host.set_nonblocking(true).unwrap();
        assert!(host.accept().is_err(), "nobody came");
    }
}

/// Any program of the machine can connect, whichever user's it is.
#[test]
fn connections_to_a_published_port_leave_descriptors_for_the_session() {
    if !possible("connections_to_a_published_port") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let port = port();
        let run = stage.pinfold(&["run", "--name", "serving", "--publish", &port.to_string()]);
        let mut limited = stage.command("sh");
        limited.args(["-c", "ulimit -n 1024; exec \"$0\" \"$@\""]).arg(run.get_program());
        limited.args(run.get_args()).args(["--", "python3", "-c", SERVER, "127.0.0.1"]);
        let streams = limited.arg(port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = streams.spawn().unwrap();
        run.stdout.as_mut().unwrap().read_exact(&mut [0; 7]).unwrap();
        let address = ([127, 0, 0, 1], port).into();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
        let held: Vec<TcpStream> = (0..600).map(connect).collect();
        let are_served = |stream: &&TcpStream| {
            stream.set_nonblocking(true).unwrap();
            (&**stream).read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        let begun = Instant::now();
        while held.iter().filter(are_served).count() > 128 {
            assert!(begun.elapsed() < Duration::from_secs(10), "one too many does not end");
        }
        // They leave places to the session's user, if they are another one's.
        let is_mine = user.is_root() == User::current().is_root();
        if !is_mine {
            let served = stage.command("python3").args(["-c", CLIENT, &port.to_string()]).output();
            assert_eq!(served.unwrap().stdout, b"cba\n");
        }
        let call = stage.pinfold(&["exec", "serving", "--", "echo", "called"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&call.stdout), "called\n", "{call:?}");
        drop(held);
        while ask(port, b"abc").ok().as_deref() != Some(b"cba") {
            assert!(begun.elapsed() < Duration::from_secs(20), "places come back");
        }
        drop(run.stdin.take());
        assert!(run.wait().unwrap().success());
    }
}
