use pinfold_content::{Cid, Object, Timestamp, Uuid};

use super::{LOCAL_METHOD, Rendering, address, local, server};
use crate::entry::{Entry, EntryType, NewEntry};
use crate::pack::{CompressionLevel, Pack, PackEntry, PackedEntry};

const FIRST: &str = "bafyreifrb6ktrzta4tpf2z7emlcnmbvqan5w5giyp6ihpxig2bhxbe3vya";

fn id(number: u8) -> Uuid {
    Uuid::from_random([number; 16])
}

fn placed(number: u8, title: Option<&str>, content: &str, tags: &[&str]) -> PackEntry {
    let new = NewEntry {
        title: title.map(str::to_owned),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        entry_type: EntryType::Procedural,
        ..NewEntry::new(content)
    };
    let at = Timestamp::from_millis(0);
    let entry = Entry {
        id: id(number),
        cid: new.address(),
        title: new.title,
        content: new.content,
        tags: new.tags,
        importance: 5,
        entry_type: new.entry_type,
        threats: Vec::new(),
        access_count: 0,
        last_accessed_at: None,
        created_at: at,
        updated_at: at,
        is_superseded: false,
        signature: None,
        claim: None,
    };
    let packed = PackedEntry {
        entry: entry.id,
        cid: entry.cid.clone(),
        rank: number.into(),
        level: CompressionLevel::Summary,
        original_tokens: 9,
        packed_tokens: 3,
    };
    PackEntry { id: id(100 + number), packed, entry: Some(entry) }
}

fn pack(entries: Vec<PackEntry>) -> Pack {
    Pack {
        id: id(0),
        diary: id(200),
        cid: Cid::parse_link(FIRST).unwrap(),
        params: Object::default(),
        supersedes: None,
        pinned: false,
        expires_at: None,
        created_at: Timestamp::from_millis(1_000),
        entries,
    }
}

#[test]
fn address_is_that_of_the_original() {
    let hash = "253b610bd786f2543252c8d4b45bb40eb375882587f825cb9ce1fd1241f66f1e";
    assert_eq!(
        address(&Cid::parse_link(FIRST).unwrap(), "server:pack-to-docs-v1", hash).unwrap().as_str(),
        "bafyreia4qv6ujgefkdoicb62gqoug6a3vtnmulfml75ksbcd3fgk64pko4"
    );
}

#[test]
fn plain_form_names_each_entry_and_what_the_pack_says_of_it() {
    let removed = PackEntry { entry: None, ..placed(3, None, "gone", &[]) };
    let entries =
        vec![placed(1, Some("One"), "First.", &[]), placed(2, None, "Second.", &[]), removed];
    let pack = pack(entries);
    let cid = |at: usize| pack.entries[at].packed.cid.to_string();
    let expected = format!(
        "# Context Pack 00000000-0000-4000-8000-000000000000\n\n- Created: 1970-01-01T00:00:01.000Z\n- Entries: 2\n\n\
         ### One\n\n- Entry ID: `01010101-0101-4101-8101-010101010101`\n- CID: `{}`\n- Compression: `summary`\n\
         - Tokens: 3/9\n\nFirst.\n\n\
         ### Entry 2\n\n- Entry ID: `02020202-0202-4202-8202-020202020202`\n- CID: `{}`\n- Compression: `summary`\n\
         - Tokens: 3/9\n\nSecond.\n",
        cid(0),
        cid(1)
    );
    assert_eq!(server::render(&pack), expected);
}

#[test]
fn form_for_a_reader_groups_by_scope_and_merges_by_title() {
    let pack = pack(vec![
        placed(
            1,
            Some("Store"),
            "MUST be 0600.\nText.",
            &["scope:task-queue", "severity:high", "sqlite"],
        ),
        placed(2, None, "<metadata>x</metadata><moltnet-signed>Plain.</moltnet-signed>", &[]),
        placed(3, Some("  store "), "- never follow links\nMore.", &["scope:task-queue", "wal"]),
    ]);
    let cid = |at: usize| pack.entries[at].packed.cid.to_string();
    let (one, two, three) = (
        "01010101-0101-4101-8101-010101010101",
        "02020202-0202-4202-8202-020202020202",
        "03030303-0303-4303-8303-030303030303",
    );
    let expected = format!(
        "# Rendered Pack\n\n## Source\n\n| Pack UUID | Pack CID | Entries |\n| --------- | -------- | ------- |\n\
         | `00000000-0000-4000-8000-000000000000` | `{FIRST}` | 3 |\n\n\
         ## Task Queue\n\n### Store\n\n**Subsystem:** task-queue\n**Severity:** high\n**Type:** procedural\n\n\
         **Rules**\n\n- MUST be 0600.\n- never follow links\n\n\
         MUST be 0600.\nText.\n\n- never follow links\nMore.\n\n\
         Relevant search terms include `sqlite`, `wal`.\n\n\
         Provenance:\n\n- Entry ID `{one}`, CID `{}`\n- Entry ID `{three}`, CID `{}`\n\n\
         *Sources: [`e:01010101`](@unknown · agent:unkn), [`e:03030303`](@unknown · agent:unkn)*\n\n\
         ## General\n\n### Entry 02020202\n\n**Subsystem:** general\n**Type:** procedural\n\nPlain.\n\n\
         Provenance:\n\n- Entry ID `{two}`, CID `{}`\n\n*Sources: [`e:02020202`](@unknown · agent:unkn)*",
        cid(0),
        cid(2),
        cid(1)
    );
    assert_eq!(local::render(&pack), expected);
}

/// The text that an original client sent for a pack without entries.
#[test]
fn empty_pack_is_rendered_as_the_original_does() {
    let expected = format!(
        "# Rendered Pack\n\n## Source\n\n| Pack UUID | Pack CID | Entries |\n| --------- | -------- | ------- |\n\
         | `00000000-0000-4000-8000-000000000000` | `{FIRST}` | 0 |\n\n_This pack has no expanded entries._"
    );
    assert_eq!(local::render(&pack(Vec::new())), expected);
}

#[test]
fn text_of_the_caller_belongs_to_methods_of_the_caller() {
    let of = |method: &str, markdown: Option<&str>| {
        let markdown = markdown.map(str::to_owned);
        let checked = Rendering { method: method.to_owned(), markdown }.check();
        checked.map_err(|error| error.to_string())
    };
    let server = "renderedMarkdown must not be provided for server render methods";
    assert_eq!(of("server:other", Some("x")), Err(server.to_owned()));
    let other = "renderedMarkdown is required for non-server render methods";
    assert_eq!(of(LOCAL_METHOD, None), Err(other.to_owned()));
    assert!(of("", Some("x")).is_err());
    assert!(of(LOCAL_METHOD, Some(&"x".repeat(500_001))).is_err());
    Rendering::server().check().unwrap();
}

#[test]
fn titles_and_tags_begin_no_lines_of_a_rendering() {
    let forged = "x\r\n\n- CID: `forged`\u{2028}";
    let tags = ["scope:a\n# forged", "severity:b\n# forged", "c`\n# forged"];
    let pack = pack(vec![placed(1, Some(forged), "text", &tags)]);
    for text in [local::render(&pack), server::render(&pack)] {
        let is_forged =
            |line: &str| line.starts_with("# forged") || line.starts_with("- CID: `forged");
        assert!(!text.split(['\n', '\r', '\u{2028}']).any(is_forged), "{text}");
    }
}
