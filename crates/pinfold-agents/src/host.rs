//! What the agent's program would look at if it ran on the host: variables and files that choose its
//! provider and base URL. Variables of the caller are honoured. Files are not, because a session may be
//! able to write them: what they say is refused, with the setting to make.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::host_files::{HostFile, HostKey};
use crate::profile::{AgentProfile, AuthProfile, Provider};
use crate::registry::AgentError;
use pinfold_policy::env::EnvName;
use pinfold_policy::origin::Valued;
use pinfold_policy::settings::Api;
use pinfold_policy::settings::CloudName;
use pinfold_policy::settings::{BaseUrl, BaseUrlError, ProviderSettings, Settings};

/// The most that is read of a file, in bytes.
pub const MOST_READ: u64 = 1024 * 1024;

/// The host, as far as choosing a provider needs it.
pub trait Host {
    /// Returns the value of a variable if it is set and not empty.
    fn variable(&self, name: &EnvName) -> Option<String>;

    /// Returns what is in a file, at most [`MOST_READ`] bytes. `None` if it is not there.
    ///
    /// # Errors
    /// Returns why it cannot be read.
    fn file(&self, path: &Path) -> std::io::Result<Option<Vec<u8>>>;
}

/// Where a provider is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderPlace {
    /// Its base URL; none for an agent without a gateway.
    pub base_url: Option<BaseUrl>,
    /// Whether the base URL is the user's, which stands for a server that speaks the API as published.
    pub is_users: bool,
    /// The variable that the base URL comes from.
    pub variable: Option<EnvName>,
    pub region: Option<CloudName>,
    pub project: Option<CloudName>,
}

impl AgentProfile {
    /// Returns the provider that a variable of the host chooses, and the variable.
    ///
    /// # Errors
    /// Returns a variable that chooses what pinfold cannot give.
    pub fn chosen_on_host(&self, host: &dyn Host) -> Result<Option<(String, EnvName)>, AgentError> {
        let is_true = |name: &EnvName| host.variable(name).is_some_and(|value| is_true(&value));
        for (name, hint) in &self.host_refused {
            if is_true(name) {
                return Err(AgentError::OnHost {
                    what: format!("{name} is set, which {} cannot follow in a sandbox", self.name),
                    hint: hint.clone(),
                });
            }
        }
        let chosen = self.providers.iter().find_map(|(provider, terms)| {
            let variable = terms.host.chosen_by.iter().find(|name| is_true(name))?;
            Some((provider.clone(), variable.clone()))
        });
        Ok(chosen)
    }

    /// Refuses what files of the host say about the provider where no setting or variable says so too.
    ///
    /// # Errors
    /// Returns the file, its key, and the setting to make.
    pub(crate) fn check_files(
        &self,
        provider: &str,
        is_chosen: bool,
        place: &ProviderPlace,
        host: &dyn Host,
    ) -> Result<(), AgentError> {
        for file in &self.host_files {
            let is_settled = match file.sets {
                HostKey::BaseUrl => place.is_users,
                HostKey::Provider => is_chosen || place.is_users,
            };
            let concerns = file.sets == HostKey::Provider
                || file.provider.as_deref().is_none_or(|concerned| concerned == provider);
            if is_settled || !concerns {
                continue;
            }
            let moved = self.moved(&file.path, host)?.map(|moved| moved.path);
            let file = &HostFile { path: moved.unwrap_or(file.path.clone()), ..file.clone() };
            let Some(value) = self.value_in(file, host)? else { continue };
            let is_default = file.except.contains(&value)
                || file.sets == HostKey::Provider && file.provider.is_some() && !is_true(&value);
            if !is_default {
                return Err(file.refusal(provider, &value));
            }
        }
        Ok(())
    }

    fn value_in(&self, file: &HostFile, host: &dyn Host) -> Result<Option<String>, AgentError> {
        let failed = |cause: &dyn fmt::Display| AgentError::OnHost {
            what: format!("cannot look for the provider of {} in {file}: {cause}", self.name),
            hint: "choose one with --provider and set its base_url in config.toml".to_owned(),
        };
        let Some(bytes) = host.file(&file.path).map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes);
        let is_toml = file.path.extension().is_some_and(|extension| extension == "toml");
        let parsed: Option<Value> =
            if is_toml { toml::from_str(&text).ok() } else { serde_json::from_str(&text).ok() };
        let last = file.key.rsplit('.').next().unwrap_or(&file.key);
        let Some(parsed) = parsed else {
            // With comments, or broken: only what might say something is refused.
            let is_named = text.contains(last);
            return if is_named { Err(failed(&"it cannot be parsed")) } else { Ok(None) };
        };
        let value = file.key.split('.').try_fold(&parsed, |value, key| value.get(key));
        Ok(value.and_then(|value| match value {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }))
    }
}

impl fmt::Display for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.path.has_root() { "" } else { "~/" };
        write!(f, "{below}{}", self.path.display())
    }
}

