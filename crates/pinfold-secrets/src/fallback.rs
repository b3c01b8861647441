//! Which environment variables are looked at when nothing is stored: data.

use crate::AuthMode;

/// A variable that holds a secret by convention of the provider's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvFallback {
    /// The secret it stands in for.
    pub id: &'static str,
    pub name: &'static str,
    /// What kind of credential the variable holds.
    pub auth: AuthMode,
}

/// Every known variable, in the order they are tried.
pub const FALLBACKS: &[EnvFallback] = &[
    EnvFallback { id: "anthropic", name: "ANTHROPIC_API_KEY", auth: AuthMode::ApiKey },
    EnvFallback { id: "anthropic", name: "ANTHROPIC_AUTH_TOKEN", auth: AuthMode::Gateway },
    EnvFallback { id: "anthropic", name: "CLAUDE_CODE_OAUTH_TOKEN", auth: AuthMode::Oauth },
    EnvFallback { id: "anthropic", name: "ANTHROPIC_OAUTH_TOKEN", auth: AuthMode::Oauth },
    EnvFallback { id: "openai", name: "OPENAI_API_KEY", auth: AuthMode::ApiKey },
    EnvFallback { id: "gemini", name: "GEMINI_API_KEY", auth: AuthMode::ApiKey },
    EnvFallback { id: "gemini", name: "GOOGLE_API_KEY", auth: AuthMode::ApiKey },
];

/// Returns the variables that stand in for one secret.
pub fn fallbacks_for(id: &str) -> impl Iterator<Item = &'static EnvFallback> {
    FALLBACKS.iter().filter(move |fallback| fallback.id == id)
}
