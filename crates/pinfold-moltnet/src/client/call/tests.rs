use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use pinfold_egress::WayOut;

use super::*;

/// Bytes that no server should repeat.
const TOKEN: &str = "token-canary";
const SECRET: &str = "secret-canary";

/// Returns calls with a client's secret to a server that answers a path so, and never where it has no answer.
fn calls(patience: Duration, answer: fn(&str) -> Option<String>) -> Calls {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap(), answer));
        }
    });
    let file = format!(r#"{{"oauth2":{{"client_id":"i","client_secret":"{SECRET}"}}}}"#);
    let credentials = Credentials::of_moltnet(file.as_bytes(), Path::new("moltnet.json")).unwrap();
    let api = ApiClient::new(&address, WayOut::default()).unwrap();
    Calls::new(api, credentials, None, Scope::OF_A_READER, patience)
}

fn serve(stream: TcpStream, answer: fn(&str) -> Option<String>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or(0) > 0 {
        let path = line.split(' ').nth(1).unwrap().to_owned();
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let Some(answer) = answer(&path) else { continue };
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        line.clear();
    }
}

fn http(status: &str, body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

fn granted() -> Option<String> {
    http("200 OK", &format!(r#"{{"access_token":"{TOKEN}","expires_in":3600}}"#))
}

#[test]
fn call_takes_no_longer_than_it_may_whatever_the_server_does() {
    let patience = Duration::from_millis(500);
    let answers: [fn(&str) -> Option<String>; 3] = [
        // No token, for which all others wait; no answer; and an answer that is to be waited for.
        |_| None,
        |path| if path == "/oauth2/token" { granted() } else { None },
        |path| {
            let late = http("429 Too Many Requests\r\nretry-after: 9999999", "{}");
            if path == "/oauth2/token" { granted() } else { late }
        },
    ];
    for answer in answers {
        let calls = &calls(patience, answer);
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| calls.send(&Call::get("/x")).unwrap_err());
            }
        });
        assert!(begun.elapsed() < patience * 4, "{:?}", begun.elapsed());
    }
}

#[test]
fn errors_of_a_server_that_repeats_secrets_hold_none() {
    let calls = calls(Duration::from_secs(10), |path| {
        let title = format!("{TOKEN} {SECRET} secret\\u001b-canary \\u001b[2J");
        let body = format!(r#"{{"title":"{title}","detail":"{TOKEN}"}}"#);
        if path == "/oauth2/token" { granted() } else { http("400 Bad Request", &body) }
    });
    let error = calls.send(&Call::get("/x")).unwrap_err().to_string();
    assert_eq!(error, "HTTP 400: … … … [2J: …");
}
