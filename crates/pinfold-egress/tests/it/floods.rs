//! Clients that send too much, nothing, or nonsense.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pinfold_egress::{Route, TrustRoots};

use super::support::{OK, Server, TestGateway, route, status};

/// Connections that the gateway has open at once.
const CONNECTIONS: usize = 256;

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Asks on a connection that stays open, and reads the beginning of an answer.
fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(HEALTH)?;
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

#[test]
fn no_more_connections_are_served_than_there_are_places() {
    let gateway = TestGateway::before("127.0.0.1:9".parse().unwrap());
    let mut held: Vec<TcpStream> = (0..CONNECTIONS).map(|_| gateway.connect()).collect();
    for stream in &mut held {
        assert_eq!(status(&ask(stream).unwrap()), 200);
    }
    let mut waiting = gateway.connect();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(ask(&mut waiting).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held.pop());
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = [0; 12];
    waiting.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200", "it is served as soon as there is a place");
}

#[test]
fn requests_that_never_end_do_not_hold_up_others() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let mut half: Vec<TcpStream> = (0..CONNECTIONS - 1).map(|_| gateway.connect()).collect();
    for stream in &mut half {
        stream.write_all(b"POST /v1/messages HTTP/1.1\r\nHost: loc").unwrap();
    }
    let started = Instant::now();
    assert_eq!(status(&gateway.get("/v1/models", "")), 200);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    drop(half);
    assert_eq!(status(&gateway.get("/v1/models", "")), 200);
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn malformed_request_is_refused_and_recorded() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let key = format!("x-api-key: {}\r\n", gateway.key);
    let long = format!("{key}x-long: {}\r\n", "a".repeat(100_000));
    let many: String = (0..300).map(|number| format!("x-{number}: 1\r\n")).collect();
    let head = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n";
    let cases = [
        (431, format!("{head}{long}\r\n")),
        (431, format!("{head}{key}{many}\r\n")),
        (400, format!("{head}{key}x-nul: a\0b\r\n\r\n")),
        (400, format!("{head}{key}no colon\r\n\r\n")),
        (400, format!("{head}{key}bad name: 1\r\n\r\n")),
        (400, format!("{head}{key}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")),
        (400, format!("{head}{key}Content-Length: -1\r\n\r\n")),
        (400, format!("{head}{key}Transfer-Encoding: gzip\r\n\r\n")),
        (400, "\u{1}\u{2}\u{3}\r\n\r\n".to_owned()),
        (400, format!("GET /v1/models HTTP/9.9\r\nHost: localhost\r\n{key}\r\n")),
    ];
    for (number, (expected, request)) in cases.iter().enumerate() {
        let answer = gateway.raw(request.as_bytes());
        assert_eq!(status(&answer), *expected, "{request:.100}");
        let recorded = recorded(&gateway, number + 1);
        assert_eq!(recorded.len(), number + 1, "{request:.100}: {recorded:?}");
        assert!(recorded[number].starts_with(&format!("denied {expected}")), "{recorded:?}");
    }
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(status(&gateway.get("/v1/models", "")), 200, "others are served as before");
}

/// What is recorded, once it is this much: after an answer of the library's own.
fn recorded(gateway: &TestGateway, lines: usize) -> Vec<String> {
    let started = Instant::now();
    while gateway.journal.lines().len() < lines && started.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    gateway.journal.lines()
}

#[test]
fn a_request_that_goes_out_in_vain_is_recorded() {
    let gateway = TestGateway::before("127.0.0.1:9".parse().unwrap());
    assert_eq!(status(&gateway.get("/v1/models?secret=1", "")), 502);
    let expected =
        ["use anthropic GET 127.0.0.1 /v1/models", "denied 502 GET 127.0.0.1 /v1/models"];
    assert_eq!(gateway.journal.lines(), expected);
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn bodies_that_are_held_have_a_bound() {
    const LENGTH: usize = 4 << 20;
    let (upstream, _) = Server::answering(OK);
    let address = format!("http://{}", upstream.address);
    let models = Some(vec!["m".to_owned()]);
    let gateway =
        TestGateway::with(vec![Route { models, ..route("p", &address) }], TrustRoots::System);
    let part = vec![b' '; LENGTH - 1];
    let before = resident();
    let streams: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = gateway.connect();
            stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            let head = format!(
                "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\n\
                 Content-Length: {LENGTH}\r\n\r\n",
                gateway.key
            );
            stream.write_all(head.as_bytes()).unwrap();
            // What is not read stays with the kernel.
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    let grown = resident().saturating_sub(before) >> 20;
    assert!((32..128).contains(&grown), "{grown} MiB");
    drop(streams);
    // Others are served once these are gone.
    let body = r#"{"model":"m"}"#;
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        gateway.key,
        body.len()
    );
    assert_eq!(status(&gateway.raw(request.as_bytes())), 200);
}
