//! Entries of a diary, and what one may hold.

use std::fmt;
use std::str::FromStr;

use pinfold_content::{Cid, Timestamp, Uuid, Value};

use crate::MemoryError;
use crate::scan::Threat;
use crate::sign::Signature;

/// Characters of a content, a title and a tag at most, and tags at most (MoltNet's limits).
const LONGEST_CONTENT: usize = 100_000;
const LONGEST_TITLE: usize = 255;
pub(crate) const LONGEST_TAG: usize = 128;
pub(crate) const MOST_TAGS: usize = 20;

/// What an entry is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryType {
    /// What happened.
    Episodic,
    /// What is known.
    #[default]
    Semantic,
    /// How something is done.
    Procedural,
    /// What follows from the others.
    Reflection,
}

/// The error for a text that is no type of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected episodic, semantic, procedural or reflection")]
pub struct UnknownEntryType;

impl EntryType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Episodic, Self::Semantic, Self::Procedural, Self::Reflection];

    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Episodic => "episodic",
            Self::Semantic => "semantic",
            Self::Procedural => "procedural",
            Self::Reflection => "reflection",
        }
    }
}

impl fmt::Display for EntryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for EntryType {
    type Err = UnknownEntryType;

    fn from_str(text: &str) -> Result<Self, UnknownEntryType> {
        Self::ALL.into_iter().find(|kind| kind.word() == text).ok_or(UnknownEntryType)
    }
}

/// An entry to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// A line that says what it is about.
    pub title: Option<String>,
    /// The text, in Markdown.
    pub content: String,
    /// Words by which it is found.
    pub tags: Vec<String>,
    /// From 1 to 10.
    pub importance: u8,
    /// What it is about.
    pub entry_type: EntryType,
    /// Entries that it takes the place of.
    pub supersedes: Vec<Uuid>,
    /// When it was made, if it comes from another diary.
    pub created_at: Option<Timestamp>,
}

impl NewEntry {
    /// How important an entry is of which nobody says so.
    pub const IMPORTANCE: u8 = 5;

    /// Returns an entry with this content.
    #[must_use]
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            title: None,
            content: content.into(),
            tags: Vec::new(),
            importance: Self::IMPORTANCE,
            entry_type: EntryType::default(),
            supersedes: Vec::new(),
            created_at: None,
        }
    }

    /// Checks its lengths and numbers.
    ///
    /// # Errors
    /// Returns an error that names the field.
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        let invalid = MemoryError::invalid;
        if self.content.is_empty() {
            return Err(invalid("/content", "must not be empty"));
        }
        if is_longer(&self.content, LONGEST_CONTENT) {
            return Err(invalid("/content", "must have 100000 characters at most"));
        }
        if self.title.as_ref().is_some_and(|title| is_longer(title, LONGEST_TITLE)) {
            return Err(invalid("/title", "must have 255 characters at most"));
        }
        check_tags("/tags", &self.tags)?;
        if !(1..=10).contains(&self.importance) {
            return Err(invalid("/importance", "must be from 1 to 10"));
        }
        Ok(())
    }

    /// Returns its content address.
    #[must_use]
    pub fn address(&self) -> Cid {
        let mut tags: Vec<(Vec<u16>, &String)> =
            self.tags.iter().map(|tag| (tag.encode_utf16().collect(), tag)).collect();
        tags.sort();
        Cid::of_bytes(
            Value::object([
                ("c", self.content.as_str().into()),
                ("t", self.title.as_deref().unwrap_or_default().into()),
                ("tags", tags.into_iter().map(|(_, tag)| tag.as_str()).collect()),
                ("type", self.entry_type.word().into()),
                ("v", "moltnet:diary:v1".into()),
            ])
            .to_string()
            .as_bytes(),
        )
    }
}

/// Checks how many tags there are, and how long.
pub(crate) fn check_tags(field: &'static str, tags: &[String]) -> Result<(), MemoryError> {
    if tags.len() > MOST_TAGS {
        return Err(MemoryError::invalid(field, "must be 20 at most"));
    }
    let is_wrong = |tag: &String| tag.is_empty() || is_longer(tag, LONGEST_TAG);
    if tags.iter().any(is_wrong) {
        return Err(MemoryError::invalid(field, "must have 1 to 128 characters each"));
    }
    Ok(())
}

fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// An entry of a diary.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: Uuid,
    /// A line that says what it is about.
    pub title: Option<String>,
    pub content: String,
    /// Words by which it is found.
    pub tags: Vec<String>,
    /// From 1 to 10.
    pub importance: u8,
    /// What it is about.
    pub entry_type: EntryType,
    /// Its content address.
    pub cid: Cid,
    /// What in it reads like an instruction to a model.
    pub threats: Vec<Threat>,
    /// How often it was read by its id.
    pub access_count: u64,
    /// When it was read last.
    pub last_accessed_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed.
    pub updated_at: Timestamp,
    /// Whether another entry takes its place.
    pub is_superseded: bool,
    /// Who signed it, if somebody did. The signature was verified here.
    pub signature: Option<Signature>,
    /// Who signed it as a server says, where nothing here can verify that.
    pub claim: Option<Signature>,
}

#[cfg(test)]
mod tests;
