//! The session's end of the gateway: its provider, and its credential outside.

use std::sync::Arc;

use pinfold_egress::{
    Api, Credential, CredentialKind, EphemeralKey, Gateway, GatewayConfig, Journal, ProviderId,
    Route, TrustRoots, Upstream,
};
use pinfold_policy::agents::{AuthMode, ResolvedAgent};
use pinfold_policy::settings::Settings;
use pinfold_secrets::{SecretId, Store};

use crate::RunError;
use crate::agent::key_for;
use crate::launcher::Launcher;
use crate::places::Places;

/// The gateway's port inside. It lies below 1024, so nothing inside can take it (there is no
/// CAP_NET_BIND_SERVICE), and is on no list of ports that clients refuse (fetch.spec.whatwg.org,
/// "bad port").
pub(crate) const PORT: u16 = 880;

/// The gateway's address as agents are given it.
pub(crate) const GATEWAY_URL: &str = "http://127.0.0.1:880";

/// A model provider for one session.
pub struct Provider {
    /// The session's key.
    pub(crate) key: EphemeralKey,
    id: ProviderId,
    api: Api,
    upstream: Upstream,
    kind: CredentialKind,
    secret: SecretId,
}

/// The provider of an agent, with the user's base URL where there is one.
///
/// # Errors
/// A base URL that cannot be used.
pub(crate) fn provider(
    agent: &ResolvedAgent,
    secret: SecretId,
    settings: &Settings,
) -> Result<Provider, RunError> {
    let name = agent.provider.clone().unwrap_or_else(|| agent.profile.name.clone());
    let own = agent.terms.base_url.as_ref().map(|url| url.as_str());
    let users = settings.providers.get(&name).map(|url| url.value.as_str());
    let missing = || RunError::refused(format!("provider {name} has no base_url"), None);
    let upstream = Upstream::parse(users.or(own).ok_or_else(missing)?)
        .map_err(|error| RunError::refused(error, None))?;
    let anthropic = agent.terms.api == Some(pinfold_policy::agents::Api::Anthropic);
    Ok(Provider {
        key: key_for(&agent.key_prefix, anthropic).map_err(RunError::System)?,
        id: ProviderId::new(name).map_err(|error| RunError::refused(error, None))?,
        api: if anthropic { Api::Anthropic } else { Api::OpenAi },
        upstream,
        kind: match agent.auth_mode {
            Some(AuthMode::Oauth) => CredentialKind::OAuth,
            Some(AuthMode::Gateway) => CredentialKind::Bearer,
            Some(AuthMode::ApiKey) | None => CredentialKind::ApiKey,
        },
        secret,
    })
}

impl Provider {
    /// The gateway for this provider alone. The real credential is read when a request first
    /// needs it, long after init was cloned.
    ///
    /// # Errors
    /// Never for a configuration made here.
    pub(crate) fn gateway(
        self,
        places: &Places,
        journal: Arc<dyn Journal>,
    ) -> Result<Gateway, RunError> {
        let store = Store::new(places.secrets());
        let id = self.secret.clone();
        let secret = move || store.resolve(&id, &Launcher).map(|resolved| resolved.secret);
        let route = Route {
            provider: self.id,
            api: self.api,
            upstream: self.upstream,
            credential: Credential { kind: self.kind, id: self.secret, secret: Arc::new(secret) },
        };
        Gateway::new(GatewayConfig {
            session_keys: vec![self.key],
            routes: vec![route],
            journal,
            roots: TrustRoots::System,
        })
        .map_err(|error| RunError::refused(error, None))
    }
}
