//! What the fuzz targets call, as that of the network door. Not in any build that serves.

use std::convert::Infallible;

use bytes::Bytes;
use serde_json::Value;

use super::model::Scan;
use super::usage::Reader;

/// The model of a request is found the same however its body is cut, and is the one that a server
/// finds there.
///
/// # Panics
/// When it is not.
pub fn model(bytes: &[u8], cut: usize) {
    let read = |parts: &[&[u8]]| {
        let (mut scan, mut found) = (Scan::default(), None);
        for part in parts {
            found = scan.push(part).map_err(|why| why.to_string())?.map(str::to_owned);
        }
        Ok::<_, String>(found)
    };
    let whole = read(&[bytes]);
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(read(&[first, second]), whole, "{}", bytes.escape_ascii());
    let Ok(Value::Object(object)) = serde_json::from_slice(bytes) else { return };
    let names = object.iter().filter(|(key, _)| key.eq_ignore_ascii_case("model"));
    for (_, value) in names {
        if let Ok(found) = &whole {
            assert_eq!(value.as_str(), found.as_deref(), "{}", bytes.escape_ascii());
        }
    }
}

/// What an answer used is read the same however it is cut.
///
/// # Panics
/// When it is not.
pub fn usage(content_type: &str, bytes: &[u8], cut: usize) {
    let read = |parts: [&[u8]; 2]| {
        let mut reader = Reader::new(content_type, false, true)?;
        for part in parts {
            let piece = Bytes::copy_from_slice(part);
            let Ok(()) = reader.push(&piece, |_, _| Ok::<_, Infallible>(()));
        }
        let model = reader.model().map(str::to_owned);
        Some((reader.end(400, true), model))
    };
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(read([first, second]), read([bytes, b""]), "{}", bytes.escape_ascii());
}