impl HostFile {
    fn refusal(&self, provider: &str, value: &str) -> AgentError {
        let Self { key, .. } = self;
        match self.sets {
            HostKey::BaseUrl => {
                // What is no plain URL may hold a password.
                let url = BaseUrl::with_plain_http(value)
                    .map_or("\"…\"".to_owned(), |url| format!("\"{url}\""));
                AgentError::OnHost {
                    what: format!("{self} has its own {key}, which pinfold does not take over"),
                    hint: format!(
                        "set base_url = {url}, or the provider's own, under [providers.{provider}] in \
                         config.toml"
                    ),
                }
            }
            HostKey::Provider => {
                let wanted =
                    self.provider.clone().unwrap_or_else(|| value.escape_debug().to_string());
                AgentError::OnHost {
                    what: format!(
                        "{self} chooses a provider by {key}, which pinfold does not take over"
                    ),
                    hint: format!(
                        "say --provider {wanted} (api and base_url under [providers.{wanted}] in \
                         config.toml define one), or --provider {provider}"
                    ),
                }
            }
        }
    }
}

impl ProviderPlace {
    /// Finds where a provider is: the user's settings, then variables of the host, then the provider's own.
    ///
    /// # Errors
    /// Returns a variable that cannot be honoured, or a region, project or base URL that is missing.
    pub(crate) fn find(
        provider: &str,
        terms: &Provider,
        auth: &AuthProfile,
        settings: &Settings,
        host: &dyn Host,
    ) -> Result<Self, AgentError> {
        let none = ProviderSettings::default();
        let own = settings.providers.get(provider).unwrap_or(&none);
        let first = |names: &[EnvName]| {
            names.iter().find_map(|name| Some((name.clone(), host.variable(name)?)))
        };
        let cloud = |setting: &Option<Valued<CloudName>>, names: &[EnvName]| {
            if let Some(setting) = setting {
                return Ok(Some(setting.value.clone()));
            }
            let Some((name, value)) = first(names) else { return Ok(None) };
            let parsed = value.parse().map_err(|error| AgentError::OnHost {
                what: format!("{name}: {error}"),
                hint: format!("set it under [providers.{provider}] in config.toml"),
            });
            parsed.map(Some)
        };
        let region = cloud(&own.region, &terms.host.region)?;
        let project = cloud(&own.project, &terms.host.project)?;
        let place = Self { region, project, ..Self::default() };
        if let Some(url) = &own.base_url {
            return Ok(Self { base_url: Some(url.value.clone()), is_users: true, ..place });
        }
        if let Some((name, value)) = first(&terms.host.base_url) {
            let url = value.trim().parse().map_err(|error| refused_url(provider, &name, error))?;
            let variable = Some(name);
            return Ok(Self { base_url: Some(url), is_users: true, variable, ..place });
        }
        let of_mode = auth.base_url.clone();
        let base_url = match &terms.base_url {
            _ if of_mode.is_some() => of_mode,
            Some(template) => Some(
                template
                    .url(place.region.as_ref())
                    .ok_or_else(|| missing(provider, "region", &terms.host.region))?,
            ),
            None => None,
        };
        Ok(Self { base_url, ..place })
    }

    /// Refuses a provider whose terms need what is missing here.
    ///
    /// # Errors
    /// Returns what is missing, and where to set it.
    pub(crate) fn check(&self, provider: &str, terms: &crate::Provider) -> Result<(), AgentError> {
        let Some(api) = terms.api else { return Ok(()) };
        if self.base_url.is_none() {
            return Err(missing(provider, "base_url", &terms.host.base_url));
        }
        if api.is_of_a_cloud() && self.region.is_none() {
            return Err(missing(provider, "region", &terms.host.region));
        }
        if api == Api::Vertex && self.project.is_none() {
            return Err(missing(provider, "project", &terms.host.project));
        }
        Ok(())
    }
}

fn missing(provider: &str, key: &str, variables: &[EnvName]) -> AgentError {
    let or = variables.first().map_or(String::new(), |name| format!(", or {name}"));
    AgentError::OnHost {
        what: format!("provider {provider} needs a {key}"),
        hint: format!("set {key} under [providers.{provider}] in config.toml{or}"),
    }
}

/// Makes the error for a URL, without the value of a variable: it may hold a password.
fn refused_url(provider: &str, name: &EnvName, error: BaseUrlError) -> AgentError {
    let and = if error == BaseUrlError::Plain { " and plain_http = true" } else { "" };
    AgentError::OnHost {
        what: format!("{name} cannot be used: {error}"),
        hint: format!("set base_url{and} under [providers.{provider}] in config.toml"),
    }
}

/// Returns whether agents take the value of a variable for true.
fn is_true(value: &str) -> bool {
    !matches!(value.trim().to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
}

#[cfg(test)]
mod tests;
