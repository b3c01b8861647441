//! What `JSON.parse` and `JSON.stringify` do.

use std::io::Write as _;

use proptest::prelude::*;

use super::{MOST_DEPTH, Object, Text, Value, read};

fn again(text: &str) -> String {
    read(text).unwrap().to_string()
}

#[test]
fn numbers_are_written_as_javascript_writes_them() {
    for (text, expected) in [
        ("1.0", "1"),
        ("-0", "0"),
        ("-0.0e5", "0"),
        ("1e21", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("123456789012345680000", "123456789012345680000"),
        ("0.000001", "0.000001"),
        ("1e-7", "1e-7"),
        ("1.5e-7", "1.5e-7"),
        ("-12.5E+1", "-125"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("1e400", "null"),
        ("0.1", "0.1"),
        ("9007199254740993", "9007199254740992"),
        ("123456.789", "123456.789"),
        ("568188942425943.25", "568188942425943.2"),
        ("568188942425943.75", "568188942425943.8"),
    ] {
        assert_eq!(again(text), expected, "{text}");
    }
}

#[test]
fn integer_like_keys_come_first_and_a_repeated_key_keeps_its_place() {
    assert_eq!(
        again(r#"{"b":1,"10":2,"2":3,"01":4,"a":5,"b":6,"4294967295":7,"4294967294":8,"-1":9}"#),
        r#"{"2":3,"10":2,"4294967294":8,"b":6,"01":4,"a":5,"4294967295":7,"-1":9}"#
    );
}

#[test]
fn texts_are_escaped_as_javascript_escapes_them() {
    for (text, expected) in [
        (r#""\u0041\/\u00e9\u2028""#, "\"A/é\u{2028}\""),
        (r#""\b\f\n\r\t\u0001\u007f\"\\""#, "\"\\b\\f\\n\\r\\t\\u0001\u{7f}\\\"\\\\\""),
        (r#""\ud83d\ude00""#, "\"😀\""),
        (r#""\uD83D\u0041""#, r#""\ud83dA""#),
        (r#""\ude00\ud83d""#, r#""\ude00\ud83d""#),
        (r#""\ud83d\ud83d\ude00""#, "\"\\ud83d😀\""),
    ] {
        assert_eq!(again(text), expected, "{text}");
    }
    assert_eq!(read(r#""a\ud83d\n""#).unwrap().as_text().unwrap(), "a\u{fffd}\n");
}

#[test]
fn text_that_is_not_json_is_refused() {
    let deep = "[".repeat(100_000);
    for wrong in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "'a'",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "nul",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12",
        "\"",
        "1 2",
        "NaN",
        "Infinity",
        "\u{feff}1",
        "[1 2]",
        "{\"a\" 1}",
        &deep,
    ] {
        assert!(read(wrong).is_err(), "{wrong:.20}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(read(&nested(MOST_DEPTH)).is_ok());
    assert!(read(&nested(MOST_DEPTH + 1)).is_err());
}

#[test]
fn object_of_many_keys_is_read_in_little_time() {
    let keys: Vec<String> = (0..200_000).map(|key| format!("\"k{key}\":0")).collect();
    let text = format!("{{{}}}", keys.join(","));
    assert_eq!(again(&text), text);
}

fn any_text() -> impl Strategy<Value = Text> {
    // Code units of all kinds, as a JavaScript program has them.
    let unit = prop_oneof![0_u16..0x80, 0xd800_u16..0xe000, any::<u16>()];
    proptest::collection::vec(unit, 0..8).prop_map(|units| {
        let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let Ok(Value::Text(text)) = read(&format!("\"{escaped}\"")) else { unreachable!() };
        text
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()),
        any::<i32>().prop_map(f64::from),
        (any::<i64>(), 0_u32..10).prop_map(|(digits, by)| digits as f64 / 10_f64.powi(by as i32)),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(Value::Number),
        any_text().prop_map(Value::Text),
    ];
    let key =
        prop_oneof![any_text(), (0_u64..5_000_000_000).prop_map(|key| Text::new(&key.to_string()))];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        let members = proptest::collection::vec((key.clone(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Value::Array),
            members.prop_map(|members| Value::Object(Object::new(members))),
        ]
    })
}

proptest! {
    #[test]
    fn value_that_is_written_is_read_as_it_was(value in any_value()) {
        let text = value.to_string();
        prop_assert_eq!(read(&text).unwrap().to_string(), text);
    }

    #[test]
    fn reader_never_panics(text in "\\PC{0,40}") {
        let _ = read(&text);
    }
}

/// Asks node for what it makes of many texts at once: to start it for each would take minutes.
#[test]
fn texts_are_what_node_writes() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    const SCRIPT: &str = "const lines = require('fs').readFileSync(0, 'utf8').split('\\n').slice(0, -1); \
         for (const line of lines) console.log(JSON.stringify(JSON.parse(line)));";
    let mut runner = TestRunner::deterministic();
    let numbers = (0..2_000).map(|_| {
        let bits = any::<u64>().new_tree(&mut runner).unwrap().current();
        // More digits than a number keeps.
        format!("{:.25e}", f64::from_bits(bits & 0x7fef_ffff_ffff_ffff))
    });
    let mut texts: Vec<String> = numbers.collect();
    for _ in 0..2_000 {
        texts.push(any_value().new_tree(&mut runner).unwrap().current().to_string());
    }
    #[expect(clippy::disallowed_methods, reason = "a test compares with another program")]
    let node = std::process::Command::new("node")
        .args(["-e", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut node) = node else {
        println!("SKIPPED: no node");
        return;
    };
    let mut input = node.stdin.take().unwrap();
    let sent = texts.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(sent.as_bytes()));
    let output = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    assert_eq!(written.lines().count(), texts.len());
    for (text, expected) in texts.iter().zip(written.lines()) {
        assert_eq!(again(text), expected, "{text}");
    }
}

#[test]
fn indented_text_is_that_of_the_original() {
    let value = read(r#"{"a":[],"b":{},"c":[1,{"d":null}]}"#).unwrap();
    let expected = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": null\n    }\n  ]\n}";
    assert_eq!(value.pretty(), expected);
}
