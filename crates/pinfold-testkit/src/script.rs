//! What the server answers.
//!
//! ```json
//! { "steps": [ STEP, … ],
//!   "side_text": "ok",          "answers requests that declare no tools",
//!   "exhausted_text": "…",      "answers once all steps are used up",
//!   "models": ["mock-model"] }
//! ```
//! Each request is answered with one step, found from the request's own history: a tool call of
//! step N carries N in its id, and a text-only turn advances by one. The server keeps no state of
//! a conversation, so any number of sessions can share it.

use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use crate::operation::Operation;

/// A list of answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The answers, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The answer to requests that declare no tools, such as for a title.
    #[serde(default = "default_side_text")]
    pub side_text: String,
    /// The answer once all steps are used up.
    #[serde(default = "default_exhausted_text")]
    pub exhausted_text: String,
    /// The models that are listed.
    #[serde(default = "default_models")]
    pub models: Vec<String>,
}

/// One answer: text, operations, or a fault.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// The assistant's text; `{{last_result}}` and `{{last_user}}` are replaced.
    pub text: String,
    /// A thinking block before the rest (Anthropic only).
    pub thinking: Option<String>,
    /// A shell command, for whatever shell tool the client offers.
    pub bash: Option<String>,
    /// A file to write.
    pub write: Option<WriteFile>,
    /// A file to read.
    pub read: Option<ReadFile>,
    /// A replacement in a file.
    pub edit: Option<EditFile>,
    /// A tool call as it stands.
    pub tool: Option<ToolCall>,
    /// Several operations in one turn.
    pub calls: Vec<Call>,
    /// Must match the last tool result, else the answer is `MOCK-EXPECT-FAILED …`.
    pub expect: Option<Pattern>,
    /// Fails this many times before the step is played.
    pub error: Option<Fault>,
    /// Milliseconds before the answer.
    pub delay_ms: u64,
    /// Milliseconds after each event of a stream.
    pub chunk_delay_ms: u64,
    /// Drops the connection after this many events of a stream.
    pub cut_after: Option<usize>,
    /// How many times it is dropped.
    #[serde(default = "once")]
    pub cut_times: u32,
    /// Token counts.
    pub usage: Usage,
}

/// One of several operations of a turn.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Call {
    bash: Option<String>,
    write: Option<WriteFile>,
    read: Option<ReadFile>,
    edit: Option<EditFile>,
    tool: Option<ToolCall>,
}

/// A file to write.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Relative to the client's directory, or absolute.
    pub path: String,
    /// All of it.
    pub content: String,
}

/// A file to read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// Relative to the client's directory, or absolute.
    pub path: String,
}

/// A replacement in a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditFile {
    /// Relative to the client's directory, or absolute.
    pub path: String,
    /// What is there.
    pub old: String,
    /// What shall be there.
    pub new: String,
}

/// A tool call as it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The client's name of the tool.
    pub name: String,
    /// Its input: an object, or text for a free-form tool.
    #[serde(default = "empty_object")]
    pub input: Value,
}

/// An error of the provider.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// The HTTP status.
    pub status: u16,
    /// The provider's word for it.
    pub r#type: String,
    /// What it says.
    pub message: String,
    /// How many times.
    pub times: u32,
}

/// Token counts of an answer.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Of the request.
    pub input: u64,
    /// Of the answer.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Written to the provider's cache.
    pub cache_write: u64,
}

/// A regular expression in which `.` matches a line's end.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

/// Why a script was refused.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script: {0}")]
    Read(#[from] std::io::Error),
    /// The file is not a script.
    #[error("not a script: {0}")]
    Json(#[from] serde_json::Error),
}

impl Script {
    /// Reads a script from JSON.
    ///
    /// # Errors
    /// Returns an error for anything that is not a script.
    pub fn parse(json: &[u8]) -> Result<Self, ScriptError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a script.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        Self::parse(&std::fs::read(path)?)
    }

    /// Returns the loop that every agent must complete on [`TempRepo::with_bug`](crate::TempRepo): read,
    /// edit, run the tests, done.
    ///
    /// # Panics
    /// Never: the fixture is part of the crate and tested.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the fixture is compiled in and tested")]
    pub fn fix_the_bug() -> Self {
        Self::parse(include_bytes!("../fixtures/fix-the-bug.json")).expect("fixture is a script")
    }
}

impl Step {
    /// Returns the operations of the step, in order.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        let own = Call {
            bash: self.bash.clone(),
            write: self.write.clone(),
            read: self.read.clone(),
            edit: self.edit.clone(),
            tool: self.tool.clone(),
        };
        std::iter::once(&own).chain(&self.calls).flat_map(Call::operations).collect()
    }
}

impl Call {
    fn operations(&self) -> Vec<Operation> {
        let bash = self.bash.clone().map(Operation::Bash);
        let write = self.write.clone().map(Operation::Write);
        let read = self.read.clone().map(Operation::Read);
        let edit = self.edit.clone().map(Operation::Edit);
        let tool = self.tool.clone().map(Operation::Tool);
        [bash, write, read, edit, tool].into_iter().flatten().collect()
    }
}

impl Pattern {
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let regex = RegexBuilder::new(&text).dot_matches_new_line(true).build();
        regex.map(Self).map_err(serde::de::Error::custom)
    }
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            status: 529,
            r#type: "overloaded_error".to_owned(),
            message: "mock: scripted failure".to_owned(),
            times: 1,
        }
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_read: 0, cache_write: 0 }
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            side_text: default_side_text(),
            exhausted_text: default_exhausted_text(),
            models: default_models(),
        }
    }
}

fn default_side_text() -> String {
    "ok".to_owned()
}

fn default_exhausted_text() -> String {
    "MOCK: script exhausted".to_owned()
}

fn default_models() -> Vec<String> {
    vec!["mock-model".to_owned()]
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

fn once() -> u32 {
    1
}
