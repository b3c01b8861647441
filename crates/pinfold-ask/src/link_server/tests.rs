use std::sync::atomic::AtomicBool;

use super::*;
use crate::approvals::Subject;

type Calls = Arc<Mutex<Vec<(String, String, Visit)>>>;

struct Server {
    port: u16,
    calls: Calls,
    is_over: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A server with one link, whose question would break out of the page.
fn server() -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (calls, is_over) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    let (of_server, end) = (Arc::clone(&calls), Arc::clone(&is_over));
    let follow: Follow = Arc::new(move |session, token, visit| {
        of_server.lock().push((session.to_owned(), token.to_owned(), visit.clone()));
        let command = "<script>alert(1)</script>".to_owned();
        let subject = Subject::Command { executable: "x".into(), command, cwd: "/\"'&".into() };
        let pending = Pending { id: 1, subject, details: Vec::new(), rule: None };
        match (token, visit) {
            ("good", Visit::Look(_)) => Some(Followed::Question(pending)),
            ("good", Visit::Give(_)) => Some(Followed::Answer(None)),
            _ => None,
        }
    });
    serve(listener, follow, move || end.load(Ordering::Relaxed)).unwrap();
    Server { port, calls, is_over }
}

fn exchange(server: &Server, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    // A server that has seen enough may reset the connection.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn opening_a_link_answers_nothing_and_its_button_does() {
    let server = server();
    let shown = exchange(&server, b"GET /abc/good/once HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(
        shown.starts_with("HTTP/1.1 200 OK\r\n") && shown.contains("<form method=\"post\">"),
        "{shown}"
    );
    assert!(!shown.contains("<script>") && shown.contains("&lt;script&gt;alert(1)"), "{shown}");
    assert!(shown.contains("in /&quot;&#39;&amp;"), "{shown}");
    assert!(shown.contains("default-src 'none'"), "{shown}");
    let body = "reason=not+now%0a%3cb%3e&x=y";
    let post =
        format!("POST /abc/good/deny HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    assert!(exchange(&server, post.as_bytes()).contains("Your answer counts"));
    let deny = Answer::Deny { reason: Some("not now\n<b>".to_owned()) };
    let calls = server.calls.lock();
    assert_eq!(calls[0], ("abc".to_owned(), "good".to_owned(), Visit::Look(Answer::Once)));
    assert_eq!(calls[1], ("abc".to_owned(), "good".to_owned(), Visit::Give(deny)));
}

#[test]
fn other_paths_methods_and_heads_reach_no_question() {
    let server = server();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /abc/good HTTP/1.1\r\n\r\n", "404"),
        (b"GET /abc/good/once/more HTTP/1.1\r\n\r\n", "404"),
        (b"GET /abc/good/sudo HTTP/1.1\r\n\r\n", "404"),
        (b"HEAD /abc/good/once HTTP/1.1\r\n\r\n", "400"),
        (b"PUT /abc/good/once HTTP/1.1\r\n\r\n", "400"),
        (b"POST /abc/good/once HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        (b"POST /abc/good/once HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", "400"),
        (b"POST /abc/good/once HTTP/1.1\r\ncontent-length: -1\r\n\r\n", "400"),
        (b"\0\0\0\r\n\r\n", "400"),
    ] {
        let answer = exchange(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    assert!(server.calls.lock().is_empty());
    let gone = exchange(&server, b"POST /abc/bad/once HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
    assert!(gone.starts_with("HTTP/1.1 410") && gone.contains("no question"), "{gone}");
    let long = [b"GET /", [b'x'; 3 * LARGEST].as_slice()].concat();
    assert!(!exchange(&server, &long).contains("200"));
}

/// What another user of the machine would do to keep a user from answering.
#[test]
fn connections_that_say_nothing_or_little_keep_nobody_out() {
    let server = server();
    let hold = |request: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let _ = stream.write_all(request);
        stream
    };
    let request = b"POST /abc/good/once HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
    let started = Instant::now();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.extend((0..MOST / 2).map(|_| hold(b"")));
        held.extend((0..MOST / 2).map(|_| hold(b"POST /abc/good/once HTTP/1.1\r\n")));
        // Only that many at once are turned away for a moment, until the threads of the oldest have ended.
        while !exchange(&server, request).starts_with("HTTP/1.1 200") {
            assert!(started.elapsed() < PATIENCE / 2, "nobody answers");
        }
    }
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
}
