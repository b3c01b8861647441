//! Lines that are messages and lines that are not, and the description of the API.

use serde_json::json;

use crate::{Fault, Message, code, schema};

mod page;

#[test]
fn messages_are_what_they_were_after_they_crossed() {
    let messages = [
        Message::Request { id: json!(1), method: "m".to_owned(), params: json!({ "a": 1 }) },
        Message::Notification { method: "m".to_owned(), params: json!(null) },
        Message::Response { id: json!("x"), result: Ok(json!(null)) },
        Message::Response { id: json!(null), result: Err(Fault::new(code::PARSE, "no")) },
    ];
    for message in messages {
        let line = serde_json::to_vec(&message).expect("JSON");
        assert_eq!(Message::read(&line).expect("a message"), message);
    }
}

#[test]
fn malformed_message_gets_the_right_fault() {
    for (line, expected) in [
        (&b"{"[..], code::PARSE),
        (b"\xff", code::PARSE),
        (b"", code::PARSE),
        (b"[]", code::REQUEST),
        (br#" ["2.0", 1, "m", {}]"#, code::REQUEST),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, code::REQUEST),
        (b"[[[", code::PARSE),
        (b"1", code::REQUEST),
        (br#"{"id":1,"method":"m"}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":1}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","method":1}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"m"}"#, code::REQUEST),
        (br#"{"jsonrpc":"2.0","id":1e999,"method":"m"}"#, code::PARSE),
    ] {
        let (_, fault) = Message::read(line).expect_err("a fault");
        assert_eq!(fault.code, expected, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn the_descriptions_that_are_kept_are_those_of_this_code() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let description = schema();
    for (file, now) in [
        ("schema/api.json", format!("{description:#}\n")),
        ("docs/reference/api.md", page::page(&description)),
    ] {
        let path = format!("{root}{file}");
        if std::env::var_os("PINFOLD_UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &now).expect("written");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == now, "{file}: run the tests once with PINFOLD_UPDATE_SCHEMA=1");
    }
}
