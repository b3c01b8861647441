//! Bytes pass when they come, both ways, and ends are ends.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::support::{OK, Server, TestGateway, header, read_head, read_request, status};

fn post(gateway: &TestGateway, headers: &str) -> String {
    format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\n{headers}\r\n",
        gateway.key
    )
}

#[test]
fn an_event_arrives_before_the_next_is_sent() {
    let (proceed, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        stream.get_mut().write_all(head.as_bytes())?;
        for event in ["8\r\ndata: 1\n\r\n", "8\r\ndata: 2\n\r\n", "0\r\n\r\n"] {
            wait.lock().unwrap().recv().map_err(io::Error::other)?;
            stream.get_mut().write_all(event.as_bytes())?;
        }
        Ok(())
    });
    let gateway = TestGateway::before(upstream.address);
    let mut client = BufReader::new(gateway.connect());
    client.get_mut().write_all(post(&gateway, "Content-Length: 0\r\n").as_bytes()).unwrap();
    let head = read_head(&mut client).unwrap();
    assert_eq!(header(&head, "content-type"), Some("text/event-stream"));
    for expected in ["data: 1\n", "data: 2\n"] {
        proceed.send(()).unwrap();
        let mut lines = [String::new(), String::new(), String::new()];
        for line in &mut lines {
            client.read_line(line).unwrap();
        }
        assert_eq!(lines[1], expected);
    }
    proceed.send(()).unwrap();
    let mut end = String::new();
    client.read_line(&mut end).unwrap();
    assert_eq!(end, "0\r\n");
}

#[test]
fn an_upload_arrives_before_its_end_is_sent() {
    let (report, seen) = mpsc::channel::<String>();
    let upstream = Server::start(move |mut stream| {
        read_head(&mut stream)?;
        for _ in 0..2 {
            let mut size = String::new();
            stream.read_line(&mut size)?;
            let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
            stream.read_exact(&mut chunk)?;
            report.send(String::from_utf8(chunk).unwrap()).map_err(io::Error::other)?;
        }
        stream.read_line(&mut String::new())?;
        stream.get_mut().write_all(OK.as_bytes())
    });
    let gateway = TestGateway::before(upstream.address);
    let mut client = BufReader::new(gateway.connect());
    let head = post(&gateway, "Transfer-Encoding: chunked\r\n");
    client.get_mut().write_all(head.as_bytes()).unwrap();
    for part in ["first", "later"] {
        client.get_mut().write_all(format!("5\r\n{part}\r\n").as_bytes()).unwrap();
        assert_eq!(seen.recv().unwrap(), format!("{part}\r\n"));
    }
    client.get_mut().write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut client).unwrap()), 200);
}

#[test]
fn one_connection_serves_many_requests_on_both_sides() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let mut client = BufReader::new(gateway.connect());
    for _ in 0..50 {
        client.get_mut().write_all(post(&gateway, "Content-Length: 0\r\n").as_bytes()).unwrap();
        assert_eq!(status(&read_head(&mut client).unwrap()), 200);
        client.read_exact(&mut [0; 2]).unwrap();
    }
    drop(client);
    assert_eq!(status(&gateway.get("/v1/x", "")), 200, "another client");
    assert_eq!(seen.lock().unwrap().len(), 51);
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_kept_connection_that_the_upstream_closed_is_replaced() {
    let (report, closed) = mpsc::channel::<()>();
    let upstream = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        // Says nothing of closing, and closes.
        stream.get_mut().write_all(OK.as_bytes())?;
        drop(stream);
        report.send(()).map_err(io::Error::other)
    });
    let gateway = TestGateway::before(upstream.address);
    for _ in 0..20 {
        assert_eq!(status(&gateway.get("/v1/x", "")), 200);
        closed.recv().unwrap();
    }
    assert_eq!(upstream.connections(), 20);
}

