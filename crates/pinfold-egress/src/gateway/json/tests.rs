use super::*;

fn written(text: &str) -> Result<(String, Request), Invalid> {
    let mut bytes = text.as_bytes().to_vec();
    let request = rewrite(&mut bytes)?;
    Ok((String::from_utf8(bytes).unwrap(), request))
}

fn models(text: &str) -> Vec<String> {
    let (written, request) = written(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    assert_eq!(request.unclear, None, "{text}");
    assert_eq!(self::written(&written).unwrap().0, written, "it is left as it is: {text}");
    [request.models, request.of_parts].concat()
}

#[test]
fn a_body_is_written_in_one_form_with_its_numbers_and_order() {
    for (text, expected) in [
        (" { \"b\" : 1 ,\t\"a\":[ ]\r\n} \n", r#"{"b":1,"a":[]}"#),
        (r#"{"a":[1.50,-0,1E+400,12345678901234567890,0.1e-9]}"#, ""),
        (r#"{"mod\u0065l":"\u006d\/\u00e9\ud83d\ude00"}"#, "{\"model\":\"m/é😀\"}"),
        (
            r#"{"a":"\u0000\u001F\u0008\u000a\"\u0022\u005c\\"}"#,
            r#"{"a":"\u0000\u001f\b\n\"\"\\\\"}"#,
        ),
        ("{\"a\":\"é\u{2028}\u{7f}\",\"\":{}}", ""),
        (r#"{"a":[true,false,null,{"a":{"a":[[]]}}]}"#, ""),
    ] {
        let expected = if expected.is_empty() { text } else { expected };
        assert_eq!(written(text).unwrap().0, expected);
    }
}

#[test]
fn lenient_json_is_refused() {
    for text in [
        "",
        " ",
        "null",
        "[]",
        "\"a\"",
        "1",
        "{",
        "}",
        "{}}",
        "{}{}",
        "{} x",
        "{]",
        "[}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":[1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":-}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":0x1}",
        "{\"a\":True}",
        "{\"a\":nul}",
        "{\"a\":nullx}",
        "{\"a\":1x}",
        "{\"a\":\"b}",
        "{\"a\":\"b\\\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\0\"}",
        "{\"a\":1}\0",
        "\u{feff}{}",
        "{}\u{feff}",
        "{\u{a0}}",
        "{/**/}",
        "{\"a\":1}//",
        "{\u{b}}",
        "model=good",
        "{\"a\":1\u{c}}",
        "{\"a\":\"\\x41\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u+123\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud800x\"}",
        "{\"a\":\"\\'\"}",
        "{\"\\ud800\":1}",
        "{\"a\":\"\\U0041\"}",
        "{\"a\":\"\\",
    ] {
        assert!(written(text).is_err(), "{text:?}");
    }
    for bytes in [
        &b"{\"a\":\"\xc3\"}"[..],
        b"{\"a\":\"\xc0\xae\"}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        b"\xff\xfe{",
    ] {
        assert!(rewrite(&mut bytes.to_vec()).is_err(), "{}", bytes.escape_ascii());
    }
    let encoded = |text: &str, width: usize, is_big: bool| -> Vec<u8> {
        let pad = |byte: u8| {
            let mut unit = vec![0; width];
            unit[if is_big { width - 1 } else { 0 }] = byte;
            unit
        };
        text.bytes().flat_map(pad).collect()
    };
    for (width, is_big) in [(2, false), (2, true), (4, false), (4, true)] {
        assert!(rewrite(&mut encoded(r#"{"model":"good"}"#, width, is_big)).is_err());
    }
}

#[test]
fn a_key_that_comes_twice_is_refused_at_every_level() {
    for text in [
        r#"{"model":"m","model":"m"}"#,
        r#"{"model":"m","mod\u0065l":"n"}"#,
        r#"{"a":{"b":[{"c":1,"d":2,"c":3}]}}"#,
        r#"{"a":1,"b":{"a":1},"a":2}"#,
        r#"{"":1,"":2}"#,
        "{\"\\u00e9\":1,\"é\":2}",
        // What some servers take for the same.
        r#"{"model":"m","Model":"n"}"#,
        r#"{"max_tokens":1,"maxTokens":9}"#,
        r#"{"generationConfig":{},"generation_config":{}}"#,
        r#"{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":9}}"#,
        "{\"models\":[],\"model\u{17f}\":[\"n\"]}",
        "{\"background\":false,\"bac\u{212a}ground\":true}",
    ] {
        assert!(matches!(written(text), Err(Invalid::Twice(_))), "{text}");
    }
    assert!(written(r#"{"a":{"b":1},"b":[{"a":1},{"a":2}],"A":1}"#).is_ok());
}

#[test]
fn depth_and_open_keys_are_bounded() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(written(&nested(DEEPEST - 1)).is_ok());
    assert_eq!(written(&nested(DEEPEST)), Err(Invalid::Deep));
    let keys = |count: usize| {
        let keys: Vec<String> = (0..count).map(|key| format!("\"{key}\":0")).collect();
        format!("{{{}}}", keys.join(","))
    };
    assert!(written(&keys(MOST_KEYS)).is_ok());
    assert_eq!(written(&keys(MOST_KEYS + 1)), Err(Invalid::Keys));
}

#[test]
fn every_model_that_a_body_names_is_found() {
    for (text, expected) in [
        (r#"{"messages":[{"model":"x"}],"mod\u0065l":"m"}"#, &["m"][..]),
        (r#"{"a":{"model":"y"},"MODEL":"m"}"#, &["m"]),
        (r#"{"a":["model","m"],"b":{"model":"m"}}"#, &[]),
        (r#"{"model":"m","models":["n","m","o"]}"#, &["m", "n", "o"]),
        (r#"{"model":"m","models":"n"}"#, &["m", "n"]),
        (r#"{"model":"m","fallbacks":["n"],"fallback":"o"}"#, &["m", "n", "o"]),
        (r#"{"model":"m","context_window_fallbacks":["n"],"models":null}"#, &["m", "n"]),
        (
            r#"{"model":"m","tools":[{"type":"advisor","model":"n"},{"function":{"model":"x"}}]}"#,
            &["m", "n"],
        ),
        (r#"{"requests":[{"model":"models/a"},{"Model":"models/b"}]}"#, &["models/a", "models/b"]),
        (r#"{"generateContentRequest":{"model":"models/a"}}"#, &["models/a"]),
        (
            r#"{"model":"m","tools":[{"name":"t","input_schema":{"properties":{"model":{"type":"string"}}}}]}"#,
            &["m"],
        ),
    ] {
        assert_eq!(models(text), expected, "{text}");
    }
    for text in [
        r#"{"model":null}"#,
        r#"{"model":["m"]}"#,
        r#"{"model":{"m":1}}"#,
        r#"{"model":""}"#,
        r#"{"model":"m,n"}"#,
        r#"{"model":"m n"}"#,
        r#"{"model":"m\u0000n"}"#,
        r#"{"model":"m","models":[["n"]]}"#,
        r#"{"model":"m","models":[{"n":1}]}"#,
        r#"{"model":"m","models":{"n":1}}"#,
        r#"{"model":"m","fallbacks":[{"m":["n"]}]}"#,
        r#"{"model":"m","fallbacks":true}"#,
        r#"{"model":"m","preset":"p"}"#,
        r#"{"model":"m","router_settings_override":{"fallbacks":[]}}"#,
    ] {
        assert!(written(text).unwrap().1.unclear.is_some(), "{text}");
    }
}

#[test]
fn the_largest_answer_is_what_a_body_asks_for() {
    for (text, expected) in [
        ("{}", 32 * 1024),
        (r#"{"max_tokens":100}"#, 100),
        (r#"{"max_tokens":100,"max_completion_tokens":200}"#, 200),
        (r#"{"max_output_tokens":1e3}"#, 1000),
        (r#"{"max_output_tokens":99999999999999999999999}"#, 1_000_000),
        (r#"{"max_tokens":1e999}"#, 1_000_000),
        (r#"{"max_tokens":-1}"#, 32 * 1024),
        (r#"{"max_tokens":null}"#, 32 * 1024),
        (r#"{"max_tokens":10,"n":4}"#, 40),
        (r#"{"generationConfig":{"maxOutputTokens":7,"candidateCount":3}}"#, 21),
        (r#"{"inferenceConfig":{"maxTokens":9}}"#, 9),
        (r#"{"messages":[{"max_tokens":1}],"max_tokens":5}"#, 5),
    ] {
        assert_eq!(written(text).unwrap().1.most_output(), expected, "{text}");
    }
    for (text, expected) in [
        (r#"{"background":true}"#, true),
        (r#"{"background":1}"#, true),
        (r#"{"background":"true"}"#, true),
        (r#"{"deferred":true}"#, true),
        (r#"{"background":false}"#, false),
        (r#"{"background":null}"#, false),
        (r#"{"a":{"background":true}}"#, false),
    ] {
        assert_eq!(written(text).unwrap().1.is_deferred, expected, "{text}");
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                proptest::collection::btree_map("[a-z\"\\\\\u{0}é]{0,4}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn body_says_the_same_after_it_was_rewritten(value in value(), is_pretty in any::<bool>()) {
            let body = serde_json::json!({ "a": value });
            let text = if is_pretty {
                serde_json::to_string_pretty(&body).unwrap()
            } else {
                body.to_string()
            };
            let (written, _) = written(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), body);
        }

        #[test]
        fn what_is_taken_is_what_serde_takes(text in "[\\[\\]{}\",:\\\\u0-9aeE.+ -]{0,40}") {
            let ours = written(&format!("{{\"a\":{text}}}"));
            let theirs = serde_json::from_str::<serde_json::Value>(&format!("{{\"a\":{text}}}"));
            if ours.is_ok() {
                // It has no numbers beyond its own.
                let is_number = theirs.as_ref().is_err_and(|why| why.to_string().contains("number"));
                prop_assert!(theirs.is_ok() || is_number, "{}", text);
            }
        }
    }
}
