//! What the host did not take of a session's changes, and what is reported to the user about it.

use std::borrow::Cow;
use std::path::PathBuf;

use pinfold_host::note::{Note, Topic};

/// What is said once of all that was set aside.
const ADOPT: &str = "`pinfold adopt` puts back what was set aside";

/// Something that the sandbox wrote and the host did not take.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// What it is about.
    pub what: String,
    /// The command that puts it back, if it was set aside.
    pub adopt: Option<String>,
    pub why: Cow<'static, str>,
    /// The opt-in that lets it through another time.
    pub opt_in: Option<Cow<'static, str>>,
    /// Whether it brings what tools on the host run by themselves.
    pub is_executed: bool,
}

impl Kept {
    /// Names what was not taken over and why, without an opt-in.
    pub fn new(what: String, why: impl ToString) -> Self {
        let why = why.to_string().into();
        Self { what, adopt: None, why, opt_in: None, is_executed: false }
    }

    /// Names it, with the command that puts it back.
    pub fn named(&self) -> Cow<'_, str> {
        match &self.adopt {
            Some(command) => format!("{} (set aside; `{command}` puts it back)", self.what).into(),
            None => self.what.as_str().into(),
        }
    }

    /// Returns what the user should know of it.
    pub fn note(&self) -> Note {
        let Self { what, adopt, why, opt_in, .. } = self;
        let allows = opt_in.as_ref().map(|opt_in| format!("--opt-in {opt_in} allows it"));
        let reason = match &allows {
            Some(allows) => format!("{why} ({allows})"),
            None => why.to_string(),
        };
        let note = Note::named(Topic::Waiting, "not taken over", self.named(), reason);
        let name = match adopt {
            Some(_) => format!("{what} (set aside)"),
            None => what.clone(),
        };
        let adopts = adopt.as_ref().map(|_| ADOPT.to_owned());
        note.in_brief(name, why.to_string(), allows.into_iter().chain(adopts).collect())
    }
}

/// What came of a session's changes.
#[derive(Debug, Default)]
pub struct Settled {
    /// What the host has now and the user should look at.
    pub taken: Vec<String>,
    /// Git directories that the session made and that were rebuilt.
    pub rebuilt: Vec<PathBuf>,
    /// What the host did not take.
    pub kept: Vec<Kept>,
    /// A line about what was changed that tools run.
    pub built: Option<String>,
    /// What is new with a secret's name.
    pub secrets: Vec<Note>,
    /// Whether the time was over before everything was looked at.
    pub is_cut: bool,
}

impl Settled {
    /// Returns what the user should know.
    pub fn notes(&self) -> Vec<Note> {
        let taken =
            self.taken.iter().map(|what| Note::named(Topic::Changed, "taken over", what, ""));
        taken
            .chain(self.kept.iter().map(Kept::note))
            .chain(self.built.clone().map(Note::warning))
            .chain(self.secrets.iter().cloned())
            .collect()
    }
}
