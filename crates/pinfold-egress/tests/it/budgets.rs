//! What answers use is counted as they pass, and ends where a budget does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_egress::{Api, Budget, Over, Route, TrustRoots};
use pinfold_policy::prices::Tokens;

use super::support::{Pen, Server, header, json, read_head, read_request, route, status};

/// So many tokens for all.
struct Limit {
    tokens: u64,
    used: Mutex<u64>,
}

impl Limit {
    fn of(tokens: u64) -> Arc<Self> {
        Arc::new(Self { tokens, used: Mutex::new(0) })
    }

    fn over(&self, is_over: bool) -> Result<(), Over> {
        let (what, reset) =
            (format!("the budget of {} tokens", self.tokens), "tomorrow".to_owned());
        let after = Some(Duration::from_secs(60));
        if is_over { Err(Over::Spent { what, reset, after }) } else { Ok(()) }
    }
}

impl Budget for Limit {
    fn needs_model(&self) -> bool {
        false
    }

    fn limits_answers(&self) -> bool {
        true
    }

    fn admit(&self, _: Option<&str>) -> Result<(), Over> {
        self.over(*self.used.lock().unwrap() >= self.tokens)
    }

    fn spend(&self, _: Option<&str>, before: &Tokens, now: &Tokens) -> Result<(), Over> {
        let mut used = self.used.lock().unwrap();
        *used = *used + now.sum() - before.sum();
        self.over(*used > self.tokens)
    }

    fn cost(&self, _: &str, _: &Tokens) -> Option<u64> {
        None
    }
}

fn pen(budget: Arc<Limit>, api: Api, upstream: &Server) -> Pen {
    let address = format!("http://{}", upstream.address);
    Pen::under(budget, vec![Route { api, ..route("p", &address) }], TrustRoots::System)
}

fn post(pen: &Pen, path: &str) -> String {
    let key = &pen.key;
    pen.raw(
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\naccept-encoding: gzip\r\n\
             Content-Length: 13\r\nConnection: close\r\n\r\n{{\"model\":\"m\"}}"
        )
        .as_bytes(),
    )
}

/// An upstream that answers with a stream of these events, each in a piece of its own, and says
/// how many it could send.
fn streaming(events: Vec<String>) -> (Server, Arc<Mutex<usize>>) {
    let sent = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&sent);
    let server = Server::start(move |mut stream| {
        let request = read_request(&mut stream)?;
        assert_eq!(header(&request, "accept-encoding"), Some("identity"));
        let out = stream.get_mut();
        out.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        for event in &events {
            let frame = format!("data: {event}\n\n");
            out.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes())?;
            *counter.lock().unwrap() += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        out.write_all(b"0\r\n\r\n")
    });
    (server, sent)
}

/// Events that say 20 tokens each, 200 of them.
fn talk(event: &str) -> Vec<String> {
    let text = "x".repeat(80);
    (0..200).map(|_| event.replace("TEXT", &text)).collect()
}

#[test]
fn a_stream_ends_at_the_limit_with_an_error_in_its_own_form() {
    let messages = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"TEXT"}}"#;
    let chat = r#"{"choices":[{"delta":{"content":"TEXT"}}]}"#;
    let responses = r#"{"type":"response.output_text.delta","delta":"TEXT"}"#;
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"TEXT"}]}}]}"#;
    for (api, path, event, error) in [
        (Api::Anthropic, "/v1/messages", messages, "event: error\ndata: {\"error\":{\"message\""),
        (
            Api::OpenAi,
            "/v1/chat/completions",
            chat,
            "data: {\"error\":{\"code\":\"insufficient_quota\"",
        ),
        (
            Api::OpenAi,
            "/v1/responses",
            responses,
            "event: response.failed\ndata: {\"response\":{\"error\"",
        ),
        (
            Api::Gemini,
            "/v1beta/models/m:streamGenerateContent",
            gemini,
            "data: {\"error\":{\"code\":429",
        ),
    ] {
        let (upstream, sent) = streaming(talk(event));
        let budget = Limit::of(1000);
        let pen = pen(Arc::clone(&budget), api, &upstream);
        let answer = post(&pen, path);
        assert_eq!(status(&answer), 200);
        assert!(answer.contains(error), "{path}: {}", &answer[answer.len() - 500..]);
        assert!(answer.contains("the budget of 1000 tokens is spent; tomorrow"));
        assert!(answer.ends_with("0\r\n\r\n"), "it ends as a stream does");
        assert!(*sent.lock().unwrap() < 200, "the upstream is let go");
        let used = *budget.used.lock().unwrap();
        assert!((1000..=1300).contains(&used), "{used}");
        // The next request is refused before it is sent.
        let refused = post(&pen, path);
        assert_eq!((status(&refused), header(&refused, "retry-after")), (429, Some("60")));
        assert_eq!(header(&refused, "x-should-retry"), Some("false"));
        let message = json(&refused)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("1000 tokens is spent; tomorrow"), "{message}");
        assert_eq!(upstream.connections(), 1);
    }
}

#[test]
fn usage_is_recorded_whatever_the_answers_form() {
    let whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 67\r\n\r\n\
                 {\"model\":\"m-1\",\"usage\":{\"input_tokens\":1000000,\"output_tokens\":20}}";
    let (upstream, _) = Server::answering(whole);
    let pen = Pen::before(upstream.address);
    let answer = post(&pen, "/v1/messages");
    assert!(answer.ends_with("\"output_tokens\":20}}"), "{answer}");
    assert_eq!(pen.journal.lines()[1], "usage anthropic m-1 1000000 20");

    let events = [
        r#"{"type":"message_start","message":{"model":"m-2","usage":{"input_tokens":9,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":5}}"#,
    ];
    let (upstream, _) = streaming(events.map(str::to_owned).to_vec());
    let pen = Pen::before(upstream.address);
    post(&pen, "/v1/messages");
    assert_eq!(pen.journal.lines()[1], "usage anthropic m-2 9 5");
    let (upstream, _) = streaming(events.map(str::to_owned).to_vec());
    let pen = Pen::before(upstream.address);
    post(&pen, "/v1/messages/count_tokens");
    assert_eq!(pen.journal.lines().len(), 1, "what only counts uses none");
}

#[test]
fn what_was_used_until_a_client_left_counts() {
    let event = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"TEXT"}}"#;
    let (upstream, _) = streaming(talk(event));
    let budget = Limit::of(1_000_000);
    let pen = pen(Arc::clone(&budget), Api::Anthropic, &upstream);
    let mut stream = pen.connect();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: 2\r\n\r\n{{}}",
        pen.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    read_head(&mut reader).unwrap();
    let mut line = String::new();
    while !line.starts_with("data:") {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    drop(reader);
    while !pen.journal.lines().iter().any(|line| line.starts_with("usage")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let used = *budget.used.lock().unwrap();
    assert!((20..4000).contains(&used), "{used}");
    assert!(pen.journal.lines()[1].ends_with(" estimated"));
}

#[test]
fn a_stream_passes_as_it_comes_while_it_is_counted() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        let out = stream.get_mut();
        out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"a")?;
        let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(10));
        out.write_all(b"\":1}\n\n")
    });
    let pen = pen(Limit::of(1000), Api::Anthropic, &upstream);
    let mut stream = pen.connect();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: 2\r\n\r\n{{}}",
        pen.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    read_head(&mut reader).unwrap();
    let mut first = [0; 12];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"9\r\ndata: {\"a", "half a line is not waited for");
    go.send(()).unwrap();
}
