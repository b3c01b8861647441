//! The tools of a diary that a server keeps.
//!
//! What an agent asks for leaves this machine, so no secret of it may be in a question.

mod packs;

use pinfold_content::{Object, Uuid, Value};

use super::arguments::Arguments;
use super::entries::{entry_ids, new_entry, preview};
use super::{DiaryTools, FailedCall, Rules, Tool, ToolError, tool};
use crate::MemoryError;
use crate::served::{LARGEST_PAGE, ServedDiary, lie};

/// The tools of a diary that a server keeps.
pub struct ServedTools {
    diary: ServedDiary,
    rules: Rules,
}

impl std::fmt::Debug for ServedTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ServedTools");
        shown.field("diary", &self.diary).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl DiaryTools for ServedTools {
    fn value(&self, name: &str, arguments: &Value) -> Result<Value, ToolError> {
        let tool = tool(name)?;
        let asked = Arguments::new(arguments)?;
        // An entry names the field that a secret is in.
        if !matches!(tool, Tool::ReviewSessionErrors | Tool::CreateEntry) {
            self.rules.check_question(arguments)?;
        }
        match tool {
            Tool::PackGet => self.pack_get(&asked),
            Tool::PackCreate => self.pack_create(&asked),
            Tool::PackProvenance => self.pack_provenance(&asked),
            Tool::PackRender => self.pack_render(&asked),
            Tool::RenderedPackList => self.rendered_pack_list(&asked),
            Tool::RenderedPackGet => self.rendered_pack_get(&asked),
            Tool::DiaryTags => self.diary_tags(&asked),
            Tool::ListEntries => self.list_entries(&asked),
            Tool::GetEntry => self.get_entry(&asked),
            Tool::SearchEntries => self.search_entries(&asked),
            Tool::CreateEntry => self.create_entry(&asked),
            Tool::ReviewSessionErrors => self.rules.review(&asked),
        }
    }

    fn diary_id(&self) -> Uuid {
        self.diary.id()
    }

    fn note_failure(&self, failure: &FailedCall<'_>) {
        self.rules.note_failure(failure);
    }

    fn may_write(&self) -> Result<(), ToolError> {
        self.rules.may_write()
    }

    fn check_written(&self, texts: &[(&'static str, &str)]) -> Result<(), ToolError> {
        self.rules.check_written(texts)
    }
}

impl ServedTools {
    /// Returns the tools of a diary of a server under these rules. Nothing is asked for yet.
    #[must_use]
    pub fn new(diary: ServedDiary, rules: Rules) -> Self {
        Self { diary, rules }
    }

    fn diary_tags(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let mut query = Vec::new();
        query.extend(asked.text("prefix")?.map(|prefix| ("prefix", prefix)));
        query.extend(asked.count("minCount")?.map(|least| ("minCount", least.to_string())));
        let types = asked.types("entryTypes")?;
        query.extend(types.iter().map(|kind| ("entryTypes", kind.word().to_owned())));
        let (tags, total) = self.diary.tag_counts(&query)?;
        let tags = tags
            .iter()
            .map(|tag| Object::default().with("tag", tag.tag.as_str()).with("count", tag.count));
        Ok(Value::object([("tags", tags.collect()), ("total", total)]))
    }

    fn list_entries(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let ids = entry_ids(asked)?;
        let mut query: Vec<_> = ids.iter().map(|id| ("ids", id.to_string())).collect();
        if ids.is_empty() {
            query.push(("limit", asked.limit(10, LARGEST_PAGE)?.to_string()));
            query.extend(asked.tags()?.into_iter().map(|tag| ("tags", tag)));
            query.extend(asked.texts("excludeTags")?.into_iter().map(|tag| ("excludeTags", tag)));
            query.extend(asked.one_type()?.map(|kind| ("entryType", kind.word().to_owned())));
        }
        let entries = self.diary.page(query)?;
        let entries = entries.iter().map(|(value, entry)| {
            if !ids.is_empty() && !ids.contains(&entry.id) {
                return Err(lie("it gave an entry that was not asked for").into());
            }
            Ok(if ids.is_empty() {
                members(value, &["id", "title", "tags", "importance", "createdAt"])
                    .with("contentPreview", preview(&entry.content))
            } else {
                let names = ["id", "title", "entryType", "tags", "importance"];
                let signed = ["contentHash", "contentSignature", "createdAt"];
                members(value, &[&names[..], &signed[..]].concat())
            })
        });
        entries.collect()
    }

    fn get_entry(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let (value, _) = self.diary.one(asked.required_id("entryId")?)?;
        let names = ["id", "title", "content", "tags", "importance", "createdAt"];
        Ok(members(&value, &names).into())
    }

    fn search_entries(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let limit = asked.limit(5, LARGEST_PAGE)?;
        let query = asked.required("query")?;
        let mut question = self.diary.question().with("query", query).with("limit", limit);
        let types = asked.types("entryTypes")?;
        let types = types.iter().map(|kind| kind.word().to_owned()).collect();
        let lists = [
            ("tags", asked.tags()?),
            ("excludeTags", asked.texts("excludeTags")?),
            ("entryTypes", types),
        ];
        for (name, texts) in lists {
            if !texts.is_empty() {
                question = question.with(name, texts.iter().map(String::as_str).collect::<Value>());
            }
        }
        let found = self.diary.found(question)?;
        let found = found.iter().map(|(value, entry)| {
            members(value, &["id", "title", "tags", "importance"])
                .with("contentPreview", preview(&entry.content))
        });
        Ok(found.collect())
    }

    fn create_entry(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let own = self.diary.id();
        self.rules.may_write()?;
        self.rules.check_diary(asked.text("diaryId")?.as_deref(), own)?;
        let new = self.rules.with_tags(new_entry(asked)?);
        new.check()?;
        self.rules.secrets()?.check(&new).map_err(|error| self.rules.refused(error))?;
        let (made, _) = self.diary.add(&new).map_err(|error| match error {
            MemoryError::Server(error) if error.status == Some(403) && self.rules.is_of_task() => {
                ToolError::plain(format!(
                    "entries_create: the task provenance diary denied this entry, diary {own}: {error}"
                ))
            }
            _ => error.into(),
        })?;
        let names = ["id", "title", "createdAt", "diaryId", "entryType", "importance", "tags"];
        Ok(members(&made, &names).into())
    }
}

/// Returns these members of a value, in this order; `null` for one that is missing.
fn members(value: &Value, names: &[&'static str]) -> Object {
    let member = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    names.iter().fold(Object::default(), |all, name| all.with(name, member(name)))
}

#[cfg(test)]
mod tests;
