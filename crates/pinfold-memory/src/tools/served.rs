//! The tools of a diary that a server keeps, by MoltNet's API.
//!
//! What the server answers is untrusted: entries have the content of their addresses and lie in the one diary that the agent
//! was given, or the answer is an error. What an agent asks for leaves this machine, so no secret of it may be in a question.

mod packs;

use pinfold_content::{Object, Uuid, Value, times};

use super::arguments::Arguments;
use super::entries::{entry_ids, new_entry, preview};
use super::{DiaryTools, FailedCall, Rules, Tool, ToolError, tool};
use crate::entry::{LONGEST_TAG, NewEntry};
use crate::json::entry_from_json;

/// Entries of a page at most.
const LARGEST_PAGE: u32 = 100;

/// A server with MoltNet's API for diaries, and who one is there.
pub trait DiaryServer: Send + Sync {
    /// Asks for a path below the server's address, with members of a query.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success, or none.
    fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value, ServerError>;

    /// Sends a JSON value to a path below the server's address.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success, or none.
    fn post(&self, path: &str, body: &Value) -> Result<Value, ServerError>;
}

/// Why a server gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ServerError {
    /// The status of its answer, if there is one.
    pub status: Option<u16>,
    /// What it says, as its title and its detail.
    pub text: String,
}

/// The tools of a diary that a server keeps.
pub struct ServedTools {
    server: Box<dyn DiaryServer>,
    diary: Uuid,
    rules: Rules,
}

impl std::fmt::Debug for ServedTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ServedTools");
        shown.field("diary", &self.diary).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl From<ServerError> for ToolError {
    fn from(error: ServerError) -> Self {
        Self::plain(error.text)
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
        self.diary
    }

    fn note_failure(&self, failure: &FailedCall<'_>) {
        self.rules.note_failure(failure);
    }
}

impl ServedTools {
    /// Returns the tools of a diary of a server under these rules. Nothing is asked for yet.
    #[must_use]
    pub fn new(server: Box<dyn DiaryServer>, diary: Uuid, rules: Rules) -> Self {
        Self { server, diary, rules }
    }

    fn in_diary(&self, rest: &str) -> String {
        format!("/diaries/{}/{rest}", self.diary)
    }

    fn diary_tags(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let mut query = Vec::new();
        query.extend(asked.text("prefix")?.map(|prefix| ("prefix", prefix)));
        query.extend(asked.count("minCount")?.map(|least| ("minCount", least.to_string())));
        let types = asked.types("entryTypes")?;
        query.extend(types.iter().map(|kind| ("entryTypes", kind.word().to_owned())));
        let answer = self.server.get(&self.in_diary("tags"), &query)?;
        let tags = list(&answer, "tags")?.iter().map(|tag| {
            let text = tag.text_of("tag").filter(|text| text.chars().count() <= LONGEST_TAG);
            let count = tag.get("count").and_then(Value::as_count);
            let (text, count) = text.zip(count).ok_or_else(|| lie("it gave an invalid tag"))?;
            Ok(Object::default().with("tag", &*text).with("count", count))
        });
        let tags: Value = tags.collect::<Result<_, ToolError>>()?;
        let total = answer.get("total").cloned().unwrap_or(Value::Null);
        Ok(Value::object([("tags", tags), ("total", total)]))
    }

    fn list_entries(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let pair = |name, value: &str| (name, value.to_owned());
        let mut query = vec![pair("orderBy", "createdAt"), pair("order", "desc")];
        let ids = entry_ids(asked)?;
        query.extend(ids.iter().map(|id| ("ids", id.to_string())));
        if ids.is_empty() {
            query.push(("limit", asked.limit(10, LARGEST_PAGE)?.to_string()));
            query.extend(asked.tags()?.into_iter().map(|tag| ("tags", tag)));
            query.extend(asked.texts("excludeTags")?.into_iter().map(|tag| ("excludeTags", tag)));
            query.extend(asked.one_type()?.map(|kind| pair("entryType", kind.word())));
        }
        let answer = self.server.get(&self.in_diary("entries"), &query)?;
        let entries = list(&answer, "items")?.iter().map(|entry| {
            let new = self.checked(entry)?;
            if !ids.is_empty() && !ids.iter().any(|id| is_of(entry, "id", *id)) {
                return Err(lie("it gave an entry that was not asked for"));
            }
            Ok(if ids.is_empty() {
                members(entry, &["id", "title", "tags", "importance", "createdAt"])
                    .with("contentPreview", preview(&new.content))
            } else {
                let hash = entry.get("contentHash").cloned().unwrap_or(Value::Null);
                let signature = entry.get("contentSignature").cloned().unwrap_or(Value::Null);
                members(entry, &["id", "title", "entryType", "tags", "importance"])
                    .with("contentHash", hash)
                    .with("contentSignature", signature)
                    .with("createdAt", entry.get("createdAt").cloned().unwrap_or(Value::Null))
            })
        });
        entries.collect()
    }

