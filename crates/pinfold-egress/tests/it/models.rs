//! Only the models that are listed can be asked for.

use std::io::{BufReader, Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_egress::{Api, Route, TrustRoots};

use super::support::{OK, Pen, Server, header, json, read_head, route, status};

fn pen(api: Api, models: &[&str]) -> (Pen, Arc<Mutex<Vec<String>>>) {
    let (upstream, seen) = Server::answering(OK);
    let models = Some(models.iter().map(|model| (*model).to_owned()).collect());
    let address = format!("http://{}", upstream.address);
    let pen = Pen::with(vec![Route { api, models, ..route("p", &address) }], TrustRoots::System);
    (pen, seen)
}

fn post(pen: &Pen, path: &str, headers: &str, body: &str) -> String {
    let (key, length) = (&pen.key, body.len());
    pen.raw(
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n{headers}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .as_bytes(),
    )
}

#[test]
fn a_model_is_read_from_the_body_of_each_api() {
    for (api, path) in [
        (Api::Anthropic, "/v1/messages"),
        (Api::OpenAi, "/v1/chat/completions"),
        (Api::OpenAi, "/p/p/v1/responses"),
    ] {
        let (pen, seen) = pen(api, &["good-1", "fine-*"]);
        for (model, expected) in [("good-1", 200), ("fine-x", 200), ("bad", 403), ("good-10", 403)]
        {
            let body = format!(r#"{{"messages":[{{"model":"good-1"}}],"model":"{model}"}}"#);
            let answer = post(&pen, path, "", &body);
            assert_eq!(status(&answer), expected, "{path} {model}");
            if expected == 403 {
                let message = json(&answer)["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains("good-1, fine-*"), "{message}");
                assert_eq!(header(&answer, "x-should-retry"), Some("false"));
            }
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[0].ends_with(r#""model":"good-1"}"#), "it arrives whole: {}", seen[0]);
    }
}

#[test]
fn a_model_of_geminis_is_read_from_the_path() {
    let (pen, seen) = pen(Api::Gemini, &["gemini-2.5-flash"]);
    let ask = |model: &str| {
        post(&pen, &format!("/v1beta/models/{model}:generateContent?key=inside"), "", "{}")
    };
    assert_eq!(status(&ask("gemini-2.5-flash")), 200);
    let refused = ask("gemini-2.5-pro");
    assert_eq!(status(&refused), 403);
    assert_eq!(json(&refused)["error"]["status"], "PERMISSION_DENIED");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("POST /v1beta/models/gemini-2.5-flash:generateContent HTTP"));
    assert!(
        header(&seen[0], "x-goog-api-key").is_some() && header(&seen[0], "x-api-key").is_none()
    );
}

#[test]
fn a_request_that_hides_its_model_is_refused() {
    let (pen, seen) = pen(Api::OpenAi, &["good"]);
    let late = format!(r#"{{"input":"{}","model":"good"}}"#, "x".repeat(2 << 20));
    for (headers, body) in [
        ("", r#"{"model":"good","model":"bad"}"#),
        ("", r#"{"input":"x"}"#),
        ("", r#"{"requests":[{"model":"good"}]}"#),
        ("", "model=good"),
        ("Content-Encoding: zstd\r\n", r#"{"model":"good"}"#),
    ] {
        let answer = post(&pen, "/v1/responses", headers, body);
        assert_eq!(status(&answer), 403, "{body}");
    }
    assert_eq!(sent_slowly(&pen, &late).0, 403);
    assert!(seen.lock().unwrap().is_empty());
    assert_eq!(status(&pen.get("/v1/models", "")), 200, "what names no model asks for none");
}

/// Sends a body that is not read to its end: its rest may meet a connection that is closed.
fn sent_slowly(pen: &Pen, body: &str) -> (u16, String) {
    let mut stream = pen.connect();
    let (key, length) = (&pen.key, body.len());
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let body = body.to_owned();
    let sender = std::thread::spawn(move || sending.write_all(body.as_bytes()));
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader).unwrap();
    let mut body = vec![0; header(&head, "content-length").unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    drop(reader);
    let _ = sender.join();
    (status(&head), String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn a_second_model_behind_a_long_body_cuts_it_off() {
    let (pen, seen) = pen(Api::OpenAi, &["good"]);
    let body = format!(r#"{{"model":"good","input":"{}","model":"bad"}}"#, "x".repeat(3 << 20));
    let (status, answer) = sent_slowly(&pen, &body);
    assert_eq!(status, 403, "{answer}");
    assert!(answer.contains("two models"), "{answer}");
    assert!(seen.lock().unwrap().is_empty(), "the upstream never had a whole request");
}

#[test]
fn a_long_body_is_not_held_back_once_its_model_is_known() {
    let (arrived, wait) = std::sync::mpsc::channel();
    let upstream = Server::start(move |mut stream| {
        read_head(&mut stream)?;
        let mut first = [0; 15];
        stream.read_exact(&mut first)?;
        arrived.send(first).unwrap();
        Ok(())
    });
    let models = Some(vec!["good".to_owned()]);
    let address = format!("http://{}", upstream.address);
    let pen = Pen::with(vec![Route { models, ..route("p", &address) }], TrustRoots::System);
    let mut stream = pen.connect();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\n\
         Content-Length: 9000000\r\n\r\n{{\"model\":\"good\",",
        pen.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let first = wait.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(&first, b"{\"model\":\"good\"");
}

#[test]
fn responses_over_a_websocket_are_sent_back_to_http() {
    let (upstream, seen) = Server::answering(OK);
    let open = Pen::before(upstream.address);
    let (listed, also_seen) = pen(Api::OpenAi, &["good"]);
    for (pen, path) in [(&open, "/v1/responses"), (&listed, "/v1/realtime?model=good")] {
        let mut stream = pen.connect();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n",
            pen.key
        );
        stream.write_all(head.as_bytes()).unwrap();
        let head = read_head(&mut BufReader::new(stream)).unwrap();
        assert_eq!(status(&head), 426, "{path}");
    }
    assert!(seen.lock().unwrap().is_empty() && also_seen.lock().unwrap().is_empty());
}
