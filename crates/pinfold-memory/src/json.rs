//! Entries, packs and renderings as JSON objects with MoltNet's names.

use pinfold_content::{Cid, Object, Uuid, Value, read, times};

use crate::MemoryError;
use crate::entry::{Entry, EntryType, NewEntry};
use crate::made::made;
use crate::pack::{
    CUSTOM, Compiled, NewPack, Pack, PackEntry, PackedEntry, Stats, address, packed_to_json,
};
use crate::render::RenderedPack;
use crate::sign::Signature;

/// Returns an entry of a diary.
#[must_use]
pub fn entry_to_json(entry: &Entry, diary: Uuid) -> Value {
    of_entry(entry, &diary.to_string())
}

fn of_entry(entry: &Entry, diary: &str) -> Value {
    let threats = entry.threats.iter().map(|threat| {
        Value::object([
            ("type", threat.kind.into()),
            ("severity", threat.severity.into()),
            ("match", threat.found.as_str().into()),
        ])
    });
    let signature = entry.signature.as_ref().or(entry.claim.as_ref());
    let nonce = signature.and_then(|signature| signature.nonce.as_deref());
    Value::object([
        ("id", entry.id.to_string().into()),
        ("diaryId", diary.into()),
        ("title", entry.title.as_deref().into()),
        ("content", entry.content.as_str().into()),
        ("tags", entry.tags.iter().map(String::as_str).collect()),
        ("importance", u32::from(entry.importance).into()),
        ("entryType", entry.entry_type.word().into()),
        ("contentHash", entry.cid.as_str().into()),
        ("contentSignature", signature.map(|signature| signature.signature.as_str()).into()),
        ("signingNonce", nonce.into()),
        ("injectionRisk", (!entry.threats.is_empty()).into()),
        ("threats", Value::Array(threats.collect())),
        ("superseded", entry.is_superseded.into()),
        ("accessCount", entry.access_count.into()),
        ("lastAccessedAt", times::value(entry.last_accessed_at)),
        ("createdAt", times::write(entry.created_at).into()),
        ("updatedAt", times::write(entry.updated_at).into()),
        ("creator", signature.map_or(Value::Null, Signature::creator)),
    ])
}

/// Returns the entry that an object describes, such as one of [`entry_to_json`]. What the diary gives an entry, such as its
/// id, is not taken from it.
///
/// # Errors
/// Returns an error for a value of another type, or for an address that is not that of the content.
pub fn entry_from_json(value: &Value) -> Result<NewEntry, MemoryError> {
    let invalid = |field, reason: &str| MemoryError::invalid(field, reason);
    let object = value.as_object().ok_or_else(|| invalid("", "must be an object"))?;
    let given = |key: &str| object.get(key).filter(|value| **value != Value::Null);
    let content = given("content")
        .and_then(Value::as_text)
        .ok_or_else(|| invalid("/content", "must be a text"))?;
    let mut new = NewEntry::new(content);
    if let Some(title) = given("title") {
        let title = title.as_text().ok_or_else(|| invalid("/title", "must be a text"))?;
        new.title = Some(title.into_owned());
    }
    if let Some(tags) = given("tags") {
        let tags = tags
            .as_array()
            .map(|tags| tags.iter().map(Value::as_text))
            .and_then(|tags| tags.map(|tag| tag.map(|tag| tag.into_owned())).collect());
        new.tags = tags.ok_or_else(|| invalid("/tags", "must be a list of texts"))?;
    }
    if let Some(importance) = given("importance") {
        let importance = importance.as_count().and_then(|number| u8::try_from(number).ok());
        new.importance =
            importance.ok_or_else(|| invalid("/importance", "must be from 1 to 10"))?;
    }
    if let Some(kind) = given("entryType") {
        let kind = kind.as_text().and_then(|kind| kind.parse::<EntryType>().ok());
        let kinds = "must be episodic, semantic, procedural or reflection";
        new.entry_type = kind.ok_or_else(|| invalid("/entryType", kinds))?;
    }
    if let Some(created) = given("createdAt") {
        let created = created.as_text().and_then(|text| times::read(&text));
        new.created_at = Some(created.ok_or_else(|| invalid("/createdAt", "must be a time"))?);
    }
    if let Some(hash) = given("contentHash") {
        let computed = new.address();
        if hash.as_text().is_none_or(|hash| hash != computed.as_str()) {
            let provided = hash.as_text().unwrap_or_default();
            let what = format!("Content hash mismatch: provided {provided}, computed {computed}");
            return Err(invalid("/contentHash", &what));
        }
    }
    Ok(new)
}

