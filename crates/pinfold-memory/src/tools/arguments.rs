//! What a model calls a tool with.

use pinfold_content::{Object, Uuid, Value};

use super::ToolError;
use crate::entry::{EntryType, MOST_TAGS};

/// The arguments of a call. Those that a tool does not know are ignored, as the original ignores them.
pub(super) struct Arguments<'a>(&'a Object);

impl<'a> Arguments<'a> {
    pub(super) fn new(value: &'a Value) -> Result<Self, ToolError> {
        let object = value.as_object();
        object.map(Self).ok_or_else(|| ToolError::invalid("arguments must be an object"))
    }

    /// Returns an argument that was given.
    pub(super) fn given(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| **value != Value::Null)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ToolError> {
        let text = |value: &Value| {
            let text = value.as_text().ok_or_else(|| wrong(key, "a string"))?;
            Ok(text.into_owned())
        };
        self.given(key).map(text).transpose()
    }

    pub(super) fn required(&self, key: &str) -> Result<String, ToolError> {
        self.text(key)?.ok_or_else(|| ToolError::invalid(format!("{key} is required")))
    }

    pub(super) fn id(&self, key: &str) -> Result<Option<Uuid>, ToolError> {
        let id = |text: String| text.parse().map_err(|_| wrong(key, "a UUID"));
        self.text(key)?.map(id).transpose()
    }

    pub(super) fn required_id(&self, key: &str) -> Result<Uuid, ToolError> {
        self.id(key)?.ok_or_else(|| ToolError::invalid(format!("{key} is required")))
    }

    /// Returns a flag; one that is not given is not set.
    pub(super) fn flag(&self, key: &str) -> Result<bool, ToolError> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| wrong(key, "a boolean"));
        Ok(self.given(key).map(flag).transpose()?.unwrap_or_default())
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, ToolError> {
        let count = |value: &Value| {
            value.as_count().ok_or_else(|| wrong(key, "a whole number that is not negative"))
        };
        self.given(key).map(count).transpose()
    }

    /// Returns a number from 1 to this one.
    pub(super) fn limit(&self, default: u32, most: u32) -> Result<u32, ToolError> {
        let Some(limit) = self.count("limit")? else { return Ok(default) };
        let limit = u32::try_from(limit).ok().filter(|limit| (1..=most).contains(limit));
        limit.ok_or_else(|| wrong("limit", &format!("a number from 1 to {most}")))
    }

    pub(super) fn offset(&self) -> Result<u32, ToolError> {
        let offset = self.count("offset")?.unwrap_or_default();
        u32::try_from(offset).map_err(|_| wrong("offset", "a smaller number"))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, ToolError> {
        let Some(value) = self.given(key) else { return Ok(Vec::new()) };
        let texts =
            value.as_array().map(|items| items.iter().map(Value::as_text)).and_then(|mut texts| {
                texts.try_fold(Vec::new(), |mut all, text| {
                    all.push(text?.into_owned());
                    Some(all)
                })
            });
        texts.ok_or_else(|| wrong(key, "a list of strings"))
    }

    pub(super) fn types(&self, key: &str) -> Result<Vec<EntryType>, ToolError> {
        let types: Result<_, _> = self.texts(key)?.iter().map(|kind| kind.parse()).collect();
        types
            .map_err(|error: crate::UnknownEntryType| ToolError::invalid(format!("{key}: {error}")))
    }

    pub(super) fn one_type(&self) -> Result<Option<EntryType>, ToolError> {
        let kind = self.text("entryType")?.map(|kind| kind.parse());
        kind.transpose().map_err(|error: crate::UnknownEntryType| {
            ToolError::invalid(format!("entryType: {error}"))
        })
    }

    /// Returns the tags that entries must have: those that are named, and those that entries of a task have.
    pub(super) fn tags(&self) -> Result<Vec<String>, ToolError> {
        let mut tags = self.texts("tags")?;
        if let Some(filter) = self.given("taskFilter") {
            let filter =
                filter.as_object().map(Self).ok_or_else(|| wrong("taskFilter", "an object"))?;
            let names = [("taskId", "id"), ("taskType", "type"), ("correlationId", "correlation")];
            for (key, name) in names {
                tags.extend(filter.text(key)?.map(|value| format!("task:{name}:{value}")));
            }
            tags.extend(filter.count("attemptN")?.map(|number| format!("task:attempt:{number}")));
        }
        let mut unique = Vec::new();
        for tag in tags {
            if !unique.contains(&tag) {
                unique.push(tag);
            }
        }
        if unique.len() > MOST_TAGS {
            return Err(wrong("tags", "20 tags at most"));
        }
        Ok(unique)
    }
}

pub(super) fn wrong(key: &str, expected: &str) -> ToolError {
    ToolError::invalid(format!("{key}: expected {expected}"))
}
