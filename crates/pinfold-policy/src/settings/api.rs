//! The APIs that the gateway stands for.

use crate::words;

words! {
    /// The API that the gateway stands for.
    Api, "api":
    /// Anthropic Messages.
    Anthropic = "anthropic",
    /// OpenAI Chat Completions and Responses.
    Openai = "openai",
    /// Google Gemini.
    Gemini = "gemini",
    /// Amazon Bedrock's runtime.
    Bedrock = "bedrock",
    /// Models in Google's Vertex AI.
    Vertex = "vertex",
}

impl Api {
    /// Returns whether the API is one of a cloud, whose servers are in regions.
    #[must_use]
    pub fn is_of_a_cloud(self) -> bool {
        match self {
            Self::Bedrock | Self::Vertex => true,
            Self::Anthropic | Self::Openai | Self::Gemini => false,
        }
    }
}
