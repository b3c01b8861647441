//! What the host did not take of a session's changes, and what is reported to the user about it.

use std::borrow::Cow;

use pinfold_host::note::{Note, Topic};

/// Something that the sandbox wrote and the host did not take.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// What.
    pub what: String,
    /// Why.
    pub why: Cow<'static, str>,
    /// The opt-in that lets it through another time.
    pub opt_in: Option<Cow<'static, str>>,
}

impl Kept {
    /// Names what was not taken over and why, without an opt-in.
    pub fn new(what: String, why: impl Into<Cow<'static, str>>) -> Self {
        Self { what, why: why.into(), opt_in: None }
    }
}

/// What came of a session's changes.
#[derive(Debug, Default)]
pub struct Settled {
    /// What the host has now and the user should look at.
    pub taken: Vec<String>,
    /// What the host did not take.
    pub kept: Vec<Kept>,
    /// A line about what was changed that tools run.
    pub built: Option<String>,
    /// Whether the time was over before everything was looked at.
    pub is_cut: bool,
}

impl Settled {
    /// Returns what the user should know.
    pub fn notes(&self) -> Vec<Note> {
        let taken = self.taken.iter().map(|what| format!("taken over: {what}"));
        let taken = taken.map(|text| Note::new(Topic::Changed, text));
        let kept = self.kept.iter().map(|Kept { what, why, opt_in }| match opt_in {
            Some(opt_in) => format!("not taken over: {what}: {why} (--opt-in {opt_in} allows it)"),
            None => format!("not taken over: {what}: {why}"),
        });
        let kept = kept.map(|text| Note::new(Topic::Waiting, text));
        taken.chain(kept).chain(self.built.clone().map(Note::warning)).collect()
    }
}
