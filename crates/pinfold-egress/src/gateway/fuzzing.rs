//! What the fuzz targets call, as that of the network door. Not in any build that serves.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::event_stream;
use super::json;
use super::usage::Reader;

/// What is left of a rewritten body is what a server finds in it, and stays as it is when it is rewritten
/// again.
///
/// # Panics
/// When it is not.
pub fn body(bytes: &[u8]) {
    let mut text = bytes.to_vec();
    let Ok(request) = json::rewrite(&mut text) else { return };
    let escaped = bytes.escape_ascii();
    let before: Result<Value, _> = serde_json::from_slice(bytes);
    let after: Result<Value, _> = serde_json::from_slice(&text);
    // Numbers that are too large for `serde_json` pass as they are.
    if let (Ok(before), Ok(after)) = (&before, &after) {
        assert_eq!(before, after, "{escaped}");
    }
    assert_eq!(before.is_ok(), after.is_ok(), "{escaped}");
    if let Ok(Value::Object(object)) = &after {
        let names = object.iter().filter(|(key, _)| key.eq_ignore_ascii_case("model"));
        for (_, value) in names {
            let is_known =
                value.as_str().is_some_and(|name| request.models.iter().any(|m| m == name));
            assert!(is_known || request.unclear.is_some(), "{escaped}");
        }
    }
    let mut again = text.clone();
    assert_eq!(json::rewrite(&mut again), Ok(request), "{escaped}");
    assert_eq!(again, text, "{escaped}");
}

/// Does the same for messages of Amazon's event streams with these payloads, each in Base64 as Bedrock
/// has them and as it is, so that their checksums are right.
///
/// # Panics
/// When it is not.
pub fn event_stream(bytes: &[u8], cut: usize) {
    usage(event_stream::CONTENT_TYPE, bytes, cut);
    let mut stream = Vec::new();
    for payload in bytes.split(|byte| *byte == 0) {
        let encoded = json!({"bytes": STANDARD.encode(payload)}).to_string();
        for payload in [payload, encoded.as_bytes()] {
            let headers = [(":event-type", "chunk"), (":message-type", "event")];
            stream.extend_from_slice(&event_stream::message(&headers, payload));
        }
    }
    usage(event_stream::CONTENT_TYPE, &stream, cut);
    stream.extend_from_slice(bytes);
    usage(event_stream::CONTENT_TYPE, &stream, cut);
}

/// What an answer used is read the same however it is cut.
///
/// # Panics
/// When it is not.
pub fn usage(content_type: &str, bytes: &[u8], cut: usize) {
    let read = |parts: [&[u8]; 2]| {
        let mut reader = Reader::new(content_type, false, true, Arc::default())?;
        for part in parts {
            let piece = Bytes::copy_from_slice(part);
            let Ok(()) = reader.push(&piece, |_, _| Ok::<_, Infallible>(()));
        }
        let model = reader.model().map(str::to_owned);
        Some((reader.end(400, true, true), model))
    };
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(read([first, second]), read([bytes, b""]), "{}", bytes.escape_ascii());
}
