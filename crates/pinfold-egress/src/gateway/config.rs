//! What a gateway is made of: keys, routes, credentials.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Uri};
use pinfold_secrets::SecretId;

use super::headers::is_account;
use super::{Budget, CloudPlace, EphemeralKey, Journal, LiveCredential};
use crate::WayOut;

/// Everything a gateway needs. Nothing of it is opened, read or resolved before the first
/// request that needs it.
pub struct GatewayConfig {
    /// The keys that open this gateway; one for each shape that was handed out.
    pub session_keys: Vec<EphemeralKey>,
    /// The providers of the session. The first is the default one.
    pub routes: Vec<Route>,
    /// Where events go.
    pub journal: Arc<dyn Journal>,
    /// What may be used.
    pub budget: Arc<dyn Budget>,
    /// Which authorities vouch for upstream servers.
    pub way: WayOut,
}

/// One provider that the session may use.
#[derive(Clone)]
pub struct Route {
    /// Its name, as in `/p/<provider>/v1/…`.
    pub provider: ProviderId,
    /// The protocol it speaks.
    pub api: Api,
    /// Where it is.
    pub upstream: Upstream,
    /// What to authenticate with.
    pub credential: Credential,
    /// The models that may be asked for; all if absent. A name that ends in `*` stands for all that
    /// begin so.
    pub models: Option<Vec<String>>,
    /// Headers that choose an account of the provider's, by the user's settings. None that the
    /// sandbox sends passes.
    pub account: Vec<AccountHeader>,
    /// Where in a cloud its models are, for an API of a cloud.
    pub cloud: Option<CloudPlace>,
}

/// A header that chooses an account or a route of a provider's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
}

impl AccountHeader {
    /// Checks a header.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadHeader`] when it chooses no account, or cannot be sent.
    pub fn new(name: &str, value: &str) -> Result<Self, ConfigError> {
        let bad = || ConfigError::BadHeader { name: name.to_owned() };
        let name = HeaderName::try_from(name).map_err(|_| bad())?;
        if !is_account(name.as_str()) || !value.is_ascii() {
            return Err(bad());
        }
        Ok(Self { name, value: HeaderValue::try_from(value).map_err(|_| bad())? })
    }
}

/// The protocol of a provider: it decides the form of errors and the header of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions and Responses APIs, and those that imitate them.
    OpenAi,
    /// Google's Gemini API.
    Gemini,
    /// Amazon Bedrock's runtime.
    Bedrock,
    /// Models in Google's Vertex AI.
    Vertex,
}

/// The real credential of a route.
#[derive(Clone)]
pub struct Credential {
    /// How it goes over the wire. The sandbox was set up for this kind: a credential of another
    /// kind by now is refused.
    pub kind: CredentialKind,
    /// Its name in the store, for messages.
    pub id: SecretId,
    /// The header that names a login's account, where the API wants it.
    pub account_header: Option<HeaderName>,
    /// The header of a key, instead of the one that is usual for the API.
    pub key_header: Option<HeaderName>,
    /// Where it comes from. Asked when a request first needs it.
    pub source: Arc<dyn LiveCredential>,
}

/// How a credential goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// `x-api-key: …` for Anthropic, `authorization: Bearer …` for OpenAI.
    ApiKey,
    /// `authorization: Bearer …`.
    Bearer,
    /// `authorization: Bearer …`, and for Anthropic the beta flag that subscription tokens need.
    OAuth,
    /// Not at all: the server asks for none.
    None,
}

/// The name of a provider: `[a-z0-9][a-z0-9._-]*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProviderId(String);

impl ProviderId {
    /// Checks a name.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadProvider`].
    pub fn new(name: impl Into<String>) -> Result<Self, ConfigError> {
        let name = name.into();
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let valid = name.bytes().next().is_some_and(plain)
            && name.bytes().all(|b| plain(b) || b"._-".contains(&b));
        if valid { Ok(Self(name)) } else { Err(ConfigError::BadProvider { name }) }
    }

    /// Returns the name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The base address of a provider's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    pub(super) prefix: String,
    /// Whether `/v1` follows the prefix.
    pub(super) versioned: bool,
}

impl Upstream {
    /// Reads an address such as `https://api.anthropic.com` or `https://host/api/v1`. A final
    /// `/v1` is left out, because every request brings its own.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadUpstream`] when it is no such address, has a user name or a query, or
    /// is plain `http` towards anything but a loopback address.
    pub fn parse(address: &str) -> Result<Self, ConfigError> {
        Self::read(address, is_loopback)
    }

    /// Reads an address that may be plain `http` towards a server of the user's own network.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadUpstream`], except for the host of plain `http`.
    pub fn parse_plain(address: &str) -> Result<Self, ConfigError> {
        Self::read(address, |_| true)
    }

    fn read(address: &str, may_be_plain: fn(&str) -> bool) -> Result<Self, ConfigError> {
        let bad = |reason| ConfigError::BadUpstream { address: redacted(address), reason };
        let uri: Uri = address.parse().map_err(|_| bad("it is no URL"))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(bad("it needs a scheme and a host, as in https://api.example.com"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("a user name or password does not belong in it"));
        }
        if authority.host().is_empty() {
            return Err(bad("it has no host"));
        }
        if scheme == Scheme::HTTP && !may_be_plain(authority.host()) {
            return Err(bad("plain http is allowed only towards a loopback address; use https"));
        }
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(bad("its scheme is not https"));
        }
        let path = parts.path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(bad("a query does not belong in it"));
        }
        let path = path.path().trim_end_matches('/');
        let prefix = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        Ok(Self { scheme, authority, prefix, versioned: true })
    }

    /// Returns the same address, standing in the place of `/v1` instead of before it.
    #[must_use]
    pub fn unversioned(self) -> Self {
        Self { versioned: false, ..self }
    }

    /// Returns the host name or address, without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// Returns the port, given or usual.
    #[must_use]
    pub fn port(&self) -> u16 {
        let usual = if self.scheme == Scheme::HTTPS { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(usual)
    }
}

/// Returns whether a host of a URL is this machine, without asking any resolver.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the address without what might be a password in it.
fn redacted(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => address.to_owned(),
    }
}

/// Why a gateway cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name that no provider can have.
    #[error(
        "`{name}` is not a valid provider name: use a-z, 0-9, `.`, `_` and `-`, beginning with a letter \
         or a digit"
    )]
    BadProvider { name: String },
    /// An address that no upstream can have.
    #[error("`{address}` is not a valid address for a provider: {reason}")]
    BadUpstream {
        /// The address, without a password.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A header that chooses no account.
    #[error(
        "`{name}` is no header by which a provider chooses an account: use one such as \
         OpenAI-Organization, OpenAI-Project or x-goog-user-project, with a value in ASCII"
    )]
    BadHeader { name: String },
    /// Two routes with one name.
    #[error("provider `{provider}` is given twice; give each provider one route")]
    TwoRoutes { provider: ProviderId },
    /// Nothing to serve.
    #[error("a gateway needs at least one provider and one session key")]
    Empty,
}
