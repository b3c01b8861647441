//! The tools by which an agent uses a diary: MoltNet's names, parameters and results.
//!
//! A model is the caller. It does what it has read somewhere, so a grant decides what it may do, and each call that reaches
//! the diary is recorded by who offers the tools.

mod arguments;
mod entries;
mod errors;
mod packs;
mod rules;
mod served;

use std::time::Instant;

use pinfold_content::{Uuid, Value, read};

use crate::MemoryError;
use crate::entry::{Entry, NewEntry};
use crate::pack::{NewPack, compiled_to_json};
use crate::sign::Signature;
use crate::store::Diary;

use arguments::Arguments;
pub use errors::ToolError;
use packs::new_pack;
pub use packs::new_pack_from_json;
pub use rules::{FailedCall, Rules};
pub use served::ServedTools;

/// Tools for one agent, on one diary.
pub trait DiaryTools: Send + Sync {
    /// Calls a tool with an object, and returns the value that it gives.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    fn value(&self, name: &str, arguments: &Value) -> Result<Value, ToolError>;

    /// Returns the id of the diary.
    fn diary_id(&self) -> Uuid;

    /// Notes a call of any tool of the session that failed, for `moltnet_review_session_errors`.
    fn note_failure(&self, failure: &FailedCall<'_>);

    /// Returns whether the session may write.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    fn may_write(&self) -> Result<(), ToolError>;

    /// Checks texts, by their fields, that leave the sandbox by another tool of the session.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    fn check_written(&self, texts: &[(&'static str, &str)]) -> Result<(), ToolError>;

    /// Calls a tool with a JSON object, and returns the text that it gives.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    fn call(&self, name: &str, arguments: &str) -> Result<String, ToolError> {
        let arguments = read(arguments).map_err(|error| ToolError::invalid(error.to_string()))?;
        Ok(self.value(name, &arguments)?.pretty())
    }
}

/// The tools of a diary on this machine.
pub struct MemoryTools {
    diary: Diary,
    rules: Rules,
}

impl std::fmt::Debug for MemoryTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryTools").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    PackGet,
    PackCreate,
    PackProvenance,
    PackRender,
    RenderedPackList,
    RenderedPackGet,
    DiaryTags,
    ListEntries,
    GetEntry,
    SearchEntries,
    CreateEntry,
    ReviewSessionErrors,
}

const TOOLS: [(&str, Tool); 12] = [
    ("moltnet_pack_get", Tool::PackGet),
    ("moltnet_pack_create", Tool::PackCreate),
    ("moltnet_pack_provenance", Tool::PackProvenance),
    ("moltnet_pack_render", Tool::PackRender),
    ("moltnet_rendered_pack_list", Tool::RenderedPackList),
    ("moltnet_rendered_pack_get", Tool::RenderedPackGet),
    ("moltnet_diary_tags", Tool::DiaryTags),
    ("moltnet_list_entries", Tool::ListEntries),
    ("moltnet_get_entry", Tool::GetEntry),
    ("moltnet_search_entries", Tool::SearchEntries),
    ("moltnet_create_entry", Tool::CreateEntry),
    ("moltnet_review_session_errors", Tool::ReviewSessionErrors),
];

impl MemoryTools {
    /// Returns the tools of a diary under these rules.
    #[must_use]
    pub fn new(diary: Diary, rules: Rules) -> Self {
        Self { diary, rules }
    }

    /// Returns the diary.
    #[must_use]
    pub fn diary(&self) -> &Diary {
        &self.diary
    }

    /// Adds an entry, as the task and the grant allow it. Its writer may have signed it.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    pub fn create(&self, new: NewEntry, signature: Option<Signature>) -> Result<Entry, ToolError> {
        self.rules.may_write()?;
        let new = self.rules.with_tags(new);
        let secrets = self.rules.secrets()?;
        let created = match signature {
            Some(signature) => self.diary.create_signed(&new, signature, &secrets),
            None => self.diary.create(&new, &secrets),
        };
        created.map_err(|error| self.rules.refused(error))
    }

    /// Changes an entry that is not signed, as the grant allows it.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    pub fn update(
        &self,
        id: Uuid,
        change: impl FnOnce(&Entry) -> Result<NewEntry, MemoryError>,
    ) -> Result<Entry, ToolError> {
        self.rules.may_write()?;
        let updated = self.diary.update(id, &self.rules.secrets()?, change);
        updated.map_err(|error| self.rules.refused(error))
    }

    /// Makes a pack, as the grant allows it, and returns what is answered about it.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    pub fn make_pack(&self, new: &NewPack) -> Result<Value, ToolError> {
        self.rules.may_write()?;
        let begun = Instant::now();
        let created = self.diary.create_pack(new, &self.rules.secrets()?);
        let (id, compiled) = created.map_err(|error| self.rules.refused(error))?;
        let elapsed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(compiled_to_json(&compiled, Some(id), &new.params, elapsed))
    }
}

impl DiaryTools for MemoryTools {
    fn value(&self, name: &str, arguments: &Value) -> Result<Value, ToolError> {
        let tool = tool(name)?;
        let arguments = Arguments::new(arguments)?;
        match tool {
            Tool::PackGet => self.pack_get(&arguments),
            Tool::PackCreate => {
                self.rules.may_write().and_then(|()| self.make_pack(&new_pack(&arguments)?))
            }
            Tool::PackProvenance => self.pack_provenance(&arguments),
            Tool::PackRender => self.pack_render(&arguments),
            Tool::RenderedPackList => self.rendered_pack_list(&arguments),
            Tool::RenderedPackGet => self.rendered_pack_get(&arguments),
            Tool::DiaryTags => self.diary_tags(&arguments),
            Tool::ListEntries => self.list_entries(&arguments),
            Tool::GetEntry => self.get_entry(&arguments),
            Tool::SearchEntries => self.search_entries(&arguments),
            Tool::CreateEntry => self.create_entry(&arguments),
            Tool::ReviewSessionErrors => self.rules.review(&arguments),
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

/// Returns names, descriptions and parameters of the tools, as JSON.
#[must_use]
pub fn definitions() -> &'static str {
    include_str!("../data/tools.json")
}

/// Returns whether this is the name of a tool.
#[must_use]
pub fn is_tool(name: &str) -> bool {
    tool(name).is_ok()
}

fn tool(name: &str) -> Result<Tool, ToolError> {
    let known = TOOLS.iter().find(|(known, _)| *known == name);
    known.map(|(_, tool)| *tool).ok_or_else(|| ToolError::invalid(format!("no tool {name}")))
}

#[cfg(test)]
mod tests;
