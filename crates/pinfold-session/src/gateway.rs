//! The session's end of the gateway: its provider, and its credential outside.

use std::sync::Arc;

use pinfold_egress::{
    AccountHeader, Api, BodyForm, Credential, CredentialKind, EphemeralKey, Gateway, GatewayConfig,
    HeaderName, Journal, LoginTerms, ProviderId, Renewal, Route, Upstream, WayOut,
};
use pinfold_host::Host;
use pinfold_policy::agents::{AuthMode, RefreshForm, RefreshTerms, ResolvedAgent};
use pinfold_policy::prices::Prices;
use pinfold_policy::settings::Settings;
use pinfold_secrets::{SecretId, Store};

use crate::RunError;
use crate::agent::key_for;
use crate::budget::Budgets;
use crate::live::StoreSecret;

/// The gateway's port inside. It lies below 1024, so nothing inside can take it (there is no
/// CAP_NET_BIND_SERVICE), and is on no list of ports that clients refuse (fetch.spec.whatwg.org,
/// "bad port").
pub(crate) const PORT: u16 = 880;

/// The gateway's address as agents are given it.
pub(crate) const GATEWAY_URL: &str = "http://127.0.0.1:880";

/// A model provider for one session.
pub(crate) struct Provider {
    /// The session's key.
    pub(crate) key: EphemeralKey,
    id: ProviderId,
    api: Api,
    upstream: Upstream,
    models: Option<Vec<String>>,
    account: Vec<AccountHeader>,
    kind: CredentialKind,
    secret: SecretId,
    account_header: Option<HeaderName>,
    login: Option<LoginTerms>,
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
    let own = agent.auth.base_url.as_ref().or(agent.terms.base_url.as_ref());
    let own = own.map(|url| url.as_str());
    let chosen = settings.providers.get(&name);
    let users = chosen.and_then(|chosen| chosen.base_url.as_ref());
    let users = users.map(|url| url.value.as_str());
    let account = chosen.iter().flat_map(|chosen| &chosen.account);
    let account = account.map(|(name, value)| AccountHeader::new(name, &value.value));
    let missing = || RunError::refused(format!("provider {name} has no base_url"), None);
    let refused = |error: pinfold_egress::ConfigError| RunError::refused(error, None);
    let upstream = Upstream::parse(users.or(own).ok_or_else(missing)?).map_err(refused)?;
    // A base URL of the user's is that of a server which speaks the API as it is published.
    let upstream =
        if users.is_some() || agent.auth.versioned { upstream } else { upstream.unversioned() };
    let account_header = agent.auth.account_header.as_deref().map(HeaderName::try_from);
    let account_header = account_header.transpose().map_err(|_| {
        RunError::refused(format!("the account_header of provider {name} is not a header"), None)
    })?;
    let api = match agent.terms.api {
        Some(pinfold_policy::agents::Api::Anthropic) => Api::Anthropic,
        Some(pinfold_policy::agents::Api::Gemini) => Api::Gemini,
        Some(pinfold_policy::agents::Api::Openai) | None => Api::OpenAi,
    };
    Ok(Provider {
        key: key_for(&agent.auth.key_prefix, api).map_err(RunError::System)?,
        id: ProviderId::new(name).map_err(refused)?,
        api,
        models: chosen.and_then(|chosen| chosen.models.as_ref()).map(|models| models.value.clone()),
        account: account.collect::<Result<_, _>>().map_err(refused)?,
        upstream,
        kind: match agent.auth_mode {
            Some(AuthMode::Oauth) => CredentialKind::OAuth,
            Some(AuthMode::Gateway) => CredentialKind::Bearer,
            Some(AuthMode::ApiKey) | None => CredentialKind::ApiKey,
        },
        secret,
        account_header,
        login: agent.auth.refresh.as_ref().map(login_terms).transpose().map_err(refused)?,
    })
}

impl Provider {
    /// The gateway for this provider alone. The real credential is read when a request first
    /// needs it, long after init was cloned.
    ///
    /// # Errors
    /// A proxy of the host that cannot be used.
    pub(crate) fn gateway(
        self,
        host: Host<'_>,
        settings: &Settings,
        journal: Arc<dyn Journal>,
    ) -> Result<Gateway, RunError> {
        let way = WayOut::from_environment();
        let way = way.map_err(|error| RunError::refused(&error, Some(error.hint())))?;
        let id = self.secret;
        let secret = StoreSecret::new(id.clone(), host);
        let mut secret = secret.map_err(|error| RunError::refused(error, None))?;
        if let Some(terms) = self.login {
            let store = Store::new(host.places.secrets());
            secret = secret.renewed_by(Renewal::new(store, id.clone(), terms, way.clone()));
        }
        let credential = Credential {
            kind: self.kind,
            id,
            account_header: self.account_header,
            source: Arc::new(secret),
        };
        let route = Route {
            provider: self.id,
            api: self.api,
            upstream: self.upstream,
            credential,
            models: self.models,
            account: self.account,
        };
        let prices = Prices::new(settings.prices.clone());
        let prices = prices.map_err(|error| RunError::refused(error, None))?;
        Gateway::new(GatewayConfig {
            session_keys: vec![self.key],
            routes: vec![route],
            journal,
            budget: Arc::new(Budgets::new(settings.budgets.clone(), prices, host.places)),
            way,
        })
        .map_err(|error| RunError::refused(error, None))
    }
}

fn login_terms(terms: &RefreshTerms) -> Result<LoginTerms, pinfold_egress::ConfigError> {
    let form = match terms.form {
        RefreshForm::Json => BodyForm::Json,
        RefreshForm::Form => BodyForm::Form,
    };
    LoginTerms::new(terms.token_url.as_str(), &terms.client_id, form)
}
