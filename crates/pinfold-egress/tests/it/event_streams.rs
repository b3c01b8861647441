//! Streams of Bedrock are counted as they pass, and end where a budget does.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Crc;
use pinfold_egress::{Api, CloudPlace, Route, TrustRoots};

use super::budgets::{Limit, post, talk};
use super::support::{Server, TestGateway, read_request, route, status};

/// A message of Amazon's event streams. The gateway's own are compared with the specification by unit tests.
fn message(payload: &str) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc.sum().to_be_bytes()
    };
    let headers = b"\x0d:message-type\x07\x00\x05event";
    let (length, headers_length) = (16 + headers.len() + payload.len(), headers.len());
    let lengths = [length, headers_length].map(|length| u32::try_from(length).unwrap());
    let mut bytes = lengths.map(u32::to_be_bytes).concat();
    bytes.extend_from_slice(&crc(&bytes));
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload.as_bytes());
    bytes.extend_from_slice(&crc(&bytes));
    bytes
}

fn chunk(event: &str) -> Vec<u8> {
    let encoded = STANDARD.encode(event);
    message(&format!("{{\"bytes\":\"{encoded}\",\"p\":\"abc\"}}"))
}

/// An upstream that streams these bytes in pieces, and says how many of them it could send.
fn bedrock(pieces: Vec<Vec<u8>>) -> (Server, Arc<Mutex<usize>>) {
    let sent = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&sent);
    let server = Server::start(move |mut stream| {
        read_request(&mut stream)?;
        let out = stream.get_mut();
        out.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\n\
              Transfer-Encoding: chunked\r\n\r\n",
        )?;
        for piece in &pieces {
            out.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
            out.write_all(piece)?;
            out.write_all(b"\r\n")?;
            *counter.lock().unwrap() += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        out.write_all(b"0\r\n\r\n")
    });
    (server, sent)
}

fn before_bedrock(budget: Arc<Limit>, upstream: &Server) -> TestGateway {
    let cloud = Some(CloudPlace { region: "us-east-1".to_owned(), project: None });
    let address = format!("http://{}", upstream.address);
    let route = Route { api: Api::Bedrock, cloud, ..route("p", &address) };
    TestGateway::under(budget, vec![route], TrustRoots::System)
}

const STREAM: &str = "/model/m/invoke-with-response-stream";

#[test]
fn a_stream_of_bedrock_is_counted_and_ends_at_the_limit() {
    let event = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"TEXT"}}"#;
    let pieces: Vec<_> = talk(event).iter().map(|event| chunk(event)).collect();
    // Messages that span pieces.
    let cut: Vec<_> = pieces.concat().chunks(100).map(<[u8]>::to_vec).collect();
    for pieces in [pieces, cut] {
        let count = pieces.len();
        let (upstream, sent) = bedrock(pieces);
        let budget = Limit::of(1000);
        let gateway = before_bedrock(Arc::clone(&budget), &upstream);
        let answer = post(&gateway, STREAM);
        assert_eq!(status(&answer), 200);
        assert!(answer.contains(":exception-type") && answer.contains("throttlingException"));
        assert!(
            answer.contains("{\"message\":\"pinfold: the budget of 1000 tokens is spent; tomorrow")
        );
        assert!(answer.ends_with("0\r\n\r\n"), "it ends as a stream does");
        assert!(*sent.lock().unwrap() < count, "the upstream is let go");
        let used = *budget.used.lock().unwrap();
        assert!((1000..=1300).contains(&used), "{used}");
        assert_eq!(status(&post(&gateway, STREAM)), 429);
        assert_eq!(upstream.connections(), 1);
    }

    let whole = [
        chunk(
            r#"{"type":"message_start","message":{"model":"m-2","usage":{"input_tokens":9,"output_tokens":1}}}"#,
        ),
        chunk(r#"{"type":"message_delta","usage":{"output_tokens":5}}"#),
        chunk(
            r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":9,"outputTokenCount":5}}"#,
        ),
    ];
    let (upstream, _) = bedrock(whole.to_vec());
    let budget = Limit::of(1_000_000);
    let gateway = before_bedrock(Arc::clone(&budget), &upstream);
    post(&gateway, STREAM);
    assert_eq!(gateway.journal.lines()[1], "usage p m 9 5");
    assert_eq!((*budget.used.lock().unwrap(), *budget.reserved.lock().unwrap()), (14, 0));
}

#[test]
fn a_stream_of_bedrock_that_cannot_be_read_ends_where_tokens_are_limited() {
    let good = chunk(r#"{"type":"content_block_delta","delta":{"text":"hello"}}"#);
    let mut wrong = good.clone();
    wrong[20] ^= 1;
    let huge = [u32::MAX.to_be_bytes(), [0; 4], [0; 4]].concat();
    for bad in [wrong, huge, b"data: {\"usage\":{}}\n\n".to_vec()] {
        let pieces = vec![good.clone(), bad, vec![b'x'; 100_000], vec![b'x'; 100_000]];
        let (upstream, _) = bedrock(pieces);
        let budget = Limit::of(1_000_000);
        let gateway = before_bedrock(Arc::clone(&budget), &upstream);
        let answer = post(&gateway, STREAM);
        assert!(
            answer.contains("an answer whose stream cannot be read cannot be counted"),
            "{answer}"
        );
        assert!(answer.len() < 10_000 && answer.ends_with("0\r\n\r\n"));
        assert!(*budget.used.lock().unwrap() >= 200, "what a model may have said until then");
        assert_eq!(*budget.reserved.lock().unwrap(), 0);
    }
}
