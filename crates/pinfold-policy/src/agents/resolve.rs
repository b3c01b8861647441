//! An agent with one provider and one model: the flat record that a session starts from.

use std::path::PathBuf;
use std::sync::Arc;

use super::profile::{AgentProfile, Api, AuthMode, AuthProfile, FileTemplate, Provider};
use super::registry::AgentError;
use super::template::{Quoting, Template, TemplateError, TemplateValues};
use crate::env::{EnvLayer, EnvName, EnvVar};
use crate::origin::Origin;
use crate::settings::BaseUrl;

/// What was chosen. What is absent falls to the agent's defaults; flags have already won over
/// configuration when the settings were merged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// The provider.
    pub provider: Option<&'a str>,
    /// The model; it is not validated, since providers add models every week.
    pub model: Option<&'a str>,
    /// The kind of credential that was found.
    pub auth_mode: Option<AuthMode>,
}

/// A flat record: the agent's, with the provider's merged in. Without providers, the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedAgent {
    /// The agent's name.
    pub name: String,
    /// The program.
    pub cli_command: String,
    /// Its first arguments.
    pub cli_flags: Vec<String>,
    /// Arguments for a run that nobody watches.
    pub unattended_flags: Vec<String>,
    /// The list of packages that makes the agent.
    pub recipe: Option<String>,
    /// Whether it needs user namespaces of its own.
    pub nested: bool,
    /// What outlives a session when that is granted, relative to the home.
    pub state: Vec<PathBuf>,
    /// Paths of the host it reads, absolute or relative to the home.
    pub reads: Vec<PathBuf>,
    /// The provider; none for an agent without providers.
    pub provider: Option<String>,
    /// The model as the agent spells it; none leaves the choice to the agent.
    pub model: Option<String>,
    /// The kind of credential; none for an agent without providers.
    pub auth_mode: Option<AuthMode>,
    /// How the session's key must begin.
    pub key_prefix: String,
    /// The agent's name in a container engine's terms.
    pub sandbox_agent: Option<String>,
    /// The container image to build on.
    pub base_image: Option<String>,
    /// Whether the credential is put in at the boundary.
    pub uses_proxy: bool,
    /// The hosts the provider needs.
    pub allowed_hosts: Vec<String>,
    /// The variable that holds the credential, where the agent runs unprotected.
    pub env_var_name: Option<EnvName>,
    /// The kinds of credential the provider takes.
    pub auth_modes: Vec<AuthMode>,
    /// What the gateway speaks; no gateway if absent.
    pub api: Option<Api>,
    /// The provider's own URL, before the user's settings.
    pub base_url: Option<BaseUrl>,
    /// The id of the secret.
    pub secret: Option<String>,
    model_args: Vec<Template>,
    env: Vec<(EnvName, Template)>,
    files: Vec<FileTemplate>,
}

/// A file to be written into the private home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFile {
    /// The file, relative to the home.
    pub path: PathBuf,
    /// What is in it.
    pub content: String,
    /// Its permission bits.
    pub mode: u32,
    /// Whether a file that is there already, in persistent state, stays as it is.
    pub keep: bool,
}

impl AgentProfile {
    /// Merges one provider in. An agent without providers resolves to itself.
    ///
    /// # Errors
    /// When the provider is unknown, which lists the known ones, or takes no such credential.
    pub fn resolve(self, selection: Selection<'_>) -> Result<ResolvedAgent, AgentError> {
        let chosen = selection.provider.or(self.default_provider.as_deref());
        let chosen = chosen.filter(|_| !self.providers.is_empty()).map(str::to_owned);
        let provider = match &chosen {
            None => Provider { uses_proxy: true, ..Provider::default() },
            Some(name) => self.provider(name)?,
        };
        let auth_mode = self.auth_mode(chosen.as_deref(), &provider, selection.auth_mode)?;
        let auth = auth_mode.and_then(|mode| provider.auth.get(&mode)).cloned();
        let AuthProfile { key_prefix, env: auth_env } = auth.unwrap_or_default();
        let default_model = provider.default_model.or(self.default_model);
        let model = selection.model.map(str::to_owned).or(default_model);
        Ok(ResolvedAgent {
            model: model.map(|model| prefixed(model, &provider.model_prefix)),
            env: self.env.into_iter().chain(provider.env).chain(auth_env).collect(),
            files: self.files.into_iter().chain(provider.files).collect(),
            name: self.name,
            cli_command: self.cli_command,
            cli_flags: self.cli_flags,
            unattended_flags: self.unattended_flags,
            recipe: self.recipe,
            nested: self.nested,
            state: self.state,
            reads: self.reads,
            provider: chosen,
            auth_mode,
            key_prefix,
            sandbox_agent: provider.sandbox_agent,
            base_image: provider.base_image,
            uses_proxy: provider.uses_proxy,
            allowed_hosts: provider.allowed_hosts,
            env_var_name: provider.env_var_name,
            auth_modes: provider.auth_modes,
            api: provider.api,
            base_url: provider.base_url,
            secret: provider.secret,
            model_args: self.model_args,
        })
    }

