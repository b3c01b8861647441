//! Which agent, provider and credential a run has.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pinfold_agents::{AgentError, AuthMode, Host, MOST_READ, ResolvedAgent, Selection};
use pinfold_host::directories::Places;
use pinfold_policy::env::EnvName;
use pinfold_policy::settings::Settings;
use pinfold_secrets::SecretId;
use pinfold_terminal::notify;

use super::{AgentFiles, refused};
use crate::RunError;
use crate::doors::gateway;

/// Returns the agent as settings, flags and credentials make it. Reads no secret.
///
/// # Errors
/// Returns an error for an unknown agent or provider, or no credential, each with the hint.
pub(crate) fn resolve(
    name: &str,
    settings: &Settings,
    places: &Places,
) -> Result<(ResolvedAgent, Option<SecretId>), RunError> {
    let files = AgentFiles::read(places)?;
    let profile = files.registry().load(name).map_err(|error| {
        let command =
            || format!("a command goes after `--`: pinfold run -- {}", name.escape_debug());
        match error {
            AgentError::Unknown { .. } => RunError::refused(error.to_string(), Some(command())),
            error => refused(error),
        }
    })?;
    let host = ThisHost { home: &places.home };
    let given = settings.scalars.provider.as_ref().map(|provider| provider.value.clone());
    let chosen = match given {
        Some(given) => Some(given),
        None => profile.chosen_on_host(&host).map_err(not_chosen)?.map(|(provider, variable)| {
            notify!("pinfold: note: provider {provider} ({variable})");
            provider
        }),
    };
    let provider = chosen.as_deref();
    let model = settings.scalars.model.as_ref().map(|model| model.value.as_str());
    let own = provider.and_then(|name| settings.providers.get(name));
    let select = |auth_mode| Selection { provider, model, auth_mode, settings: own };
    let first = profile.clone().resolve(select(None)).map_err(not_chosen)?;
    let Some(secret) = first.terms.secret.clone().filter(|_| first.terms.api.is_some()) else {
        return Ok((first, None));
    };
    let id = SecretId::new(secret).map_err(refused)?;
    let resolved = match auth_mode(&first, &id, settings, places)? {
        AuthMode::None => {
            let mut keyless = first;
            keyless.auth_mode = Some(AuthMode::None);
            keyless
        }
        mode => profile.resolve(select(Some(mode))).map_err(not_chosen)?,
    };
    let resolved = resolved.located(settings, &host).map_err(not_chosen)?;
    if let (Some(variable), Some(url)) = (&resolved.place.variable, &resolved.place.base_url) {
        notify!("pinfold: note: requests to models go to {url} ({variable})");
    }
    if let Some(model) = gateway::unpriced(&resolved, settings)? {
        notify!(
            "pinfold: note: money is limited, and no price of the model {model} is known, so requests for \
             it are refused: set [prices.\"{model}\"] in config.toml, or limit tokens instead \
             (--budget-tokens)"
        );
    }
    Ok((resolved, Some(id)))
}

/// Returns the kind of credential that is there for the provider.
///
/// # Errors
/// Returns an error if it is missing, and the provider needs one.
fn auth_mode(
    agent: &ResolvedAgent,
    id: &SecretId,
    settings: &Settings,
    places: &Places,
) -> Result<AuthMode, RunError> {
    let provider = agent.provider.as_deref().unwrap_or(&agent.profile.name);
    let own = settings.providers.get(provider).and_then(|own| own.keyless.as_ref());
    if own.is_some_and(|keyless| keyless.value) {
        return Ok(AuthMode::None);
    }
    let report = gateway::store(agent, id, places)?.check(id).map_err(refused)?;
    match report.found.map(|found| found.auth) {
        Some(pinfold_secrets::AuthMode::ApiKey) => Ok(AuthMode::ApiKey),
        Some(pinfold_secrets::AuthMode::Oauth) => Ok(AuthMode::Oauth),
        Some(pinfold_secrets::AuthMode::Gateway) => Ok(AuthMode::Gateway),
        None if agent.terms.default_auth_mode == Some(AuthMode::None) => Ok(AuthMode::None),
        None => {
            let looked: Vec<String> = report.looked.iter().map(|l| l.place.to_string()).collect();
            let what = format!("no credential for {provider}: looked at {}", looked.join(", "));
            let from = match agent.terms.secret_command.as_slice() {
                [] => String::new(),
                command => format!(" --from-command {}", command.join(" ")),
            };
            Err(RunError::refused(
                what,
                Some(format!("set one with `pinfold secret set {id}{from}`")),
            ))
        }
    }
}

/// This machine, as far as choosing a provider needs it.
pub(super) struct ThisHost<'a> {
    pub(super) home: &'a Path,
}

impl Host for ThisHost<'_> {
    fn variable(&self, name: &EnvName) -> Option<String> {
        std::env::var(name.as_str()).ok().filter(|value| !value.is_empty())
    }

    fn file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened =
            fs::OpenOptions::new().read(true).custom_flags(flags).open(self.home.join(path));
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MOST_READ).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}

fn not_chosen(error: AgentError) -> RunError {
    let hint = error.hint();
    match (refused(error), hint) {
        (RunError::Refused(what), Some(hint)) => RunError::refused(what, Some(hint)),
        (error, _) => error,
    }
}
