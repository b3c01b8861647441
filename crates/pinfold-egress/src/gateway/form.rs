//! The forms in which an answer of the gateway's own is written.

use super::config::Api;

/// The form of an error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As an API would say it.
    Api(Api),
    /// For clients of anything else: curl, git and npm print it.
    Text,
}

/// The form of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Anthropic Messages.
    Messages,
    /// Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Gemini.
    Gemini,
    /// Amazon's event streams.
    EventStream,
}

impl Dialect {
    /// Returns the form of the answer to a path.
    pub(super) fn of(api: Api, path: &str) -> Self {
        match api {
            Api::Anthropic | Api::Bedrock | Api::Vertex => Self::Messages,
            Api::Gemini => Self::Gemini,
            Api::OpenAi if path.contains("/responses") => Self::Responses,
            Api::OpenAi => Self::Chat,
        }
    }
}
