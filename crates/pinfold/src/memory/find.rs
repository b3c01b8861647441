//! Which entry, pack or rendering is meant.

use pinfold_content::Uuid;
use pinfold_memory::{DiaryStore, MemoryError};

use crate::exit::Failure;

/// Ids that are shown where a beginning is of more than one.
const MOST: u32 = 9;

/// Returns the beginning of an id that lists show.
pub(crate) fn short(id: Uuid) -> String {
    id.to_string().split('-').next().unwrap_or_default().to_owned()
}

pub(super) fn entry(diary: &dyn DiaryStore, beginning: &str) -> Result<Uuid, Failure> {
    one("entry", beginning, |beginning, limit| diary.entries_that_begin(beginning, limit))
}

/// Returns a pack by the beginning of its id, or by its address.
pub(super) fn pack(diary: &dyn DiaryStore, named: &str) -> Result<Uuid, Failure> {
    if named.starts_with("bafy") {
        return Ok(diary.pack_with_cid(named)?);
    }
    one("pack", named, |beginning, limit| diary.packs_that_begin(beginning, limit))
}

fn one(
    what: &str,
    beginning: &str,
    find: impl Fn(&str, u32) -> Result<Vec<Uuid>, MemoryError>,
) -> Result<Uuid, Failure> {
    let hint = || {
        let list = if what == "pack" { "pack" } else { "ls" };
        Some(format!("`pinfold memory {list}` lists them"))
    };
    let could_begin = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    if beginning.is_empty() || !beginning.chars().all(could_begin) {
        let what = format!("{beginning:?} is not the beginning of an id");
        return Err(Failure::new(what).hint(hint()));
    }
    let found = find(beginning, MOST)?;
    match &found[..] {
        [id] => Ok(*id),
        [] => Err(Failure::new(format!("no {what} begins with {beginning}")).hint(hint())),
        several => {
            let ids: Vec<String> = several.iter().map(Uuid::to_string).collect();
            Err(Failure::new(format!("more than one {what} begins with {beginning}"))
                .hint(Some(format!("name one of these: {}", ids.join(", ")))))
        }
    }
}
