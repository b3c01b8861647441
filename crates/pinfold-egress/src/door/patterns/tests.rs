use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

/// Returns what a stream becomes, however it is cut: as its whole, except one byte where a piece ends
/// right behind it.
fn scrubbed(patterns: &Patterns, text: &[u8]) -> String {
    let whole = patterns.scrub(text);
    for size in 1..text.len() {
        let (mut piece, mut clean) = (Piece::default(), Vec::new());
        for chunk in text.chunks(size) {
            piece.bytes.extend_from_slice(chunk);
            clean.extend(patterns.pass(&mut piece, false));
        }
        clean.extend(patterns.pass(&mut piece, true));
        let (mut at, mut same) = (0, Vec::new());
        while let Some(byte) = clean.get(at) {
            let is_next = |other: u8| whole.get(same.len()) == Some(&other);
            match byte {
                byte if is_next(*byte) => same.push(*byte),
                b'%' | b'\\' | b'&' if is_next(b'#') => {}
                _ if is_next(BLANK) && same.last() != Some(&BLANK) => same.push(BLANK),
                _ => break,
            }
            at += 1;
        }
        assert_eq!(
            (same.escape_ascii().to_string(), at),
            (whole.escape_ascii().to_string(), clean.len()),
            "{} became {} in pieces of {size}",
            text.escape_ascii(),
            clean.escape_ascii()
        );
    }
    String::from_utf8_lossy(&whole).into_owned()
}

fn of(secrets: &[&str]) -> Patterns {
    let mut patterns = Patterns::default();
    secrets.iter().for_each(|secret| patterns.add_secret(secret, "#"));
    patterns
}

const ODD: &str = "Pa55/w+rd&<x>\"q\\z_R3AL-s3cret~99";

#[test]
fn a_secret_is_found_in_every_stream_as_it_is() {
    let secret = "s3cr3t-s3cr3t-value";
    let text = format!("a s3cr3t-{secret} b {secret}{secret} s3cr3t-s3cr3t-valu");
    assert_eq!(scrubbed(&of(&[secret]), text.as_bytes()), "a s3cr3t-# b ## s3cr3t-s3cr3t-valu");
    let mut patterns = of(&[secret]);
    patterns.add_secret(&format!("{secret}-2"), "second");
    patterns.add_secret("value-", "third");
    let text = format!("{secret}-2 {secret} {secret}-{secret}");
    assert_eq!(scrubbed(&patterns, text.as_bytes()), "second # #-#");
}

#[test]
fn the_forms_of_json_are_found() {
    let patterns = of(&[ODD]);
    let json = serde_json::Value::from(ODD).to_string();
    let php = json.replace('/', "\\/");
    let go = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003E");
    let all: String = ODD.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let twice = serde_json::Value::from(json.clone()).to_string();
    let thrice = serde_json::Value::from(twice.clone()).to_string();
    for (text, expected) in [
        (json, "\"#\""),
        (php, "\"#\""),
        (go, "\"#\""),
        (all.to_uppercase().replace("\\U", "\\u"), "#"),
        (all, "#"),
        (twice, "\"\\\"#\\\"\""),
        (thrice, "\"\\\"\\\\\\\"#\\\\\\\"\\\"\""),
    ] {
        assert_eq!(scrubbed(&patterns, text.as_bytes()), expected, "{text}");
    }
    let wide = "pässwörd-😀-\n\t";
    for text in [
        serde_json::Value::from(wide).to_string(),
        "\"p\\u00e4ssw\\u00F6rd-\\ud83d\\ude00-\\n\\u0009\"".to_owned(),
    ] {
        assert_eq!(scrubbed(&of(&[wide]), text.as_bytes()), "\"#\"", "{text}");
    }
}

#[test]
fn percent_encoding_of_any_character_in_either_case_is_found() {
    let coded = |is_coded: fn(u8) -> bool, is_upper: bool| -> String {
        let code = |byte: u8| match (is_coded(byte), is_upper) {
            (false, _) => char::from(byte).to_string(),
            (true, true) => format!("%{byte:02X}"),
            (true, false) => format!("%{byte:02x}"),
        };
        ODD.bytes().map(code).collect()
    };
    let usual: fn(u8) -> bool = |byte| !byte.is_ascii_alphanumeric();
    let all: fn(u8) -> bool = |_| true;
    let few: fn(u8) -> bool = |byte| byte.is_ascii_digit();
    let patterns = of(&[ODD]);
    for is_upper in [true, false] {
        for is_coded in [usual, all, few] {
            let text = coded(is_coded, is_upper);
            assert_eq!(scrubbed(&patterns, format!("a={text}&b").as_bytes()), "a=#&b", "{text}");
            let twice = text.replace('%', "%25");
            assert_eq!(scrubbed(&patterns, twice.as_bytes()), "#", "{twice}");
        }
    }
    assert_eq!(scrubbed(&of(&["two words%"]), b"two+words%25 two%20words%"), "# #");
    assert_eq!(scrubbed(&of(&["p\u{e4}ss"]), b"p%c3%A4ss p\xc3\xa4ss"), "# #");
}