#[test]
fn an_answer_that_breaks_off_is_not_made_whole() {
    let upstream = Server::start(|mut stream| {
        read_request(&mut stream)?;
        let partial = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
        stream.get_mut().write_all(partial.as_bytes())
    });
    let gateway = TestGateway::before(upstream.address);
    let answer = gateway.get("/v1/x", "");
    assert!(answer.contains("part") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[test]
fn a_client_that_leaves_ends_the_request_upstream() {
    let (report, left) = mpsc::channel::<Instant>();
    let upstream = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
        stream.get_mut().write_all(head.as_bytes())?;
        // Ends when the gateway closes.
        let _ = stream.read(&mut [0]);
        report.send(Instant::now()).map_err(io::Error::other)
    });
    let gateway = TestGateway::before(upstream.address);
    let mut client = BufReader::new(gateway.connect());
    client.get_mut().write_all(post(&gateway, "Content-Length: 0\r\n").as_bytes()).unwrap();
    read_head(&mut client).unwrap();
    let leaving = Instant::now();
    drop(client);
    let left = left.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(left >= leaving);
}

const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

fn ask_for_websocket(gateway: &TestGateway) -> BufReader<std::net::TcpStream> {
    let mut client = BufReader::new(gateway.connect());
    let request = format!(
        "GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{HANDSHAKE}\r\n",
        gateway.key
    );
    client.get_mut().write_all(request.as_bytes()).unwrap();
    client
}

#[test]
fn a_websocket_passes_both_ways_with_the_real_key() {
    let upstream = Server::start(|mut stream| {
        let request = read_head(&mut stream)?;
        assert_eq!(header(&request, "x-api-key"), Some(super::support::REAL));
        assert_eq!(header(&request, "upgrade"), Some("websocket"));
        assert_eq!(header(&request, "sec-websocket-version"), Some("13"));
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nhello";
        // The first frame comes in one piece with the head.
        stream.get_mut().write_all(answer.as_bytes())?;
        let mut frame = [0; 4];
        while stream.read_exact(&mut frame).is_ok() {
            stream.get_mut().write_all(&frame)?;
        }
        Ok(())
    });
    let gateway = TestGateway::before(upstream.address);
    let mut client = ask_for_websocket(&gateway);
    let head = read_head(&mut client).unwrap();
    assert_eq!(status(&head), 101);
    assert_eq!(header(&head, "upgrade"), Some("websocket"));
    assert_eq!(header(&head, "sec-websocket-accept"), Some("x"));
    let mut hello = [0; 5];
    client.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello");
    for frame in [b"ping", b"pong"] {
        client.get_mut().write_all(frame).unwrap();
        let mut echo = [0; 4];
        client.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, frame);
    }
    client.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the end passes too");
    assert_eq!(gateway.journal.lines(), ["use anthropic GET 127.0.0.1 /v1/realtime"]);
}

#[test]
fn an_upstream_that_has_no_websockets_is_heard() {
    let (upstream, _) =
        Server::answering("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    let gateway = TestGateway::before(upstream.address);
    let mut client = ask_for_websocket(&gateway);
    assert_eq!(status(&read_head(&mut client).unwrap()), 426);
}

#[test]
fn other_upgrades_are_plain_requests() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = TestGateway::before(upstream.address);
    let upgrade =
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings\r\n";
    let request = format!(
        "{}Content-Length: 0\r\n\r\n",
        post(&gateway, upgrade).trim_end_matches("\r\n").to_owned() + "\r\n"
    );
    let mut client = BufReader::new(gateway.connect());
    client.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(status(&read_head(&mut client).unwrap()), 200);
    let seen = seen.lock().unwrap();
    assert!(header(&seen[0], "upgrade").is_none() && header(&seen[0], "http2-settings").is_none());
}

#[test]
fn stopping_cuts_what_is_open() {
    let upstream = Server::start(|mut stream| {
        read_request(&mut stream)?;
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.get_mut().write_all(head.as_bytes())?;
        let _ = stream.read(&mut [0]);
        Ok(())
    });
    let gateway = TestGateway::before(upstream.address);
    let mut client = BufReader::new(gateway.connect());
    client.get_mut().write_all(post(&gateway, "Content-Length: 0\r\n").as_bytes()).unwrap();
    read_head(&mut client).unwrap();
    drop(gateway);
    let mut rest = Vec::new();
    // A reset is as good an end as a close.
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty());
}
