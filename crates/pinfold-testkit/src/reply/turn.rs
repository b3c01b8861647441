//! One assistant turn in no particular format.

use serde_json::Value;

use crate::script::Usage;

/// A tool call of a turn.
#[derive(Debug, Clone)]
pub(crate) struct CallOut {
    pub(crate) name: String,
    pub(crate) input: Value,
    /// The input is free text.
    pub(crate) custom: bool,
    pub(crate) namespace: Option<String>,
}

/// An assistant turn in no particular format.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) step: usize,
    pub(crate) model: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<CallOut>,
    pub(crate) thinking: Option<String>,
    pub(crate) usage: Usage,
}

/// One event of a stream: its name, if the format has names, and its data.
pub(crate) type Event = (Option<&'static str>, Data);

/// The data of an event.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Json(Value),
    /// Chat Completions end with a word.
    Done,
}

impl Reply {
    /// Returns a turn that only says something.
    pub(crate) fn says(step: usize, model: &str, text: String) -> Self {
        Self {
            step,
            model: model.to_owned(),
            text,
            calls: Vec::new(),
            thinking: None,
            usage: Usage::default(),
        }
    }

    /// Returns the id of a tool call.
    pub(super) fn call_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_mock_{}_{index}", self.step)
    }
}

/// Returns text in pieces of 24 characters, at least one.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(24).map(|piece| piece.iter().collect()).collect()
}
