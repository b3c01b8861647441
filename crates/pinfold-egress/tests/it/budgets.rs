//! What answers use is counted as they pass, and ends where a budget does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_egress::{Api, Budget, Over, Route, TrustRoots};
use pinfold_policy::prices::Tokens;

use super::support::{
    OK, Server, TestGateway, header, json, read_head, read_request, route, status,
};

/// So many tokens for all.
pub(super) struct Limit {
    tokens: u64,
    pub(super) used: Mutex<u64>,
    pub(super) reserved: Mutex<u64>,
    requests: Mutex<u64>,
}

impl Limit {
    pub(super) fn of(tokens: u64) -> Arc<Self> {
        Arc::new(Self {
            tokens,
            used: Mutex::default(),
            reserved: Mutex::default(),
            requests: Mutex::default(),
        })
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

    fn limits_requests(&self) -> bool {
        false
    }

    fn limits_answers(&self) -> bool {
        true
    }

    fn admit(&self, _: Option<&str>, reserved: &Tokens) -> Result<(), Over> {
        let (used, mut all) = (*self.used.lock().unwrap(), self.reserved.lock().unwrap());
        self.over(used + *all >= self.tokens)?;
        *self.requests.lock().unwrap() += 1;
        *all += reserved.sum();
        Ok(())
    }

    fn release(&self, _: Option<&str>, reserved: &Tokens) {
        *self.reserved.lock().unwrap() -= reserved.sum();
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

fn gateway(budget: Arc<Limit>, api: Api, upstream: &Server) -> TestGateway {
    let address = format!("http://{}", upstream.address);
    TestGateway::under(budget, vec![Route { api, ..route("p", &address) }], TrustRoots::System)
}

pub(super) fn post(gateway: &TestGateway, path: &str) -> String {
    let key = &gateway.key;
    gateway.raw(
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
pub(super) fn talk(event: &str) -> Vec<String> {
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
        let gateway = gateway(Arc::clone(&budget), api, &upstream);
        let answer = post(&gateway, path);
        assert_eq!(status(&answer), 200);
        assert!(answer.contains(error), "{path}: {}", &answer[answer.len() - 500..]);
        assert!(answer.contains("the budget of 1000 tokens is spent; tomorrow"));
        assert!(answer.ends_with("0\r\n\r\n"), "it ends as a stream does");
        assert!(*sent.lock().unwrap() < 200, "the upstream is let go");
        let used = *budget.used.lock().unwrap();
        assert!((1000..=1300).contains(&used), "{used}");
        // The next request is refused before it is sent.
        let refused = post(&gateway, path);
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
    let gateway = TestGateway::before(upstream.address);
    let answer = post(&gateway, "/v1/messages");
    assert!(answer.ends_with("\"output_tokens\":20}}"), "{answer}");
    assert_eq!(gateway.journal.lines()[1], "usage anthropic m-1 1000000 20");

    let events = [
        r#"{"type":"message_start","message":{"model":"m-2","usage":{"input_tokens":9,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":5}}"#,
    ];
    let (upstream, _) = streaming(events.map(str::to_owned).to_vec());
    let gateway = TestGateway::before(upstream.address);
    post(&gateway, "/v1/messages");
    assert_eq!(gateway.journal.lines()[1], "usage anthropic m-2 9 5");
    let (upstream, _) = streaming(events.map(str::to_owned).to_vec());
    let gateway = TestGateway::before(upstream.address);
    post(&gateway, "/v1/messages/count_tokens");
    assert_eq!(gateway.journal.lines().len(), 1, "what only counts uses none");
}

#[test]
fn a_stream_whose_usage_is_in_a_line_that_is_too_long_costs_what_was_reserved() {
    let text = "x".repeat(17 << 20);
    let event = format!(r#"{{"response":{{"text":"{text}","usage":{{"output_tokens":90000}}}}}}"#);
    let (upstream, _) = streaming(vec![event]);
    let budget = Limit::of(1_000_000);
    let gateway = gateway(Arc::clone(&budget), Api::OpenAi, &upstream);
    assert_eq!(status(&post(&gateway, "/v1/responses")), 200);
    let used = *budget.used.lock().unwrap();
    assert!(used >= 32 * 1024 && *budget.reserved.lock().unwrap() == 0, "{used}");
}

#[test]
fn usage_until_a_client_left_counts() {
    let event = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"TEXT"}}"#;
    let (upstream, _) = streaming(talk(event));
    let budget = Limit::of(1_000_000);
    let gateway = gateway(Arc::clone(&budget), Api::Anthropic, &upstream);
    let mut stream = gateway.connect();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: 2\r\n\r\n{{}}",
        gateway.key
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
    while !gateway.journal.lines().iter().any(|line| line.starts_with("usage")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let used = *budget.used.lock().unwrap();
    assert!((20..4000).contains(&used), "{used}");
    assert!(gateway.journal.lines()[1].ends_with(" estimated"));
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
    let gateway = gateway(Limit::of(1000), Api::Anthropic, &upstream);
    let mut stream = gateway.connect();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nContent-Length: 2\r\n\r\n{{}}",
        gateway.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    read_head(&mut reader).unwrap();
    let mut first = [0; 12];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"9\r\ndata: {\"a", "half a line is not waited for");
    go.send(()).unwrap();
}

/// Sends a request and goes once the upstream has it.
fn break_off(gateway: &TestGateway, upstream: &Arc<Mutex<Vec<String>>>, body: &str) {
    let before = upstream.lock().unwrap().len();
    let mut stream = gateway.connect();
    let (key, length) = (&gateway.key, body.len());
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    while upstream.lock().unwrap().len() == before {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An upstream that never answers.
fn silent() -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let remember = Arc::clone(&seen);
    let server = Server::start(move |mut stream| {
        remember.lock().unwrap().push(read_request(&mut stream)?);
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    (server, seen)
}

fn wait_until(is_true: impl Fn() -> bool) {
    for _ in 0..4000 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never was");
}

#[test]
fn a_request_that_is_broken_off_before_its_answer_stays_charged() {
    let (upstream, seen) = silent();
    let budget = Limit::of(100_000);
    let gateway = gateway(Arc::clone(&budget), Api::Anthropic, &upstream);
    break_off(&gateway, &seen, r#"{"model":"m","max_tokens":60000}"#);
    wait_until(|| *budget.used.lock().unwrap() > 0);
    assert_eq!(*budget.used.lock().unwrap(), 60_000 + 32 / 4);
    wait_until(|| *budget.reserved.lock().unwrap() == 0);
    // Without a limit of its own, a usual length is charged.
    break_off(&gateway, &seen, r#"{"model":"m"}"#);
    wait_until(|| *budget.used.lock().unwrap() > 60_008);
    assert_eq!(*budget.used.lock().unwrap(), 60_008 + 32 * 1024 + 3);
    break_off(&gateway, &seen, r#"{"model":"m"}"#);
    wait_until(|| *budget.used.lock().unwrap() > 100_000);
    assert_eq!(status(&post(&gateway, "/v1/messages")), 429);
    let journal = gateway.journal.lines();
    assert!(journal.contains(&"usage p m 8 60000 estimated".to_owned()), "{journal:?}");
}

#[test]
fn requests_at_once_cannot_pass_a_budget_together() {
    let (upstream, seen) = silent();
    let budget = Limit::of(100_000);
    let gateway = gateway(Arc::clone(&budget), Api::Anthropic, &upstream);
    let body = r#"{"model":"m","max_tokens":50000}"#;
    let streams: Vec<_> = (0..6)
        .map(|_| {
            let mut stream = gateway.connect();
            let head = format!(
                "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                gateway.key,
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    wait_until(|| {
        gateway.journal.lines().iter().filter(|line| line.starts_with("denied 429")).count() == 4
    });
    // The other two may still be on their way.
    wait_until(|| seen.lock().unwrap().len() == 2);
    drop(streams);
}

#[test]
fn uncountable_request_is_refused_while_a_budget_is_set() {
    let (upstream, seen) = Server::answering(OK);
    let gateway = gateway(Limit::of(1_000_000), Api::OpenAi, &upstream);
    for (path, body) in [
        ("/v1/responses", r#"{"model":"m","background":true}"#),
        ("/v1/responses", r#"{"model":"m","backgr\u006fund":true}"#),
        ("/v1/responses", r#"{"model":"m","Background":1}"#),
        ("/v1/messages/batches", r#"{"requests":[]}"#),
        ("/v1/messages/b%61tches", r#"{"model":"m","requests":[]}"#),
        ("/v1/batches", r#"{"model":"m"}"#),
        ("/v1/threads/t/runs", r#"{"model":"m"}"#),
        ("/v1/responses", "model=m"),
        ("/v1//responses", r#"{"model":"m"}"#),
    ] {
        let key = &gateway.key;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = gateway.raw(request.as_bytes());
        assert_eq!(status(&answer), 403, "{path} {body}: {answer}");
        assert_eq!(header(&answer, "x-should-retry"), Some("false"));
    }
    let form = post_form(&gateway);
    assert!(form.contains("this request (its body is not a JSON object"), "{form}");
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    assert_eq!(status(&gateway.get("/v1/realtime?model=m", socket)), 426);
    assert!(seen.lock().unwrap().is_empty());
}

fn post_form(gateway: &TestGateway) -> String {
    let key = &gateway.key;
    gateway.raw(
        format!(
            "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
             Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 7\r\n\
             Connection: close\r\n\r\n--x--\r\n"
        )
        .as_bytes(),
    )
}

#[test]
fn an_empty_body_in_chunks_is_none() {
    let (upstream, seen) = Server::answering(OK);
    let budget = Limit::of(1000);
    let gateway = gateway(Arc::clone(&budget), Api::OpenAi, &upstream);
    let request = format!(
        "POST /v1/responses/r_1/cancel HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
        gateway.key
    );
    assert_eq!(status(&gateway.raw(request.as_bytes())), 200);
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert_eq!((*budget.used.lock().unwrap(), *budget.reserved.lock().unwrap()), (0, 0));
}

/// A GET with the right key.
fn fetched(gateway: &TestGateway, path: &str) -> String {
    let answer = gateway.get(path, "");
    assert_eq!(status(&answer), 200, "{answer}");
    answer
}

fn answering(content_type: &str, body: &str) -> Server {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    Server::answering(answer.leak()).0
}

#[test]
fn usage_that_is_fetched_counts_once() {
    let used = r#"{"input_tokens":100,"output_tokens":20}"#;
    let upstream =
        answering("application/json", &format!(r#"{{"id":"r_1","model":"m","usage":{used}}}"#));
    let budget = Limit::of(1000);
    let one = gateway(Arc::clone(&budget), Api::OpenAi, &upstream);
    fetched(&one, "/v1/responses/r_1");
    fetched(&one, "/v1/responses/r_1");
    assert_eq!(*budget.used.lock().unwrap(), 120);
    // What was asked for here is counted with its own answer.
    assert_eq!(status(&post(&one, "/v1/responses")), 200);
    fetched(&one, "/v1/responses/r_1");
    assert_eq!(*budget.used.lock().unwrap(), 240);

    let line = |id: u32| {
        format!(r#"{{"custom_id":"x","result":{{"message":{{"id":"m_{id}","usage":{used}}}}}}}"#)
    };
    let lines = [line(1), line(2), line(1), line(3)].join("\n");
    let upstream = answering("application/x-jsonl", &lines);
    let budget = Limit::of(1000);
    let other = gateway(Arc::clone(&budget), Api::Anthropic, &upstream);
    fetched(&other, "/v1/messages/batches/b/results");
    fetched(&other, "/v1/messages/batches/b/results");
    assert_eq!(*budget.used.lock().unwrap(), 360);
    assert_eq!(*budget.reserved.lock().unwrap(), 0);

    let list = format!(r#"{{"data":[{{"id":"a","usage":{used}}},{{"id":"b","usage":{used}}}]}}"#);
    let upstream = answering("application/json", &list);
    let budget = Limit::of(1000);
    let third = gateway(Arc::clone(&budget), Api::OpenAi, &upstream);
    fetched(&third, "/v1/chat/completions");
    fetched(&third, "/v1/chat/completions");
    assert_eq!(*budget.used.lock().unwrap(), 240);
}

#[test]
fn an_answer_that_does_not_say_what_it_used_is_charged_as_reserved() {
    for (content_type, body) in [
        ("application/json", r#"{"id":"r_1","status":"queued","usage":null}"#),
        ("audio/mpeg", "x"),
    ] {
        let upstream = answering(content_type, body);
        let budget = Limit::of(1_000_000);
        let gateway = gateway(Arc::clone(&budget), Api::OpenAi, &upstream);
        assert_eq!(status(&post(&gateway, "/v1/responses")), 200);
        wait_until(|| *budget.reserved.lock().unwrap() == 0);
        assert_eq!(*budget.used.lock().unwrap(), 32 * 1024 + 3, "{content_type}");
    }
}

#[test]
fn a_request_that_used_nothing_is_given_back() {
    for answer in [
        "HTTP/1.1 529 Overloaded\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
    ] {
        let (upstream, _) = Server::answering(answer);
        let budget = Limit::of(1000);
        let gateway = gateway(Arc::clone(&budget), Api::Anthropic, &upstream);
        assert!(status(&post(&gateway, "/v1/messages")) > 400);
        wait_until(|| *budget.reserved.lock().unwrap() == 0);
        assert_eq!(*budget.used.lock().unwrap(), 0);
    }
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let budget = Limit::of(1000);
    let address = format!("http://127.0.0.1:{gone}");
    let gateway =
        TestGateway::under(budget.clone(), vec![route("p", &address)], TrustRoots::System);
    assert_eq!(status(&post(&gateway, "/v1/messages")), 502);
    assert_eq!((*budget.used.lock().unwrap(), *budget.reserved.lock().unwrap()), (0, 0));
}