    fn get_entry(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let id = asked.required_id("entryId")?;
        let entry = self.server.get(&format!("/entries/{id}"), &[])?;
        self.checked(&entry)?;
        if !is_of(&entry, "id", id) {
            return Err(lie("it gave another entry than the one that was asked for"));
        }
        let names = ["id", "title", "content", "tags", "importance", "createdAt"];
        Ok(members(&entry, &names).into())
    }

    fn search_entries(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let limit = asked.limit(5, LARGEST_PAGE)?;
        let mut body = Object::default()
            .with("diaryId", self.diary.to_string())
            .with("query", asked.required("query")?)
            .with("limit", limit);
        let types = asked.types("entryTypes")?;
        let types = types.iter().map(|kind| kind.word().to_owned()).collect();
        let lists = [
            ("tags", asked.tags()?),
            ("excludeTags", asked.texts("excludeTags")?),
            ("entryTypes", types),
        ];
        for (name, texts) in lists {
            if !texts.is_empty() {
                body = body.with(name, texts.iter().map(String::as_str).collect::<Value>());
            }
        }
        let answer = self.server.post("/diaries/search", &body.into())?;
        let found = list(&answer, "results")?.iter().map(|entry| {
            let new = self.checked(entry)?;
            Ok(members(entry, &["id", "title", "tags", "importance"])
                .with("contentPreview", preview(&new.content)))
        });
        found.collect()
    }

    fn create_entry(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        self.rules.may_write()?;
        self.rules.check_diary(asked.text("diaryId")?.as_deref(), self.diary)?;
        let new = self.rules.with_tags(new_entry(asked)?);
        new.check()?;
        self.rules.secrets()?.check(&new).map_err(|error| self.rules.refused(error))?;
        let mut body = Object::default()
            .with("title", new.title.as_deref())
            .with("content", new.content.as_str())
            .with("tags", new.tags.iter().map(String::as_str).collect::<Value>())
            .with("importance", u32::from(new.importance));
        if asked.given("entryType").is_some() {
            body = body.with("entryType", new.entry_type.word());
        }
        let sent = self.server.post(&self.in_diary("entries"), &body.into());
        let made = sent.map_err(|error| match error.status {
            Some(403) if self.rules.is_of_task() => ToolError::plain(format!(
                "entries_create: the task provenance diary denied this entry, diary {}: {error}",
                self.diary
            )),
            _ => error.into(),
        })?;
        if self.checked(&made)?.address() != new.address() {
            return Err(lie("it kept another entry than the one that it was sent"));
        }
        let names = ["id", "title", "createdAt", "diaryId", "entryType", "importance", "tags"];
        Ok(members(&made, &names).into())
    }

    /// Returns the entry that an answer holds. It is one of this diary, as long as an entry may be, and has the content of its
    /// address.
    fn checked(&self, entry: &Value) -> Result<NewEntry, ToolError> {
        self.check_is_own(entry, "Diary entry")?;
        let new = entry_from_json(entry).map_err(lie)?;
        new.check().map_err(lie)?;
        let is_id = entry.text_of("id").is_some_and(|id| id.parse::<Uuid>().is_ok());
        let is_time = entry.text_of("createdAt").is_some_and(|time| times::read(&time).is_some());
        if !is_id || !is_time {
            return Err(lie("it gave an entry without an id or a time"));
        }
        Ok(new)
    }

    /// Checks that something is of the diary that the agent was given: the server may let its user see more.
    fn check_is_own(&self, value: &Value, what: &str) -> Result<(), ToolError> {
        let diary = value.text_of("diaryId").and_then(|id| id.parse().ok());
        (diary == Some(self.diary)).then_some(()).ok_or_else(|| ToolError::not_found(what))
    }
}

/// Returns the error for an answer that cannot be believed.
fn lie(why: impl std::fmt::Display) -> ToolError {
    ToolError::plain(format!("the server's answer cannot be used: {why}"))
}

/// Returns whether a member of a value is this id.
fn is_of(value: &Value, name: &str, id: Uuid) -> bool {
    value.text_of(name).is_some_and(|its| its.parse() == Ok(id))
}

fn list<'a>(answer: &'a Value, name: &str) -> Result<&'a [Value], ToolError> {
    answer.get(name).and_then(Value::as_array).ok_or_else(|| lie(format!("it has no {name}")))
}

/// Returns these members of a value, in this order; `null` for one that is missing.
fn members(value: &Value, names: &[&'static str]) -> Object {
    let member = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    names.iter().fold(Object::default(), |all, name| all.with(name, member(name)))
}

#[cfg(test)]
mod tests;
