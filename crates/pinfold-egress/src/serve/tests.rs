//! Faults of our own: a journal that panics stands for whatever may be wrong in ours.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pinfold_policy::network::NetworkPolicy;
use pinfold_policy::origin::Valued;

use super::*;
use crate::gateway::Event;
use crate::{DoorConfig, DoorSockets, PolicyHandle, TrustRoots, stop_channel};

const PATIENCE: Duration = Duration::from_secs(20);

/// Panics about everything that names this.
const BREAKS: &str = "breaks";

struct Breaking;

impl Journal for Breaking {
    fn record(&self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Refused { asked, .. } if asked.contains(BREAKS) => panic!("on purpose"),
            Event::Connect { rule, .. } if rule.contains(BREAKS) => panic!("on purpose"),
            _ => Ok(()),
        }
    }
}

/// A door with what it takes to come to it.
struct Door {
    egress: Arc<Egress>,
    policy: PolicyHandle,
    proxy: SocketAddr,
    names: SocketAddr,
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn allow(policy: &mut NetworkPolicy, rule: &str, by: &'static str) {
    use pinfold_policy::origin::Origin;
    let rule = || Valued::new(rule.parse().unwrap(), Origin::Flag { name: by });
    policy.allow.push(rule());
    policy.internal.push(rule());
}

fn door(policy: NetworkPolicy) -> Door {
    let outward = TcpListener::bind(local(0)).unwrap();
    let names = UdpSocket::bind(local(0)).unwrap();
    let (proxy, asked) = (outward.local_addr().unwrap(), names.local_addr().unwrap());
    let config = DoorConfig {
        policy,
        journal: Arc::new(Breaking),
        authority: None,
        secrets: Vec::new(),
        way: TrustRoots::System.into(),
        doorkeeper: None,
    };
    let (door, policy) = NetworkDoor::new(
        config,
        DoorSockets { names, outward: vec![outward], loopback: Vec::new() },
    );
    let egress = Arc::new(Egress { door: Some(door), ..Egress::default() });
    Door { egress, policy, proxy, names: asked }
}

/// Returns a server that says `hello` to each.
fn greeter() -> u16 {
    let listener = TcpListener::bind(local(0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = (&stream).write_all(b"hello");
        }
    });
    port
}

/// Returns what comes back from a tunnel to this port, the proxy's answer included.
fn tunnel(door: &Door, port: u16) -> String {
    let mut stream = TcpStream::connect(door.proxy).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = format!("127.0.0.1:{port}");
    write!(stream, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    let mut said = Vec::new();
    // A connection that breaks has said what it has said.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).unwrap()
}

/// Returns the answer about a name; none if it does not come in time.
fn ask(door: &Door, name: &str, patience: Duration) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind(local(0)).unwrap();
    socket.connect(door.names).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.as_bytes());
    }
    question.extend(b"\0\0\x01\0\x01");
    socket.send(&question).unwrap();
    let mut answer = vec![0; 1500];
    let length = socket.recv(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}

#[test]
fn a_panic_about_one_connection_or_question_ends_nothing_else() {
    let (good, bad) = (greeter(), greeter());
    let mut policy = NetworkPolicy::default();
    allow(&mut policy, &format!("127.0.0.1:{good}"), "a flag");
    allow(&mut policy, &format!("127.0.0.1:{bad}"), BREAKS);
    let door = door(policy);
    let (stop, stopped) = stop_channel();
    let egress = Arc::clone(&door.egress);
    let serving = thread::spawn(move || egress.serve(stopped));
    for _ in 0..3 {
        assert_eq!(tunnel(&door, bad), "");
        assert!(tunnel(&door, good).ends_with("hello"));
        let asked = format!("{BREAKS}.example.com");
        assert_eq!(ask(&door, &asked, Duration::from_millis(200)), None);
        assert!(ask(&door, "other.example.com", PATIENCE).is_some());
    }
    stop.stop();
    serving.join().unwrap().unwrap();
}

#[test]
fn broken_door_is_served_again_with_its_rules() {
    let door = door(NetworkPolicy::default());
    let mut policy = NetworkPolicy::default();
    let port = greeter();
    allow(&mut policy, &format!("127.0.0.1:{port}"), "pinfold allow");
    let (broken, fault) = tokio::sync::oneshot::channel::<()>();
    let egress = Arc::clone(&door.egress);
    let serving = thread::spawn(move || {
        egress.serve_until(async {
            let _ = fault.await;
            panic!("on purpose")
        })
    });
    assert!(tunnel(&door, port).starts_with("HTTP/1.1 403"));
    door.policy.change(|current| *current = policy);
    assert!(tunnel(&door, port).ends_with("hello"));
    drop(broken);
    serving.join().unwrap().unwrap_err();

    // A client that comes in between waits in the queue of the same listener.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| tunnel(&door, port));
        let (stop, stopped) = stop_channel();
        let serving = scope.spawn(|| door.egress.serve(stopped));
        assert!(waiting.join().unwrap().ends_with("hello"));
        assert!(ask(&door, "other.example.com", PATIENCE).is_some());
        stop.stop();
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn a_request_on_a_kept_connection_that_is_dead_is_sent_on_another() {
    let listener = TcpListener::bind(local(0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // Answers one request on each connection, reads another and hangs up.
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""] {
                read_until(&mut stream, "\r\n\r\n");
                count.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    let mut policy = NetworkPolicy::default();
    allow(&mut policy, &format!("127.0.0.1:{port}"), "a flag");
    let door = door(policy);
    let (stop, stopped) = stop_channel();
    let egress = Arc::clone(&door.egress);
    let serving = thread::spawn(move || egress.serve(stopped));
    let mut client = TcpStream::connect(door.proxy).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |method: &str| {
        write!(
            client,
            "{method} http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        )
        .unwrap();
        let head = read_until(&mut client, "\r\n\r\n");
        read_until(&mut client, "ok");
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!([ask("GET"), ask("GET")], ["200", "200"]);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    stop.stop();
    serving.join().unwrap().unwrap();
}

/// Reads up to and with this.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
    String::from_utf8(read).unwrap()
}