/// Entries that are read at once at most: they are added all or none, and one of a few bytes takes some hundred in memory.
pub const MOST_IMPORTED: usize = 500_000;

/// Reads an entry from each line that is not empty, with the line's number. Reads no more than one too many.
///
/// # Errors
/// Returns the errors of [`entry_from_json`], with the number of the line.
pub fn entries_from_lines(text: &str) -> Result<Vec<(usize, NewEntry)>, (usize, MemoryError)> {
    let mut entries = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let value = read(line).map_err(|error| (number, MemoryError::BadLine(error.to_string())));
        entries.push((number, entry_from_json(&value?).map_err(|error| (number, error))?));
        if entries.len() > MOST_IMPORTED {
            break;
        }
    }
    Ok(entries)
}

/// Returns a pack with its entries.
#[must_use]
pub fn pack_to_json(pack: &Pack) -> Value {
    let diary = pack.diary.to_string();
    Value::object([
        ("id", pack.id.to_string().into()),
        ("diaryId", diary.as_str().into()),
        ("packCid", pack.cid.as_str().into()),
        ("packCodec", "dag-cbor".into()),
        ("packType", CUSTOM.into()),
        ("params", pack.params.clone().into()),
        ("supersedesPackId", pack.supersedes.map(|id| id.to_string()).into()),
        ("pinned", pack.pinned.into()),
        ("expiresAt", times::value(pack.expires_at)),
        ("createdAt", times::write(pack.created_at).into()),
        ("entries", pack.entries.iter().map(|placed| of_place(pack, placed, &diary)).collect()),
    ])
}

fn of_place(pack: &Pack, placed: &PackEntry, diary: &str) -> Object {
    let entry = placed.entry.as_ref().map(|entry| of_entry(entry, diary));
    packed_to_json(&placed.packed)
        .with("id", placed.id.to_string())
        .with("packId", pack.id.to_string())
        .with("createdAt", times::write(pack.created_at))
        .with("entry", entry)
}

/// Returns the pack that an object with its entries describes, which is of another machine: its address and those of its entries
/// are computed, and its entries are marked, again.
///
/// # Errors
/// Returns an error for a value of another type, or for an address that is not that of the content.
pub(crate) fn pack_from_json(value: &Value) -> Result<Pack, MemoryError> {
    let invalid = |field, reason: &str| MemoryError::invalid(field, reason);
    let id = |field: &'static str, key: &str, value: &Value| {
        let id = value.text_of(key).and_then(|id| id.parse().ok());
        id.ok_or_else(|| invalid(field, "must be a UUID"))
    };
    let entries = value.get("entries").and_then(Value::as_array);
    let entries = entries.ok_or_else(|| invalid("/entries", "must be a list"))?;
    let mut placed: Vec<PackEntry> = entries
        .iter()
        .map(|place| {
            let entry = place.get("entry").filter(|entry| **entry != Value::Null);
            Ok(PackEntry {
                id: id("/entries/id", "id", place)?,
                packed: packed_from_json(place, id("/entries/entryId", "entryId", place)?)?,
                entry: entry.map(received_entry).transpose()?,
            })
        })
        .collect::<Result<_, MemoryError>>()?;
    placed.sort_by_key(|place| place.packed.rank);
    let params = value.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    let diary = id("/diaryId", "diaryId", value)?;
    let packed: Vec<PackedEntry> = placed.iter().map(|place| place.packed.clone()).collect();
    let computed =
        address(diary, &params, &packed).map_err(|error| MemoryError::invalid("/params", error))?;
    let given = value.text_of("packCid").and_then(|cid| Cid::parse_link(&cid).ok());
    // Packs of other types have addresses of more than this.
    let is_custom = value.text_of("packType").is_some_and(|kind| kind == CUSTOM);
    let is_its = |given: &Cid| !is_custom || *given == computed;
    let cid = given.filter(is_its);
    let cid = cid.ok_or_else(|| invalid("/packCid", "is not the address of the pack"))?;
    let created = value.text_of("createdAt").and_then(|text| times::read(&text));
    Ok(Pack {
        id: id("/id", "id", value)?,
        diary,
        cid,
        params,
        supersedes: None,
        pinned: value.get("pinned").and_then(Value::as_bool) == Some(true),
        expires_at: None,
        created_at: created.ok_or_else(|| invalid("/createdAt", "must be a time"))?,
        entries: placed,
    })
}