#[test]
fn the_entities_of_html_are_found() {
    let patterns = of(&[ODD]);
    let html = ODD.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for text in [
        html.clone(),
        html.replace('"', "&quot;").replace('/', "&#x2F;").replace('\\', "&#92;"),
        html.replace('&', "&amp;"),
        ODD.chars().map(|c| format!("&#{};", c as u32)).collect(),
        ODD.chars().map(|c| format!("&#X{:X};", c as u32)).collect(),
    ] {
        assert_eq!(scrubbed(&patterns, format!("<p>{text}</p>").as_bytes()), "<p>#</p>", "{text}");
    }
}

#[test]
fn base64_of_short_and_long_secrets_keeps_none_of_their_bits() {
    for secret in ["P9x!", "hunter2!", "hunter2!!", ODD, "pässwörd"] {
        let patterns = of(&[secret]);
        for before in ["", "u", "us", "user:", "user12:"] {
            for after in ["", "\n", "ab", "abc"] {
                let text = format!("{before}{secret}{after}");
                let blank = format!("{before}{}{after}", "\0".repeat(secret.len()));
                for coded in
                    [STANDARD.encode(&text), URL_SAFE.encode(&text), URL_SAFE_NO_PAD.encode(&text)]
                {
                    let clean = scrubbed(&patterns, format!(" {coded} ").as_bytes());
                    let clean = clean.trim().trim_end_matches('=');
                    let decoded = URL_SAFE_NO_PAD
                        .decode(clean.replace('+', "-").replace('/', "_"))
                        .unwrap_or_else(|_| panic!("{coded} became {clean}"));
                    let inner = &decoded[before.len()..before.len() + secret.len()];
                    assert!(inner.iter().all(|byte| *byte == 0), "{coded} became {clean}");
                    // The rest is at its place, except bits between.
                    assert_eq!(decoded.len(), blank.len());
                }
            }
        }
    }
    let patterns = of(&["hunter2!"]);
    assert_eq!(scrubbed(&patterns, b"aHVudGVyMiE="), "AAAAAAAAAAA=");
}

#[test]
fn base64_in_lines_and_with_escapes_is_found() {
    let patterns = of(&[ODD]);
    let coded = STANDARD.encode(format!("xx{ODD}~~??>>"));
    let lines = |end: &str| -> String {
        coded.as_bytes().chunks(10).map(|line| String::from_utf8_lossy(line) + end).collect()
    };
    for length in 2..coded.len() {
        let (first, second) = coded.split_at(length);
        let clean = scrubbed(&patterns, format!("{first}\n{second}").as_bytes());
        let blanks = clean.bytes().filter(|byte| *byte == BLANK).count();
        assert!(blanks >= 42, "{first} {second} became {clean}");
    }
    for text in [
        lines("\n"),
        lines("\r\n"),
        lines("\\n"),
        lines("\\r\\n"),
        coded.replace('/', "\\/"),
        coded.replace('/', "%2f").replace('+', "%2B"),
        coded.replace('/', "\\u002f").replace('+', "\\u002B"),
        coded.replace('/', "&#x2F;").replace('+', "&#43;"),
    ] {
        let clean = scrubbed(&patterns, text.as_bytes());
        let blanks = clean.bytes().filter(|byte| *byte == BLANK).count();
        assert!(blanks > 40, "{text} became {clean}");
    }
}

#[test]
fn text_that_only_resembles_a_secret_passes() {
    let patterns = of(&[ODD, "hunter2!"]);
    for text in [
        "Pa55/w+rd&<x>\"q\\z_R3AL-s3cret~98",
        "Pa55%2fw",
        "\\u0050a55",
        "hunter2",
        "%",
        "&",
        "\\",
        "100% &amp; \\n \\\\ %zz &nosuch; &#x; \\u12 %2",
        "aHVudGVyMiA=",
        "\r\n\r\n",
    ] {
        assert_eq!(scrubbed(&patterns, text.as_bytes()), text);
    }
    assert_eq!(scrubbed(&Patterns::default(), b"any%20thing"), "any%20thing");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn spelled(secret: &str, how: &[u8]) -> String {
        let spell = |(character, how): (char, &u8)| match how % 6 {
            0 => character.to_string(),
            1 => {
                let mut buffer = [0; 2];
                let units = character.encode_utf16(&mut buffer).iter();
                units.map(|unit| format!("\\u{unit:04X}")).collect()
            }
            2 => character.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect(),
            3 => format!("&#{};", character as u32),
            4 => format!("&#x{:x};", character as u32),
            _ => {
                let json = serde_json::Value::from(character.to_string()).to_string();
                json[1..json.len() - 1].to_owned()
            }
        };
        secret.chars().zip(how).map(spell).collect()
    }

    proptest! {
        #[test]
        fn a_secret_is_found_in_any_mixture_of_spellings(
            secret in "[a-zA-Z0-9/+&<>\"'é😀_.~ %-]{6,20}",
            how in proptest::collection::vec(any::<u8>(), 20),
        ) {
            let text = format!(" {} ", spelled(&secret, &how));
            let clean = scrubbed(&of(&[&secret]), text.as_bytes());
            prop_assert_eq!(clean.trim(), "#", "{}", text);
        }

        #[test]
        fn a_stream_is_scrubbed_as_its_whole(
            secret in "[ab\\\\%&25;]{1,6}",
            text in "[ab\\\\%&25;u06\n]{0,40}",
        ) {
            scrubbed(&of(&[&secret]), text.as_bytes());
        }
    }
}
