//! Agents are data: one TOML file each, built in (`agents/` at the root of the repository) or the
//! user's, who adds an agent by adding a file (requirement 4.1).
//!
//! A file is read when its agent is asked for, so that the number of agents costs no start.

mod host;
mod host_files;
mod keys;
mod moved;
mod place;
mod profile;
mod read;
mod registry;
mod resolve;
mod shared;
mod template;

pub use host::{Host, MOST_READ, ProviderPlace};
pub use host_files::{HostFile, HostKey, HostVariables};
pub use keys::AGENT;
pub use moved::MovedPath;
pub use place::UrlTemplate;
pub use profile::{
    AgentProfile, AuthMode, AuthProfile, ConfigKey, FileTemplate, HostDirectory, MyConfig, PROMPT,
    Provider, RefreshForm, RefreshTerms, SPEC,
};
pub use registry::{AgentError, Registry};
pub use resolve::{AgentFile, ResolvedAgent, Selection};
pub use template::{Template, TemplateError, TemplateValues};

#[cfg(test)]
mod tests;
