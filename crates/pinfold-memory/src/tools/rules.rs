//! What holds for the tools of one agent, wherever its diary is.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use pinfold_content::{Clock as _, SystemClock, Uuid, Value, read, times};
use pinfold_policy::path::cut;
use pinfold_policy::settings::MemoryGrant;

use super::ToolError;
use super::arguments::Arguments;
use crate::MemoryError;
use crate::entry::NewEntry;
use crate::known_secrets::KnownSecrets;
use crate::task::TaskDiary;

/// Failed calls that are kept, the newest ones, characters of what each said, and bytes of what each was called with.
const MOST_FAILURES: usize = 100;
const LONGEST_FAILURE: usize = 500;
const LONGEST_INPUT: usize = 16 << 10;

/// Entries that held a secret, after which no more are taken: each refusal says that a guess was right.
pub(super) const MOST_LEAKS: u32 = 3;

const LEAKY: &str = "too many entries of this session held a secret";

/// Bytes of a name of a diary that an error repeats.
const LONGEST_ID: usize = 80;

/// What an agent may do with a diary, and what its entries must have and must not hold.
pub struct Rules {
    grant: MemoryGrant,
    /// Reads the secrets that entries must not hold, again for each entry: they change while an agent works.
    secrets: Box<dyn Fn() -> Result<KnownSecrets, String> + Send + Sync>,
    failures: Mutex<Vec<Value>>,
    /// What the task says that the agent works on, if it works on one.
    task: Option<TaskDiary>,
    /// Entries that held a secret.
    leaks: AtomicU32,
}

/// A call of a tool that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// What the agent calls the call.
    pub id: &'a str,
    /// Its arguments, as JSON.
    pub input: &'a str,
    /// What the tool said.
    pub error: &'a str,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl Rules {
    /// Returns the rules of a grant; none without one. `secrets` returns what entries must not hold.
    #[must_use]
    pub fn new(
        grant: MemoryGrant,
        secrets: impl Fn() -> Result<KnownSecrets, String> + Send + Sync + 'static,
    ) -> Option<Self> {
        let (failures, leaks) = (Mutex::default(), AtomicU32::new(0));
        let secrets = Box::new(secrets);
        (grant != MemoryGrant::None).then_some(Self { grant, secrets, failures, task: None, leaks })
    }

    /// Returns the same rules for an agent that works on a task.
    #[must_use]
    pub fn for_task(self, task: Option<TaskDiary>) -> Self {
        Self { task, ..self }
    }

    /// Returns whether the agent works on a task.
    pub(super) fn is_of_task(&self) -> bool {
        self.task.is_some()
    }

    /// Returns an entry with the tags of the task.
    pub(super) fn with_tags(&self, new: NewEntry) -> NewEntry {
        let tags = match &self.task {
            Some(task) => task.with(new.tags),
            None => new.tags,
        };
        NewEntry { tags, ..new }
    }

    /// Checks that an entry for the diary that a call names may land in the one that there is.
    pub(super) fn check_diary(&self, named: Option<&str>, own: Uuid) -> Result<(), ToolError> {
        match named {
            Some(named) if named.parse() != Ok(own) => Err(match &self.task {
                Some(_) => ToolError::plain(format!(
                    "entries_create: diaryId \"{}\" does not match the active task diary \"{own}\". Entries \
                     created during a task must land in the task diary.",
                    cut(named, LONGEST_ID)
                )),
                None => ToolError::not_found("Diary"),
            }),
            _ => Ok(()),
        }
    }

    /// Notes a call of any tool of the session that failed.
    pub(super) fn note_failure(&self, failed: &FailedCall<'_>) {
        let error: String = failed.error.chars().take(LONGEST_FAILURE).collect();
        let error = if error.is_empty() { "unknown error".to_owned() } else { error };
        // A call may be as long as a message, and each that fails would stay.
        let input = match failed.input.len() {
            0..=LONGEST_INPUT => read(failed.input).unwrap_or(Value::Null),
            _ => failed.input.chars().take(LONGEST_FAILURE).collect::<String>().into(),
        };
        let (tool, id) = (cut(failed.tool, LONGEST_FAILURE), cut(failed.id, LONGEST_FAILURE));
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

    pub(super) fn review(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
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

    /// Checks what a question to a server says. It leaves this machine, so no secret may be in it.
    pub(super) fn check_question(&self, arguments: &Value) -> Result<(), ToolError> {
        if self.leaks.load(Ordering::SeqCst) >= MOST_LEAKS {
            return Err(ToolError::forbidden(LEAKY));
        }
        let checked = self.secrets()?.check_value("/arguments", arguments);
        checked.map_err(|error| self.refused(error))
    }

    pub(super) fn may_write(&self) -> Result<(), ToolError> {
        match self.grant {
            MemoryGrant::Write if self.leaks.load(Ordering::SeqCst) >= MOST_LEAKS => {
                Err(ToolError::forbidden(LEAKY))
            }
            MemoryGrant::Write => Ok(()),
            MemoryGrant::Read | MemoryGrant::None => Err(ToolError::forbidden(
                "the user lets this session read the diary, and not write to it",
            )),
        }
    }

    /// Checks that the session may write, and that these texts hold no secret.
    pub(super) fn check_written(&self, texts: &[(&'static str, &str)]) -> Result<(), ToolError> {
        self.may_write()?;
        let secrets = self.secrets()?;
        let mut texts = texts.iter();
        let checked = texts.try_for_each(|(field, text)| secrets.check_text(field, text));
        checked.map_err(|error| self.refused(error))
    }

    /// Returns the error of a write as the agent reads it, and counts it if a secret was the reason.
    pub(super) fn refused(&self, error: MemoryError) -> ToolError {
        if matches!(error, MemoryError::Secret { .. }) {
            self.leaks.fetch_add(1, Ordering::SeqCst);
        }
        error.into()
    }

    pub(super) fn secrets(&self) -> Result<KnownSecrets, ToolError> {
        (self.secrets)().map_err(ToolError::unavailable)
    }
}