    fn provider(&self, name: &str) -> Result<Provider, AgentError> {
        self.providers.get(name).cloned().ok_or_else(|| AgentError::UnknownProvider {
            agent: self.name.clone(),
            provider: name.to_owned(),
            known: self.providers.keys().cloned().collect(),
        })
    }

    fn auth_mode(
        &self,
        name: Option<&str>,
        provider: &Provider,
        found: Option<AuthMode>,
    ) -> Result<Option<AuthMode>, AgentError> {
        match (name, found) {
            (Some(name), Some(mode)) if !provider.auth_modes.contains(&mode) => {
                let known: Vec<_> = provider.auth_modes.iter().map(|mode| mode.word()).collect();
                Err(AgentError::UnknownAuthMode {
                    agent: self.name.clone(),
                    provider: name.to_owned(),
                    mode,
                    known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
                })
            }
            (Some(_), found) => Ok(found.or(provider.default_auth_mode)),
            (None, _) => Ok(None),
        }
    }
}

fn prefixed(model: String, prefix: &str) -> String {
    if model.starts_with(prefix) { model } else { format!("{prefix}{model}") }
}

impl ResolvedAgent {
    /// The arguments before the user's own, without the program.
    ///
    /// # Errors
    /// When a template has no value.
    pub fn args(&self, values: &TemplateValues<'_>) -> Result<Vec<String>, AgentError> {
        let mut args = self.cli_flags.clone();
        if self.model.is_some() {
            let values = self.with_own(values);
            for template in &self.model_args {
                args.push(self.fill("model_args", template, &values, Quoting::Plain)?);
            }
        }
        Ok(args)
    }

    /// The variables. What leads to the gateway is a door and what holds the session's key is a
    /// placeholder: nothing that a person or a repository says overrides those.
    ///
    /// # Errors
    /// When a template has no value.
    pub fn env(&self, values: &TemplateValues<'_>) -> Result<Vec<EnvVar>, AgentError> {
        let values = self.with_own(values);
        let origin = Origin::Profile { agent: Arc::from(self.name.as_str()) };
        let variable = |(name, template): &(EnvName, Template)| {
            let layer = if template.uses("key") {
                EnvLayer::Placeholder
            } else if template.uses("gateway") {
                EnvLayer::Door
            } else {
                EnvLayer::Profile
            };
            let value = self.fill(name.as_str(), template, &values, Quoting::Plain)?;
            Ok(EnvVar { name: name.clone(), value: value.into(), layer, origin: origin.clone() })
        };
        self.env.iter().map(variable).collect()
    }

    /// The files. In `.json` and `.toml` files values are escaped as in a string.
    ///
    /// # Errors
    /// When a template has no value.
    pub fn files(&self, values: &TemplateValues<'_>) -> Result<Vec<AgentFile>, AgentError> {
        let values = self.with_own(values);
        let file = |FileTemplate { path, content, mode, keep }: &FileTemplate| {
            let quoting = match path.extension().and_then(|extension| extension.to_str()) {
                Some("json" | "toml") => Quoting::String,
                _ => Quoting::Plain,
            };
            let place = path.display().to_string();
            let content = self.fill(&place, content, &values, quoting)?;
            Ok(AgentFile { path: path.clone(), content, mode: *mode, keep: *keep })
        };
        self.files.iter().map(file).collect()
    }

    /// The values with this agent's own model and provider.
    fn with_own<'a>(&'a self, values: &TemplateValues<'a>) -> TemplateValues<'a> {
        let (model, provider) = (self.model.as_deref(), self.provider.as_deref());
        TemplateValues { model, provider, ..*values }
    }

    fn fill(
        &self,
        place: &str,
        template: &Template,
        values: &TemplateValues<'_>,
        quoting: Quoting,
    ) -> Result<String, AgentError> {
        template.expand(values, quoting).map_err(|error: TemplateError| AgentError::Template {
            agent: self.name.clone(),
            place: place.to_owned(),
            error,
        })
    }
}
