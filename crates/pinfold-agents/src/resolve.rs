//! An agent with one provider and one model: the flat record that a session starts from.

use std::path::PathBuf;
use std::sync::Arc;

use crate::host::{Host, ProviderPlace};
use crate::profile::{AgentProfile, AuthMode, AuthProfile, FileTemplate, MyConfig, Provider};
use crate::registry::AgentError;
use crate::shared::{self, SharedProvider};
use crate::template::{Quoting, Template, TemplateError, TemplateValues};
use pinfold_policy::env::{EnvLayer, EnvName, EnvVar};
use pinfold_policy::origin::Origin;
use pinfold_policy::settings::CloudName;
use pinfold_policy::settings::{ProviderSettings, Settings};

/// What was chosen. What is absent falls to the agent's defaults; flags have already won over
/// configuration when the settings were merged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    pub provider: Option<&'a str>,
    /// The model; it is not validated, since providers add models every week.
    pub model: Option<&'a str>,
    /// The kind of credential that was found.
    pub auth_mode: Option<AuthMode>,
    /// What the user's settings say of the provider.
    pub settings: Option<&'a ProviderSettings>,
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
    /// Where the provider is, once [`ResolvedAgent::located`] has looked.
    pub place: ProviderPlace,
    /// Whether somebody chose the provider.
    is_chosen: bool,
    /// Of the agent's first arguments, those that this run does without.
    left_out: Vec<String>,
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
    /// Returns an error when the provider is unknown, which lists the known ones, or takes no such
    /// credential.
    pub fn resolve(mut self, selection: Selection<'_>) -> Result<ResolvedAgent, AgentError> {
        let chosen = selection
            .provider
            .or(self.default_provider.as_deref())
            .filter(|_| !self.providers.is_empty())
            .map(str::to_owned);
        let is_own = chosen.as_ref().is_none_or(|name| self.providers.contains_key(name));
        let mut terms = match &chosen {
            None => Provider { uses_proxy: true, ..Provider::default() },
            Some(name) => self.provider(name, selection.settings)?,
        };
        let auth_mode = self.auth_mode(chosen.as_deref(), &terms, selection.auth_mode)?;
        let mut by_mode = std::mem::take(&mut terms.auth);
        let mut auth = auth_mode.and_then(|mode| by_mode.remove(&mode)).unwrap_or_default();
        let env = std::mem::take(&mut auth.env);
        // The agent's own default is a model of its own providers.
        let default_model = self.default_model.as_ref().filter(|_| is_own);
        let default_model = terms.default_model.as_ref().or(default_model);
        let model = selection
            .model
            .or(default_model.map(String::as_str))
            .map(|model| prefixed(model.to_owned(), &terms.model_prefix));
        self.env.extend(std::mem::take(&mut terms.env).into_iter().chain(env));
        self.files.append(&mut terms.files);
        if let (Some(provider), None) = (&chosen, &model)
            && self.files.iter().any(|file| file.content.uses("model_id"))
        {
            return Err(AgentError::NoModel { agent: self.name, provider: provider.clone() });
        }
        self.providers.clear();
        self.compatible.clear();
        Ok(ResolvedAgent {
            profile: self,
            provider: chosen,
            terms,
            model,
            auth_mode,
            auth,
            place: ProviderPlace::default(),
            is_chosen: selection.provider.is_some(),
            left_out: Vec::new(),
        })
    }

    /// Returns one of the agent's own providers, or one that imitates an API which the agent speaks.
    fn provider(
        &self,
        name: &str,
        settings: Option<&ProviderSettings>,
    ) -> Result<Provider, AgentError> {
        if let Some(provider) = self.providers.get(name) {
            return Ok(provider.clone());
        }
        let built_in = shared::built_in()?;
        let shared =
            built_in.iter().find(|(known, _)| known == name).map(|(_, shared)| shared.clone());
        let Some(shared) = shared.or_else(|| shared::of_user(name, settings?)) else {
            let fits = |shared: &SharedProvider| {
                shared.apis.iter().any(|api| self.compatible.contains_key(api))
            };
            let others = built_in.into_iter().filter(|(_, shared)| fits(shared));
            let mut known: Vec<String> = self.providers.keys().cloned().collect();
            known.extend(others.map(|(name, _)| name));
            let (agent, provider) = (self.name.clone(), name.to_owned());
            return Err(AgentError::UnknownProvider { agent, provider, known });
        };
        let wanted = settings.and_then(|settings| settings.api.as_ref());
        let apis = wanted.map_or(shared.apis, |api| vec![api.value]);
        let Some((api, own)) = apis.iter().find_map(|api| self.compatible.get_key_value(api))
        else {
            let (agent, provider) = (self.name.clone(), name.to_owned());
            let spoken = self.compatible.keys().copied().collect();
            return Err(AgentError::NotCompatible { agent, provider, apis, spoken });
        };
        Ok(Provider {
            api: Some(*api),
            model_prefix: own.model_prefix.replace("{provider}", name),
            default_model: own.default_model.clone(),
            env: own.env.clone(),
            files: own.files.clone(),
            sandbox_agent: own.sandbox_agent.clone(),
            base_image: own.base_image.clone(),
            ..shared.terms
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
    /// Finds where the provider is, by settings and by what the host says.
    ///
    /// # Errors
    /// Returns what is missing, or what the host says and cannot be followed, with the setting to make.
    pub fn located(mut self, settings: &Settings, host: &dyn Host) -> Result<Self, AgentError> {
        let Some(provider) = self.provider.clone() else { return Ok(self) };
        let place = ProviderPlace::find(&provider, &self.terms, &self.auth, settings, host)?;
        self.profile.check_files(&provider, self.is_chosen, &place, host)?;
        place.check(&provider, &self.terms)?;
        self.place = place;
        Ok(self)
    }

    /// Returns the arguments before the user's own, without the program.
    ///
    /// # Errors
    /// Returns an error when a template has no value.
    pub fn args(&self, values: &TemplateValues<'_>) -> Result<Vec<String>, AgentError> {
        let mut args = self.profile.cli_flags.clone();
        args.retain(|flag| !self.left_out.contains(flag));
        if self.model.is_some() {
            let values = self.with_own(values);
            for template in &self.profile.model_args {
                args.push(self.fill("model_args", template, &values, Quoting::Plain)?);
            }
        }
        Ok(args)
    }

    /// Returns the arguments and variables with which the agent finds MCP servers of the user's own.
    ///
    /// # Errors
    /// Returns an error when a template has no value.
    pub fn server_settings(
        &self,
        values: &TemplateValues<'_>,
    ) -> Result<(Vec<String>, Vec<EnvVar>), AgentError> {
        let values = self.with_own(values);
        let MyConfig { server_args, server_env, .. } = &self.profile.my_config;
        let fill = |template: &Template| self.fill("my_config", template, &values, Quoting::Plain);
        let args = server_args.iter().map(fill).collect::<Result<_, _>>()?;
        Ok((args, self.variables(server_env, &fill)?))
    }

    /// Returns the same agent as it finds the tools of a diary.
    #[must_use]
    pub fn with_memory(mut self) -> Self {
        let profile = &mut self.profile;
        profile.cli_flags.append(&mut profile.memory_flags);
        profile.env.append(&mut profile.memory_env);
        let written = &profile.memory_files;
        profile.files.retain(|file| written.iter().all(|other| other.path != file.path));
        profile.files.append(&mut profile.memory_files);
        self
    }

    fn variables(
        &self,
        templates: &[(EnvName, Template)],
        fill: &dyn Fn(&Template) -> Result<String, AgentError>,
    ) -> Result<Vec<EnvVar>, AgentError> {
        let origin = Origin::Profile { agent: Arc::from(self.profile.name.as_str()) };
        let variable = |(name, template): &(EnvName, Template)| {
            let (layer, value) = (EnvLayer::Profile, fill(template)?);
            Ok(EnvVar { name: name.clone(), value: value.into(), layer, origin: origin.clone() })
        };
        templates.iter().map(variable).collect()
    }

    /// Returns the same agent without some of its first arguments.
    #[must_use]
    pub fn without_flags(mut self, flags: &[String]) -> Self {
        self.left_out.extend_from_slice(flags);
        self
    }

    /// Returns the variables. What leads to the gateway is a door and what holds the session's key is a
    /// placeholder: nothing that a user or a repository says overrides those.
    ///
    /// # Errors
    /// Returns an error when a template has no value.
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

    /// Returns the files. In `.json` and `.toml` files values are escaped as in a string.
    ///
    /// # Errors
    /// Returns an error when a template has no value.
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

    /// Returns the model as its provider calls it.
    #[must_use]
    pub fn model_id(&self) -> Option<&str> {
        let model = self.model.as_deref()?;
        Some(model.strip_prefix(&self.terms.model_prefix).unwrap_or(model))
    }

    /// Returns the values with this agent's own model and provider.
    fn with_own<'a>(&'a self, values: &TemplateValues<'a>) -> TemplateValues<'a> {
        TemplateValues {
            model: self.model.as_deref(),
            model_id: self.model_id(),
            provider: self.provider.as_deref(),
            region: self.place.region.as_ref().map(CloudName::as_str),
            project: self.place.project.as_ref().map(CloudName::as_str),
            ..*values
        }
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
