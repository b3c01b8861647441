//! An agent with one provider and one model: the flat record that a session starts from.

use std::path::PathBuf;
use std::sync::Arc;

use super::profile::{AgentProfile, AuthMode, AuthProfile, FileTemplate, Provider};
use super::registry::AgentError;
use super::template::{Quoting, Template, TemplateError, TemplateValues};
use crate::env::{EnvLayer, EnvName, EnvVar};
use crate::origin::Origin;

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

/// An agent with one provider merged in. Without providers, the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedAgent {
    /// The agent, with the variables and files of the provider and of the kind of credential, and
    /// no providers to choose from.
    pub profile: AgentProfile,
    /// The provider's name; none for an agent without providers.
    pub provider: Option<String>,
    /// The provider's own terms. Its variables and files are the agent's now.
    pub terms: Provider,
    /// The model as the agent spells it; none leaves the choice to the agent.
    pub model: Option<String>,
    /// The kind of credential; none for an agent without providers.
    pub auth_mode: Option<AuthMode>,
    /// What the kind of credential adds. Its variables are the agent's now.
    pub auth: AuthProfile,
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
    pub fn resolve(mut self, selection: Selection<'_>) -> Result<ResolvedAgent, AgentError> {
        let chosen = selection.provider.or(self.default_provider.as_deref());
        let chosen = chosen.filter(|_| !self.providers.is_empty()).map(str::to_owned);
        let mut terms = match &chosen {
            None => Provider { uses_proxy: true, ..Provider::default() },
            Some(name) => self.provider(name)?,
        };
        let auth_mode = self.auth_mode(chosen.as_deref(), &terms, selection.auth_mode)?;
        let mut by_mode = std::mem::take(&mut terms.auth);
        let auth = auth_mode.and_then(|mode| by_mode.remove(&mode));
        let mut auth = auth.unwrap_or_default();
        let env = std::mem::take(&mut auth.env);
        let default_model = terms.default_model.as_ref().or(self.default_model.as_ref());
        let model = selection.model.or(default_model.map(String::as_str));
        let model = model.map(|model| prefixed(model.to_owned(), &terms.model_prefix));
        self.env.extend(std::mem::take(&mut terms.env).into_iter().chain(env));
        self.files.append(&mut terms.files);
        self.providers.clear();
        Ok(ResolvedAgent { profile: self, provider: chosen, terms, model, auth_mode, auth })
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
        let mut args = self.profile.cli_flags.clone();
        if self.model.is_some() {
            let values = self.with_own(values);
            for template in &self.profile.model_args {
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
        let origin = Origin::Profile { agent: Arc::from(self.profile.name.as_str()) };
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
        self.profile.env.iter().map(variable).collect()
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
        self.profile.files.iter().map(file).collect()
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
            agent: self.profile.name.clone(),
            place: place.to_owned(),
            error,
        })
    }
}
