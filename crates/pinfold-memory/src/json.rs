//! Entries, packs and renderings as JSON objects with MoltNet's names.

use pinfold_content::{Object, Value, times};

use crate::entry::{Entry, EntryType, NewEntry};
use crate::pack::{CUSTOM, Pack, PackEntry, packed_to_json};
use crate::render::RenderedPack;
use crate::sign::Signature;
use crate::{Diary, MemoryError};

/// Returns an entry of a diary.
#[must_use]
pub fn entry_to_json(entry: &Entry, diary: &Diary) -> Value {
    of_entry(entry, &diary.id().to_string())
}

fn of_entry(entry: &Entry, diary: &str) -> Value {
    let threats = entry.threats.iter().map(|threat| {
        Value::object([
            ("type", threat.kind.into()),
            ("severity", threat.severity.into()),
            ("match", threat.found.as_str().into()),
        ])
    });
    let signature = entry.signature.as_ref();
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