/// Returns what a server says that it made of a pack's entries. The address is computed, and the entries are those that were named.
///
/// # Errors
/// Returns an error for a value of another type, for another entry, or for an address that is not that of the content.
pub(crate) fn compiled_from_json(
    value: &Value,
    diary: Uuid,
    new: &NewPack,
) -> Result<Compiled, MemoryError> {
    let invalid = |field, reason: &str| MemoryError::invalid(field, reason);
    let places = value.get("entries").and_then(Value::as_array);
    let places = places.ok_or_else(|| invalid("/entries", "must be a list"))?;
    let mut entries = Vec::new();
    for place in places {
        let id = place.text_of("entryId").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| invalid("/entries/entryId", "must be a UUID"))?;
        let packed = packed_from_json(place, id)?;
        if !new.entries.contains(&(id, packed.rank)) {
            return Err(invalid("/entries", "are not those that were asked for"));
        }
        entries.push(packed);
    }
    entries.sort_by_key(|entry| entry.rank);
    if entries.windows(2).any(|pair| pair[0].rank == pair[1].rank) {
        return Err(invalid("/entries", "are there twice"));
    }
    let cid = address(diary, &new.params, &entries)
        .map_err(|error| MemoryError::invalid("/params", error))?;
    if value.text_of("packCid").is_none_or(|its| its != cid.as_str()) {
        return Err(invalid("/packCid", "is not the address of the pack"));
    }
    let stats = Stats::of(&entries, new.token_budget);
    Ok(Compiled { cid, entries, stats })
}

fn packed_from_json(place: &Value, entry: Uuid) -> Result<PackedEntry, MemoryError> {
    let invalid = |field, reason: &str| MemoryError::invalid(field, reason);
    let cid = place.text_of("entryCidSnapshot").and_then(|cid| Cid::parse_link(&cid).ok());
    let rank = place.get("rank").and_then(Value::as_count).and_then(|rank| rank.try_into().ok());
    let level = place.text_of("compressionLevel").and_then(|level| level.parse().ok());
    let tokens = |key: &str| place.get(key).and_then(Value::as_count).unwrap_or_default();
    Ok(PackedEntry {
        entry,
        cid: cid.ok_or_else(|| invalid("/entries/entryCidSnapshot", "must be an address"))?,
        rank: rank.ok_or_else(|| invalid("/entries/rank", "must be a number"))?,
        level: level.ok_or_else(|| invalid("/entries/compressionLevel", "is not known"))?,
        original_tokens: tokens("originalTokens"),
        packed_tokens: tokens("packedTokens"),
    })
}

/// Returns the entry of another machine, which nobody has signed here, with the marks and the address of its content.
fn received_entry(value: &Value) -> Result<Entry, MemoryError> {
    let new = entry_from_json(value)?;
    new.check()?;
    let invalid = |field, reason: &str| MemoryError::invalid(field, reason);
    let id = value.text_of("id").and_then(|id| id.parse().ok());
    let created_at = new.created_at.ok_or_else(|| invalid("/createdAt", "must be a time"))?;
    Ok(made(new, id.ok_or_else(|| invalid("/id", "must be a UUID"))?, created_at))
}

/// Returns a rendering with its text.
#[must_use]
pub fn rendered_to_json(rendered: &RenderedPack) -> Value {
    Value::object([
        ("id", rendered.id.to_string().into()),
        ("packCid", rendered.cid.as_str().into()),
        ("sourcePackId", rendered.pack.to_string().into()),
        ("sourcePackCid", rendered.pack_cid.as_str().into()),
        ("diaryId", rendered.diary.to_string().into()),
        ("content", rendered.content.as_str().into()),
        ("contentHash", rendered.content_hash.as_str().into()),
        ("renderMethod", rendered.method.as_str().into()),
        ("totalTokens", rendered.tokens.into()),
        ("pinned", rendered.pinned.into()),
        ("expiresAt", times::value(rendered.expires_at)),
        ("createdAt", times::write(rendered.created_at).into()),
    ])
}
