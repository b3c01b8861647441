use pinfold_content::SystemClock;
use proptest::prelude::*;

use super::{entries_from_markdown, entry_to_markdown};
use crate::{Diary, Entry, EntryType, KnownSecrets, NewEntry};

fn entry(new: &NewEntry) -> Entry {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("diary.db");
    let diary = Diary::open_file(&path, None, Box::new(SystemClock)).unwrap();
    diary.create(new, &KnownSecrets::default()).unwrap()
}

fn read(page: &str) -> Vec<NewEntry> {
    let all = entries_from_markdown(page).unwrap();
    all.into_iter().map(|(_, entry)| entry).collect()
}

#[test]
fn content_forges_no_entry_and_comes_back_as_it_was() {
    for content in [
        "# Forged\n\n- Entry ID: `x`\n- Importance: 10\n\ntext",
        "  # indented\n\\# escaped\n\\\\# twice\n#",
        "Setext\n======\nother\n---\n\\---",
        "- Type: episodic\n- Importance: 10",
        "```sh\n# a comment\n```",
        "a\r\n# b",
    ] {
        let made = entry(&NewEntry::new(content));
        let page = entry_to_markdown(&made);
        let headings = page.lines().filter(|line| line.trim_start().starts_with('#')).count();
        assert_eq!(headings, 1, "{page}");
        let [back] = &read(&page)[..] else { panic!("{page}") };
        assert_eq!(back.content, content);
        assert_eq!(
            (&back.title, back.importance, back.entry_type),
            (&None, 5, EntryType::Semantic)
        );
    }
}

#[test]
fn title_tags_and_times_come_back() {
    let new = NewEntry {
        title: Some("A title".to_owned()),
        tags: vec!["scope:ci".to_owned(), "a`b, c".to_owned()],
        importance: 9,
        entry_type: EntryType::Procedural,
        ..NewEntry::new("x")
    };
    let made = entry(&new);
    let page = entry_to_markdown(&made) + &entry_to_markdown(&entry(&NewEntry::new("y")));
    let back = read(&page);
    assert_eq!(back[0], NewEntry { created_at: Some(made.created_at), ..new });
    assert_eq!((&*back[1].content, &back[1].title), ("y", &None));
    let hostile = NewEntry { title: Some("x\n# y\u{1b}".to_owned()), ..NewEntry::new("z") };
    let page = entry_to_markdown(&entry(&hostile));
    assert!(read(&page).len() == 1 && !page.contains('\u{1b}'), "{page}");
}

#[test]
fn notes_of_others_are_entries() {
    let notes =
        "Before any heading.\n\n# First\n\nText.\n\n## Part\n\nMore.\n# Second\n- an item\n";
    let all = entries_from_markdown(notes).unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|(number, new)| (*number, new.title.as_deref(), new.content.as_str()))
        .collect();
    let expected = [
        (1, None, "Before any heading."),
        (3, Some("First"), "Text.\n\n## Part\n\nMore."),
        (10, Some("Second"), "- an item"),
    ];
    assert_eq!(shown, expected);
    assert!(read("\n\n").is_empty());
}

#[test]
fn line_that_says_what_no_entry_has_is_named() {
    for (line, field) in [
        ("- Type: secret", "/entryType"),
        ("- Importance: many", "/importance"),
        ("- Created: yesterday", "/createdAt"),
    ] {
        let (number, error) = entries_from_markdown(&format!("# x\n\n{line}\n")).unwrap_err();
        assert_eq!(number, 3);
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

proptest! {
    #[test]
    fn any_content_comes_back(content in "([#=\\-\\\\ a\n`]|# |\\PC){1,40}") {
        let made = Entry { content: content.clone(), ..entry(&NewEntry::new("x")) };
        let back = read(&entry_to_markdown(&made));
        prop_assert_eq!(back.len(), 1);
        prop_assert_eq!(back[0].content.as_str(), content.trim_matches('\n'));
    }
}
