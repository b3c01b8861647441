//! Which agents there are.

use std::path::Path;

use crate::profile::AgentProfile;
use crate::read;
use crate::template::TemplateError;
use pinfold_policy::document::{FileError, SettingsFile, nearest, nearest_hint};
use pinfold_policy::settings::Api;

/// The built-in files by name, sorted.
const BUILT_IN: &[(&str, &str, &str)] = &[
    ("claude", "agents/claude.toml", include_str!("../../../agents/claude.toml")),
    ("codex", "agents/codex.toml", include_str!("../../../agents/codex.toml")),
    ("cursor", "agents/cursor.toml", include_str!("../../../agents/cursor.toml")),
    ("gemini", "agents/gemini.toml", include_str!("../../../agents/gemini.toml")),
    ("opencode", "agents/opencode.toml", include_str!("../../../agents/opencode.toml")),
    ("pi", "agents/pi.toml", include_str!("../../../agents/pi.toml")),
];

/// The built-in agents and the user's. A user's file replaces the built-in one of its name.
#[derive(Clone, Debug, Default)]
pub struct Registry<'a> {
    user: Vec<SettingsFile<'a>>,
}

/// Why an agent is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A mistake in its file.
    #[error(transparent)]
    File(#[from] FileError),
    /// No file of that name.
    #[error(
        "unknown agent \"{}\"; known: {}{}", .name.escape_debug(), .known.join(", "),
        nearest_hint(nearest(.name, .known.iter().map(String::as_str)))
    )]
    Unknown {
        name: String,
        /// The agents there are.
        known: Vec<String>,
    },
    /// The agent has no such provider.
    #[error(
        "agent {agent} has no provider \"{}\"; known: {}", .provider.escape_debug(),
        .known.join(", ")
    )]
    UnknownProvider {
        agent: String,
        provider: String,
        /// The agent's providers.
        known: Vec<String>,
    },
    /// The provider takes no such credential.
    #[error("provider {provider} of agent {agent} takes no {mode} credential; it takes {known}")]
    UnknownAuthMode {
        agent: String,
        provider: String,
        /// The kind of credential.
        mode: crate::AuthMode,
        /// The kinds it takes.
        known: String,
    },
    /// The provider imitates no API that the agent speaks.
    #[error(
        "agent {agent} cannot use provider {provider}, which speaks {}",
        words(.apis)
    )]
    NotCompatible {
        agent: String,
        provider: String,
        /// What the provider speaks.
        apis: Vec<Api>,
        /// What the agent speaks.
        spoken: Vec<Api>,
    },
    /// The agent has to know which models the provider has.
    #[error("agent {agent} needs to know the model of provider {provider}")]
    NoModel { agent: String, provider: String },
    /// Something on the host chooses a provider or its place in a way that cannot be followed.
    #[error("{what}")]
    OnHost {
        /// What it is about.
        what: String,
        /// The setting to make.
        hint: String,
    },
    /// A text of its file cannot be filled in.
    #[error("agent {agent}: {place}: {error}")]
    Template {
        agent: String,
        /// The variable or file.
        place: String,
        error: TemplateError,
    },
}

fn words(apis: &[Api]) -> String {
    apis.iter().map(|api| api.word()).collect::<Vec<_>>().join(" and ")
}

impl AgentError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OnHost { hint, .. } => Some(hint.clone()),
            Self::NoModel { .. } => Some("choose one with --model".to_owned()),
            Self::NotCompatible { agent, provider, spoken, .. } => Some(match spoken.first() {
                Some(api) => format!(
                    "{agent} speaks {}: if the server does too, set api = \"{}\" under [providers.{}] \
                     in config.toml; a proxy can translate (--provider litellm)",
                    words(spoken),
                    api.word(),
                    provider.escape_debug()
                ),
                None => format!("{agent} has no provider but its own"),
            }),
            Self::UnknownProvider { provider, .. } => Some(format!(
                "api and base_url under [providers.{}] in config.toml define a provider of your own",
                provider.escape_debug()
            )),
            Self::File(_)
            | Self::Unknown { .. }
            | Self::UnknownAuthMode { .. }
            | Self::Template { .. } => None,
        }
    }
}

impl<'a> Registry<'a> {
    /// Returns the built-in agents and those of the user's files, each named as its file without
    /// `.toml`.
    #[must_use]
    pub fn new(user: Vec<SettingsFile<'a>>) -> Self {
        Self { user }
    }

    /// Returns the names of all agents, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let built_in = BUILT_IN.iter().map(|(name, ..)| (*name).to_owned());
        let user = self.user.iter().filter_map(|file| stem(file.path).map(str::to_owned));
        let mut names: Vec<String> = built_in.chain(user).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Reads an agent's file.
    ///
    /// # Errors
    /// Returns an error when there is no such agent, or its file has a mistake.
    pub fn load(&self, name: &str) -> Result<AgentProfile, AgentError> {
        if let Some(file) = self.user.iter().find(|file| stem(file.path) == Some(name)) {
            return Ok(read::profile(name, *file)?);
        }
        match BUILT_IN.iter().find(|(known, ..)| *known == name) {
            Some((_, path, text)) => {
                let file = SettingsFile { path: Path::new(path), bytes: text.as_bytes() };
                Ok(read::profile(name, file)?)
            }
            None => Err(AgentError::Unknown { name: name.to_owned(), known: self.names() }),
        }
    }
}

fn stem(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".toml").filter(|stem| !stem.is_empty())
}
