use super::*;
use proptest::prelude::*;

const KEYS: &[Key] =
    &[Key::new("memory", Shape::Text, ""), Key::new("files", Shape::List(&Shape::Text), "")];

fn document(name: &str, text: &str) -> Result<Document, FileError> {
    Document::parse(SettingsFile { path: Path::new(name), bytes: text.as_bytes() })
}

fn error(name: &str, text: &str) -> String {
    let document = match document(name, text) {
        Ok(document) => document,
        Err(error) => return error.to_string(),
    };
    let section = match Section::of_document(&document, KEYS) {
        Ok(section) => section,
        Err(error) => return error.to_string(),
    };
    let files = section.read("files", Item::texts).err();
    let memory = section.read("memory", |item| item.text().map(str::to_owned)).err();
    files.or(memory).unwrap().to_string()
}

#[test]
fn errors_give_file_line_and_key_in_both_formats() {
    assert_eq!(
        error("s.json", "{\n  \"memory\": 3\n}"),
        "s.json:2: memory: expected text, found a number"
    );
    assert_eq!(error("s.toml", "\nmemory = 3"), "s.toml:2: memory: expected text, found a number");
    assert_eq!(
        error("s.json", "{\"files\": [\n\"a\",\n1]}"),
        "s.json:3: files[1]: expected text, found a number"
    );
    assert_eq!(
        error("s.toml", "memroy = 3"),
        "s.toml:1: memroy: unknown key; did you mean `memory`?"
    );
    assert_eq!(error("s.toml", "qqq = 3"), "s.toml:1: qqq: unknown key");
}

#[test]
fn a_key_given_twice_is_an_error_in_both_formats() {
    assert_eq!(
        error("s.json", "{\"memory\": \"1\",\n\"memory\": \"2\"}"),
        "s.json:2: key \"memory\" appears twice; keep one"
    );
    assert_eq!(
        error("s.json", "{\"memory\": \"1\", \"\\u006demory\": \"2\"}"),
        "s.json:1: key \"memory\" appears twice; keep one"
    );
    assert_eq!(error("s.toml", "memory = \"1\"\nmemory = \"2\""), "s.toml:2: duplicate key");
}

#[test]
fn invalid_json_error_says_where() {
    for (text, expected) in [
        ("", "s.json:1: expected a value"),
        ("[1,]", "s.json:1: expected a JSON value"),
        ("{\n\n", "s.json:3: expected a key in double quotes"),
        ("{} x", "s.json:1: expected the end of the file"),
        ("{\"a\" 1}", "s.json:1: expected `:` after the key"),
        ("{\"a", "s.json:1: a string does not end"),
        ("{\"a\": \"\\q\"}", "s.json:1: not a JSON string"),
        ("01", "s.json:1: not a JSON number"),
        ("// x", "s.json:1: expected a JSON value"),
    ] {
        assert_eq!(document("s.json", text).unwrap_err().to_string(), expected, "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(document("s.json", &deep).unwrap_err().to_string().contains("nested too deeply"));
    assert!(document("s.toml", &format!("a = {deep}")).is_err());
}

#[test]
fn bytes_that_are_not_text_say_where() {
    let file = SettingsFile { path: Path::new("s.toml"), bytes: b"a = 1\n\xff" };
    assert_eq!(Document::parse(file).unwrap_err().to_string(), "s.toml:2: not UTF-8 text");
    let error = document("s.json", "\u{feff}{}").unwrap_err().to_string();
    assert!(error.contains(":1: begins with a byte order mark"), "{error}");
    assert!(document("s.toml", "\u{feff}a = 1").is_ok());
}

proptest! {
    #[test]
    fn json_is_read_as_serde_json_reads_it(text in r#"[\[\]{}",:0-9a-e.\\ \ntrufalsn-]{0,24}"#) {
        let ours = json::parse(&text);
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match (&ours, &theirs) {
            (Ok(_), Err(error)) => prop_assert!(false, "{text}: serde_json says {error}"),
            (Err((_, fault)), Ok(_)) => prop_assert!(
                fault.to_string().contains("twice"), "{text}: we say {fault}"
            ),
            _ => {}
        }
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for name in ["s.json", "s.toml"] {
            let _ = Document::parse(SettingsFile { path: Path::new(name), bytes: &bytes });
        }
    }
}
