//! The tools for entries.

use pinfold_content::{Object, Uuid, Value, times};

use super::arguments::{Arguments, wrong};
use super::{MemoryTools, ToolError};
use crate::entry::{Entry, NewEntry};
use crate::store::{Filter, Search};

/// Units of UTF-16 of a text that lists show.
const PREVIEW: usize = 200;
/// Entries by their ids at most.
const MOST_IDS: usize = 50;
impl MemoryTools {
    pub(super) fn diary_tags(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let prefix = arguments.text("prefix")?.unwrap_or_default();
        let least = arguments.count("minCount")?.unwrap_or(1);
        let tags = self.diary.tags(&prefix, least, &arguments.types("entryTypes")?)?;
        let total = tags.len() as u64;
        let tags = tags.iter().map(|tag| {
            Value::object([("tag", tag.tag.as_str().into()), ("count", tag.count.into())])
        });
        Ok(Value::object([("tags", Value::Array(tags.collect())), ("total", total.into())]))
    }

    pub(super) fn list_entries(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let ids = entry_ids(arguments)?;
        if !ids.is_empty() {
            return self.entries_by_ids(&ids);
        }
        let filter = Filter {
            tags: arguments.tags()?,
            exclude_tags: arguments.texts("excludeTags")?,
            types: arguments.one_type()?.into_iter().collect(),
            exclude_superseded: false,
        };
        let entries = self.diary.list(&filter, arguments.limit(10, 100)?, 0)?;
        let listed = entries.iter().map(|entry| {
            summary(entry)
                .with("createdAt", times::write(entry.created_at))
                .with("contentPreview", preview(&entry.content))
        });
        Ok(listed.collect())
    }

    fn entries_by_ids(&self, ids: &[Uuid]) -> Result<Value, ToolError> {
        let entries = self.diary.entries_with(ids)?;
        let listed = entries.iter().map(|entry| {
            Value::object([
                ("id", entry.id.to_string().into()),
                ("title", entry.title.as_deref().into()),
                ("entryType", entry.entry_type.word().into()),
                ("tags", entry.tags.iter().map(String::as_str).collect()),
                ("importance", u32::from(entry.importance).into()),
                ("contentHash", entry.cid.as_str().into()),
                (
                    "contentSignature",
                    entry.signature.as_ref().map(|by| by.signature.as_str()).into(),
                ),
                ("createdAt", times::write(entry.created_at).into()),
            ])
        });
        Ok(Value::Array(listed.collect()))
    }

    pub(super) fn get_entry(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let entry = self.diary.entry(arguments.required_id("entryId")?)?;
        Ok(Value::object([
            ("id", entry.id.to_string().into()),
            ("title", entry.title.as_deref().into()),
            ("content", entry.content.as_str().into()),
            ("tags", entry.tags.iter().map(String::as_str).collect()),
            ("importance", u32::from(entry.importance).into()),
            ("createdAt", times::write(entry.created_at).into()),
        ]))
    }

    pub(super) fn search_entries(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let filter = Filter {
            tags: arguments.tags()?,
            exclude_tags: arguments.texts("excludeTags")?,
            types: arguments.types("entryTypes")?,
            exclude_superseded: false,
        };
        let search = Search {
            query: Some(arguments.required("query")?),
            filter,
            limit: arguments.limit(5, 100)?,
            ..Search::default()
        };
        let found = self.diary.search(&search)?;
        let found = found
            .iter()
            .map(|entry| summary(entry).with("contentPreview", preview(&entry.content)));
        Ok(found.collect())
    }

    pub(super) fn create_entry(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let own = self.diary.id();
        self.rules.check_diary(arguments.text("diaryId")?.as_deref(), own)?;
        let entry = self.create(new_entry(arguments)?, None)?;
        Ok(Value::object([
            ("id", entry.id.to_string().into()),
            ("title", entry.title.as_deref().into()),
            ("createdAt", times::write(entry.created_at).into()),
            ("diaryId", own.to_string().into()),
            ("entryType", entry.entry_type.word().into()),
            ("importance", u32::from(entry.importance).into()),
            ("tags", entry.tags.iter().map(String::as_str).collect()),
        ]))
    }
}

/// Returns the entry that a call asks for.
pub(super) fn new_entry(arguments: &Arguments<'_>) -> Result<NewEntry, ToolError> {
    let importance = arguments.count("importance")?.map_or(Ok(NewEntry::IMPORTANCE), u8::try_from);
    let kind = arguments.one_type()?;
    Ok(NewEntry {
        title: Some(arguments.required("title")?),
        tags: arguments.texts("tags")?,
        importance: importance.map_err(|_| wrong("importance", "a number from 1 to 10"))?,
        entry_type: kind.unwrap_or_default(),
        ..NewEntry::new(arguments.required("content")?)
    })
}

/// Returns the ids of entries that a call asks for.
pub(super) fn entry_ids(arguments: &Arguments<'_>) -> Result<Vec<Uuid>, ToolError> {
    let ids = arguments.texts("entryIds")?;
    if ids.len() > MOST_IDS {
        return Err(wrong("entryIds", "50 ids at most"));
    }
    let ids: Result<_, _> = ids.iter().map(|id| id.parse()).collect();
    ids.map_err(|_| wrong("entryIds", "a list of UUIDs"))
}

fn summary(entry: &Entry) -> Object {
    let tags: Value = entry.tags.iter().map(String::as_str).collect();
    Object::default()
        .with("id", entry.id.to_string())
        .with("title", entry.title.as_deref())
        .with("tags", tags)
        .with("importance", u32::from(entry.importance))
}

/// Returns the beginning of a text, as JavaScript counts it. A character that would be cut is left out.
pub(super) fn preview(content: &str) -> String {
    let mut units = 0;
    let is_within = |letter: &char| {
        units += letter.len_utf16();
        units <= PREVIEW
    };
    content.chars().take_while(is_within).collect()
}
