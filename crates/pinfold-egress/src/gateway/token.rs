//! One question to a login's server: a new access token for a refresh token (RFC 6749, 6).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use pinfold_secrets::{Login, Secret};
use tower_service::Service as _;

use super::config::{ConfigError, Upstream};
use crate::WayOut;
use crate::percent;
use crate::upstream::{Connector, Failure, Offer};

/// Time for the whole exchange. Long: once the question is sent, giving up may lose the answer.
const LIMIT: Duration = Duration::from_secs(30);

/// Largest answer, in bytes.
const MAX_ANSWER: usize = 256 * 1024;

/// Where and how a login is refreshed. From the provider's profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginTerms {
    url: Uri,
    client_id: String,
    form: BodyForm,
}

/// The form of the question's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// JSON.
    Json,
    /// `application/x-www-form-urlencoded`, as RFC 6749 has it.
    Form,
}

/// What the server gave.
pub(super) struct Tokens {
    access: Secret,
    refresh: Option<Secret>,
    /// Seconds.
    expires_in: Option<u64>,
}

/// Why it gave nothing.
pub(super) enum TokenError {
    /// It refuses the refresh token (RFC 6749, 5.2).
    Refused,
    /// Anything that may be otherwise the next time.
    Failed(String),
}

impl LoginTerms {
    /// Checks the address: https, or http towards this machine.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadUpstream`].
    pub fn new(
        url: &str,
        client_id: impl Into<String>,
        form: BodyForm,
    ) -> Result<Self, ConfigError> {
        Upstream::parse(url)?;
        let bad = |_| ConfigError::BadUpstream { address: url.to_owned(), reason: "it is no URL" };
        Ok(Self { url: url.parse().map_err(bad)?, client_id: client_id.into(), form })
    }
}

impl Tokens {
    /// Returns the login with these tokens. A server that sends no new refresh token leaves the old one
    /// in force (RFC 6749, 6).
    pub(super) fn into_login(self, old: &Login, now: u64) -> Login {
        let copy = |secret: &Secret| Secret::from_bytes(secret.expose().as_bytes().to_vec()).ok();
        Login {
            access: self.access,
            refresh: self.refresh.or_else(|| old.refresh.as_ref().and_then(copy)),
            expires_at: self
                .expires_in
                .map(|seconds| now.saturating_add(seconds.saturating_mul(1000))),
            refreshed_at: Some(now),
            account: old.account.clone(),
        }
    }
}

/// Asks for new tokens. Blocks; must not be called on a thread that drives a runtime.
pub(super) fn refresh(
    terms: &LoginTerms,
    refresh: &Secret,
    way: &WayOut,
) -> Result<Tokens, TokenError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| TokenError::Failed(error.to_string()))?;
    let host = terms.url.host().unwrap_or_default();
    let failed = |cause: String| TokenError::Failed(format!("{host}: {cause}"));
    let asking = async { tokio::time::timeout(LIMIT, ask(terms, refresh, way)).await };
    let (status, body) = runtime
        .block_on(asking)
        .map_err(|_| failed(format!("no answer within {} seconds", LIMIT.as_secs())))?
        .map_err(failed)?;
    match status {
        StatusCode::OK => tokens(&body).ok_or_else(|| failed("an answer without a token".into())),
        // RFC 6749, 5.2 has 400 for a grant that is refused; OpenAI's server says 401.
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED => Err(TokenError::Refused),
        StatusCode::FORBIDDEN if says_invalid_grant(&body) => Err(TokenError::Refused),
        status => Err(failed(format!("it answered {status}"))),
    }
}

async fn ask(
    terms: &LoginTerms,
    refresh: &Secret,
    way: &WayOut,
) -> Result<(StatusCode, Bytes), String> {
    let connecting = Connector::new(way.clone(), Offer::Http1).call(terms.url.clone());
    let stream = connecting.await.map_err(|error| error.to_string())?;
    let broke =
        |error: hyper::Error| format!("the connection broke: {}", Failure::innermost(&error));
    let (mut sender, connection) = http1::handshake(stream).await.map_err(broke)?;
    tokio::spawn(connection);
    let request = question(terms, refresh).map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(broke)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
}

fn question(terms: &LoginTerms, refresh: &Secret) -> Result<Request<Full<Bytes>>, http::Error> {
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.expose()),
        ("client_id", terms.client_id.as_str()),
    ];
    let (content_type, body) = match terms.form {
        BodyForm::Json => {
            let object: serde_json::Map<_, _> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            ("application/json", serde_json::Value::Object(object).to_string())
        }
        BodyForm::Form => {
            let pair = |(name, value): &(&str, &str)| format!("{name}={}", percent::encoded(value));
            let pairs: Vec<String> = fields.iter().map(pair).collect();
            ("application/x-www-form-urlencoded", pairs.join("&"))
        }
    };
    let authority = terms.url.authority().map_or("", |authority| authority.as_str());
    let target = terms.url.path_and_query().map_or("/", |path| path.as_str());
    Request::post(target)
        .header(HOST, authority)
        .header(CONTENT_TYPE, content_type)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("pinfold/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(body)))
}

fn tokens(body: &[u8]) -> Option<Tokens> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let secret = |text: &str| Secret::from_bytes(text.as_bytes().to_vec()).ok();
    let access = secret(answer["access_token"].as_str()?)?;
    let refresh = match answer["refresh_token"].as_str() {
        Some(text) => Some(secret(text)?),
        None => None,
    };
    Some(Tokens { access, refresh, expires_in: answer["expires_in"].as_u64() })
}

fn says_invalid_grant(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"invalid_grant").is_some()
}
