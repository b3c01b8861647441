//! The tools by which an agent uses a diary: MoltNet's names, parameters and results.
//!
//! A model is the caller. It does what it has read somewhere, so a grant decides what it may do, and each call that reaches
//! the diary is recorded by who offers the tools.

mod arguments;
mod entries;
mod errors;
mod packs;

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinfold_content::{Clock as _, SystemClock, Value, read, times};
use pinfold_policy::path::cut;
use pinfold_policy::settings::MemoryGrant;

use crate::MemoryError;
use crate::entry::{Entry, NewEntry};
use crate::known_secrets::KnownSecrets;
use crate::store::Diary;
use crate::task::TaskDiary;

use arguments::Arguments;
pub use errors::ToolError;

/// Failed calls that are kept, the newest ones, characters of what each said, and bytes of what each was called with.
const MOST_FAILURES: usize = 100;
const LONGEST_FAILURE: usize = 500;
const LONGEST_INPUT: usize = 16 << 10;
/// Entries that held a secret, after which no more are taken: each refusal says that a guess was right.
const MOST_LEAKS: u32 = 3;

/// The tools of one diary, for one agent.
pub struct MemoryTools {
    diary: Diary,
    grant: MemoryGrant,
    /// Reads the secrets that entries must not hold, again for each entry: they change while an agent works.
    secrets: Box<dyn Fn() -> Result<KnownSecrets, String> + Send + Sync>,
    failures: Mutex<Vec<Value>>,
    /// What the task says that the agent works on, if it works on one.
    task: Option<TaskDiary>,
    /// Entries that held a secret.
    leaks: AtomicU32,
}

impl std::fmt::Debug for MemoryTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryTools").field("grant", &self.grant).finish_non_exhaustive()
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
    /// Returns the tools of a diary under a grant; none without one. `secrets` returns what entries must not hold.
    #[must_use]
    pub fn new(
        diary: Diary,
        grant: MemoryGrant,
        secrets: impl Fn() -> Result<KnownSecrets, String> + Send + Sync + 'static,
    ) -> Option<Self> {
        let failures = Mutex::default();
        let secrets = Box::new(secrets);
        let leaks = AtomicU32::new(0);
        let task = None;
        (grant != MemoryGrant::None).then_some(Self {
            diary,
            grant,
            secrets,
            failures,
            task,
            leaks,
        })
    }

    /// Returns the same tools for an agent that works on a task.
    #[must_use]
    pub fn for_task(self, task: Option<TaskDiary>) -> Self {
        Self { task, ..self }
    }

    /// Returns names, descriptions and parameters of the tools, as JSON.
    #[must_use]
    pub fn definitions() -> &'static str {
        include_str!("../data/tools.json")
    }

    /// Returns the diary.
    #[must_use]
    pub fn diary(&self) -> &Diary {
        &self.diary
    }

    /// Returns whether this is the name of a tool.
    #[must_use]
    pub fn has(name: &str) -> bool {
        tool(name).is_some()
    }

    /// Calls a tool with a JSON object, and returns the text that it gives.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    pub fn call(&self, name: &str, arguments: &str) -> Result<String, ToolError> {
        let arguments = read(arguments).map_err(|error| ToolError::invalid(error.to_string()))?;
        Ok(self.value(name, &arguments)?.pretty())
    }

    /// Calls a tool with an object, and returns the value that it gives.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    pub fn value(&self, name: &str, arguments: &Value) -> Result<Value, ToolError> {
        let tool = tool(name).ok_or_else(|| ToolError::invalid(format!("no tool {name}")))?;
        let arguments = Arguments::new(arguments)?;
        match tool {
            Tool::PackGet => self.pack_get(&arguments),
            Tool::PackCreate => self.may_write().and_then(|()| self.pack_create(&arguments)),
            Tool::PackProvenance => self.pack_provenance(&arguments),
            Tool::PackRender => self.pack_render(&arguments),
            Tool::RenderedPackList => self.rendered_pack_list(&arguments),
            Tool::RenderedPackGet => self.rendered_pack_get(&arguments),
            Tool::DiaryTags => self.diary_tags(&arguments),
            Tool::ListEntries => self.list_entries(&arguments),
            Tool::GetEntry => self.get_entry(&arguments),
            Tool::SearchEntries => self.search_entries(&arguments),
            Tool::CreateEntry => self.create_entry(&arguments),
            Tool::ReviewSessionErrors => self.review_session_errors(&arguments),
        }
    }

    /// Adds an entry, as the task and the grant allow it.
    ///
    /// # Errors
    /// Returns the error that the agent reads.
    pub fn create(&self, new: NewEntry) -> Result<Entry, ToolError> {
        self.may_write()?;
        let tags = match &self.task {
            Some(task) => task.with(new.tags),
            None => new.tags,
        };
        let created = self.diary.create(&NewEntry { tags, ..new }, &self.secrets()?);
        created.map_err(|error| self.refused(error))
    }

    /// Notes a call of any tool of the session that failed, for [`moltnet_review_session_errors`](Self::call).
    pub fn note_failure(&self, tool: &str, id: &str, input: &str, error: &str) {
        let error: String = error.chars().take(LONGEST_FAILURE).collect();
        let error = if error.is_empty() { "unknown error".to_owned() } else { error };
        // A call may be as long as a message, and each that fails would stay.
        let input = match input.len() {
            0..=LONGEST_INPUT => read(input).unwrap_or(Value::Null),
            _ => input.chars().take(LONGEST_FAILURE).collect::<String>().into(),
        };
        let (tool, id) = (cut(tool, LONGEST_FAILURE), cut(id, LONGEST_FAILURE));
        let failure = Value::object([
            ("toolName", (&*tool).into()),
            ("toolCallId", (&*id).into()),
            ("timestamp", times::write(SystemClock.now()).into()),
            ("input", input),
            ("error", error.into()),
        ]);
        let mut failures = self.failures.lock();
        if failures.len() == MOST_FAILURES {
            failures.remove(0);
        }
        failures.push(failure);
    }

    fn review_session_errors(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let clear = arguments.flag("clear")?;
        let mut failures = self.failures.lock();
        let answer = Value::object([
            ("count", (failures.len() as u64).into()),
            ("errors", Value::Array(failures.clone())),
        ]);
        if clear {
            failures.clear();
        }
        Ok(answer)
    }

    fn may_write(&self) -> Result<(), ToolError> {
        match self.grant {
            MemoryGrant::Write if self.leaks.load(Ordering::SeqCst) >= MOST_LEAKS => {
                Err(ToolError::forbidden("too many entries of this session held a secret"))
            }
            MemoryGrant::Write => Ok(()),
            MemoryGrant::Read | MemoryGrant::None => Err(ToolError::forbidden(
                "the user lets this session read the diary, and not write to it",
            )),
        }
    }

    /// Returns the error of a write as the agent reads it, and counts it if a secret was the reason.
    fn refused(&self, error: MemoryError) -> ToolError {
        if matches!(error, MemoryError::Secret { .. }) {
            self.leaks.fetch_add(1, Ordering::SeqCst);
        }
        error.into()
    }

    fn secrets(&self) -> Result<KnownSecrets, ToolError> {
        (self.secrets)().map_err(ToolError::unavailable)
    }
}

fn tool(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
}

#[cfg(test)]
mod tests;
