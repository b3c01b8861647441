//! The session's end of the gateway: its provider, and its credential outside.

use std::sync::Arc;

use pinfold_agents::{AuthMode, RefreshForm, RefreshTerms, ResolvedAgent};
use pinfold_egress::{
    AccountHeader, Api, BodyForm, CloudPlace, Credential, CredentialKind, EphemeralKey, Gateway,
    GatewayConfig, HeaderName, Journal, LoginTerms, ProviderId, Renewal, Route, Upstream, WayOut,
};
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_policy::prices::Prices;
use pinfold_policy::settings::{Api as ProvidersApi, Settings};
use pinfold_secrets::{SecretId, Store};

use crate::RunError;
use crate::agent::key_for;
use crate::doors::live_secret::StoreSecret;
use pinfold_budget::Budgets;

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
    key_header: Option<HeaderName>,
    cloud: Option<CloudPlace>,
    store: Store,
    login: Option<LoginTerms>,
}

/// Returns the provider of an agent where [`ResolvedAgent::located`] has found it.
///
/// # Errors
/// Returns an error for a base URL that cannot be used.
pub(crate) fn provider(
    agent: &ResolvedAgent,
    secret: SecretId,
    settings: &Settings,
    places: &Places,
) -> Result<Provider, RunError> {
    let name = agent.provider.clone().unwrap_or_else(|| agent.profile.name.clone());
    let chosen = settings.providers.get(&name);
    let account = chosen
        .iter()
        .flat_map(|chosen| &chosen.account)
        .map(|(name, value)| AccountHeader::new(name, &value.value));
    let missing = || RunError::refused(format!("provider {name} has no base_url"), None);
    let refused = |error: pinfold_egress::ConfigError| RunError::refused(error, None);
    let url = agent.place.base_url.as_ref().ok_or_else(missing)?.as_str();
    // Only settings have a URL with plain http, and only where the user has said so.
    let parse = if agent.place.is_users { Upstream::parse_plain } else { Upstream::parse };
    let upstream = parse(url).map_err(refused)?;
    // A base URL of the user's is that of a server which speaks the API as it is published.
    let upstream = if agent.place.is_users || agent.auth.versioned {
        upstream
    } else {
        upstream.unversioned()
    };
    let header = |key: &str, header: Option<&String>| {
        let parsed = header.map(|header| HeaderName::try_from(header.as_str())).transpose();
        parsed.map_err(|_| {
            RunError::refused(format!("the {key} of provider {name} is not a header"), None)
        })
    };
    let account_header = header("account_header", agent.auth.account_header.as_ref())?;
    let key_header = header("key_header", agent.terms.key_header.as_ref())?;
    let cloud = agent
        .place
        .region
        .as_ref()
        .filter(|_| agent.terms.api.is_some_and(ProvidersApi::is_of_a_cloud))
        .map(|region| CloudPlace {
            region: region.to_string(),
            project: agent.place.project.as_ref().map(ToString::to_string),
        });
    let api = match agent.terms.api {
        Some(ProvidersApi::Anthropic) => Api::Anthropic,
        Some(ProvidersApi::Gemini) => Api::Gemini,
        Some(ProvidersApi::Bedrock) => Api::Bedrock,
        Some(ProvidersApi::Vertex) => Api::Vertex,
        Some(ProvidersApi::Openai) | None => Api::OpenAi,
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
            Some(AuthMode::None) => CredentialKind::None,
            Some(AuthMode::ApiKey) | None => CredentialKind::ApiKey,
        },
        store: store(agent, &secret, places)?,
        secret,
        account_header,
        key_header,
        cloud,
        login: agent.auth.refresh.as_ref().map(login_terms).transpose().map_err(refused)?,
    })
}

/// Returns the store in which the credential of an agent's provider is looked for: also in the
/// provider's own variable.
///
/// # Errors
/// Returns an error for a variable with a name that none can have.
pub(crate) fn store(
    agent: &ResolvedAgent,
    id: &SecretId,
    places: &Places,
) -> Result<Store, RunError> {
    let store = Store::new(places.secrets());
    let Some(variable) = &agent.terms.env_var_name else { return Ok(store) };
    let variable = pinfold_secrets::EnvName::new(variable.as_str())
        .map_err(|error| RunError::refused(error, None))?;
    let auth = match agent.terms.default_auth_mode {
        Some(AuthMode::Oauth) => pinfold_secrets::AuthMode::Oauth,
        Some(AuthMode::Gateway) => pinfold_secrets::AuthMode::Gateway,
        Some(AuthMode::ApiKey | AuthMode::None) | None => pinfold_secrets::AuthMode::ApiKey,
    };
    Ok(store.with_variable(id.clone(), variable, auth))
}

impl Provider {
    /// Returns the gateway for this provider alone. The real credential is read when a request first
    /// needs it, long after init was cloned.
    ///
    /// # Errors
    /// Returns an error for a proxy of the host that cannot be used.
    pub(crate) fn gateway(
        self,
        host: Host<'_>,
        settings: &Settings,
        journal: Arc<dyn Journal>,
    ) -> Result<Gateway, RunError> {
        let way = WayOut::from_environment()
            .map_err(|error| RunError::refused(&error, Some(error.hint())))?;
        let id = self.secret;
        let mut secret = StoreSecret::of(self.store, id.clone(), host)
            .map_err(|error| RunError::refused(error, None))?;
        if let Some(terms) = self.login {
            let store = Store::new(host.places.secrets());
            secret = secret.renewed_by(Renewal::new(store, id.clone(), terms, way.clone()));
        }
        let credential = Credential {
            kind: self.kind,
            id,
            account_header: self.account_header,
            key_header: self.key_header,
            source: Arc::new(secret),
        };
        let route = Route {
            provider: self.id,
            api: self.api,
            upstream: self.upstream,
            credential,
            models: self.models,
            account: self.account,
            cloud: self.cloud,
        };
        let prices = prices(settings)?;
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

/// Returns what models cost.
fn prices(settings: &Settings) -> Result<Prices, RunError> {
    Prices::new(settings.prices.clone()).map_err(|error| RunError::refused(error, None))
}

/// Returns the model that was chosen, if money is limited and no price of it is known. A name without a
/// digit may be an agent's alias (`sonnet`): only a request says which model that is.
///
/// # Errors
/// Returns an error for a list of prices that cannot be read.
pub(crate) fn unpriced<'a>(
    agent: &'a ResolvedAgent,
    settings: &Settings,
) -> Result<Option<&'a str>, RunError> {
    let prices = prices(settings)?;
    let is_limited = settings.budgets.iter().any(|budget| budget.usd.is_some());
    // claude's `opus[1m]` is `opus` with a larger context.
    let model = agent.model_id().filter(|_| is_limited).and_then(|model| model.split('[').next());
    let is_name = |model: &&str| model.contains(|c: char| c.is_ascii_digit());
    Ok(model.filter(is_name).filter(|model| prices.of(model).is_none()))
}

fn login_terms(terms: &RefreshTerms) -> Result<LoginTerms, pinfold_egress::ConfigError> {
    let form = match terms.form {
        RefreshForm::Json => BodyForm::Json,
        RefreshForm::Form => BodyForm::Form,
    };
    LoginTerms::new(terms.token_url.as_str(), &terms.client_id, form)
}
