//! Entries as they are made: with their addresses and marks.

use pinfold_content::{Timestamp, Uuid};

use crate::entry::{Entry, NewEntry};
use crate::render::without_wrappers;
use crate::scan::scan;

/// Returns an entry that nobody has read or signed.
pub(crate) fn made(new: NewEntry, id: Uuid, time: Timestamp) -> Entry {
    // A rendering takes wrappers out, which joins what is around them.
    let joined = without_wrappers(&new.content);
    let texts = new.title.iter().chain([&new.content, &joined]).chain(&new.tags);
    let threats = scan(texts.map(String::as_str));
    let cid = new.address();
    Entry {
        id,
        title: new.title,
        content: new.content,
        tags: new.tags,
        importance: new.importance,
        entry_type: new.entry_type,
        cid,
        threats,
        access_count: 0,
        last_accessed_at: None,
        created_at: time,
        updated_at: time,
        is_superseded: false,
        signature: None,
        claim: None,
    }
}
