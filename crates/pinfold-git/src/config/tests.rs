use proptest::prelude::*;

use super::{Config, Setting, write};

fn read(text: &str) -> Vec<(String, Option<String>)> {
    let config = Config::parse(text.as_bytes());
    assert!(!config.broken, "{text:?}");
    let text = |value: &Vec<u8>| String::from_utf8(value.clone()).unwrap();
    let said = |setting: &Setting| (setting.key.clone(), setting.value.as_ref().map(text));
    config.settings.iter().map(said).collect()
}

#[test]
fn keys_are_canonical_and_values_unquoted() {
    let text = "; c\n[Core]\n\tFileMode = true # c\n[remote \"O r\\\"x\"] url = \"a;b\" c \n bare\n\
                [old.Style]k=v\\\n w\\t\n";
    let expected: Vec<_> = [
        ("core.filemode", Some("true")),
        ("remote.O r\"x.url", Some("a;b c")),
        ("remote.O r\"x.bare", None),
        ("old.style.k", Some("v w\t")),
    ]
    .iter()
    .map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned)))
    .collect();
    assert_eq!(read(text), expected);
}

#[test]
fn configuration_that_git_would_refuse_is_invalid() {
    for text in [
        "key = 1\n",
        "[a\n",
        "[a \"x]\nk=1",
        "[a \"x\\\ny\"]\nk=1",
        "[a]\nk = \"x\n",
        "[a]\n1k = 1\n",
        "[a]\nk = \\q\n",
    ] {
        assert!(Config::parse(text.as_bytes()).broken, "{text:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(text in "(\\[[a-z]{1,3}( \"[a-z.\\\\\"]{0,4}\")?\\]\n([a-z]{1,3}( = [ -~\t]{0,12})?\n){0,3}){0,4}") {
        let config = Config::parse(text.as_bytes());
        prop_assume!(!config.broken);
        prop_assert_eq!(Config::parse(&write(&config.settings)), config);
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in any::<Vec<u8>>()) {
        let _ = Config::parse(&bytes);
    }
}
