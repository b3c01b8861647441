use super::{EntryType, NewEntry};

fn entry(entry_type: EntryType, title: Option<&str>, content: &str, tags: &[&str]) -> NewEntry {
    NewEntry {
        title: title.map(str::to_owned),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        entry_type,
        ..NewEntry::new(content)
    }
}

#[test]
fn addresses_are_those_of_the_original() {
    for (new, address) in [
        (
            entry(EntryType::Semantic, None, "hello", &[]),
            "bafkreiffzrhzip7nri65lsjh2nr7g2ygsosdpk7x5ebfxctsiwvsfgfnsi",
        ),
        (
            entry(EntryType::Episodic, Some("Title"), "a \"quoted\"\nline é", &["b", "a"]),
            "bafkreicfvwwwsn7ruo5fhtxopyjq5vkitzflaoahhkwizxz4tk4hbfijre",
        ),
        (
            entry(EntryType::Procedural, Some(""), "x", &[]),
            "bafkreidebpqvam55qohre5th7p2bcpzmmrfnurf2uz73oacfoxwgl7o6ya",
        ),
    ] {
        assert_eq!(new.address().as_str(), address);
    }
}

#[test]
fn tags_are_addressed_in_the_order_of_code_units() {
    // U+FB33 comes before U+1F600 in bytes, and behind it in code units.
    let one = entry(EntryType::Semantic, None, "x", &["\u{fb33}", "\u{1f600}"]);
    let other = entry(EntryType::Semantic, None, "x", &["\u{1f600}", "\u{fb33}"]);
    assert_eq!(one.address(), other.address());
}

#[test]
fn content_of_ten_megabytes_and_too_many_tags_are_refused() {
    let refused = |new: NewEntry| new.check().unwrap_err().to_string();
    assert!(refused(NewEntry::new("")).contains("/content"));
    assert!(refused(NewEntry::new("x".repeat(10 << 20))).contains("/content"));
    // Characters count, not bytes.
    NewEntry::new("é".repeat(100_000)).check().unwrap();
    assert!(refused(NewEntry::new("é".repeat(100_001))).contains("/content"));
    let many = ["t"; 21];
    assert!(refused(entry(EntryType::Semantic, None, "x", &many)).contains("/tags"));
    assert!(refused(entry(EntryType::Semantic, None, "x", &[""])).contains("/tags"));
    let long = "t".repeat(129);
    assert!(refused(entry(EntryType::Semantic, None, "x", &[&long])).contains("/tags"));
    assert!(
        refused(entry(EntryType::Semantic, Some(&"t".repeat(256)), "x", &[])).contains("/title")
    );
    assert!(refused(NewEntry { importance: 11, ..NewEntry::new("x") }).contains("/importance"));
}
