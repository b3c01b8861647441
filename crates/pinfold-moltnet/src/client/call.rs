//! Requests to a server: with credentials, and again where that may help.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use pinfold_egress::percent;
use pinfold_policy::path::is_plain;
use zeroize::Zeroizing;

use super::api::{ApiAnswer, ApiClient, ApiError};
use super::credentials::{Credentials, Kind};
use crate::scope::Scope;
use pinfold_content::{Uuid, Value, read};

/// The largest answer, in bytes. A page of ten tasks with the largest inputs fits.
const LARGEST: usize = 16 << 20;
/// How often a request is sent at most that comes too soon, and how long is waited in between.
const SENT_AT_MOST: u32 = 4;
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long before its end a token is renewed.
const EARLY: Duration = Duration::from_secs(30);
/// The longest time that a token is used for.
const LONGEST_TOKEN: Duration = Duration::from_secs(86_400);
/// The longest token, in bytes.
const LARGEST_TOKEN: usize = 16 << 10;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    body: Body,
}

/// What a request sends.
#[derive(Clone, Debug)]
enum Body {
    None,
    Json(Value),
    Bytes(Vec<u8>),
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server says no.
    #[error("{text}")]
    Status {
        status: u16,
        /// What it says, with the status.
        text: String,
        /// What it says alone: its title and its detail, where it gives them.
        problem: String,
    },
    /// The credentials are worth nothing.
    #[error("the server rejected the credentials: {0}")]
    Rejected(String),
    /// There is no answer, or none that can be read.
    #[error("the server cannot be used: {0}")]
    Unreachable(String),
    /// This worker does not hold the attempt any more.
    #[error("the attempt is not held any more")]
    Gone,
    /// Something on this machine.
    #[error("{0}")]
    Local(String),
}

impl Error {
    /// Returns whether the same may succeed a moment later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            Self::Unreachable(_) => true,
            Self::Rejected(_) | Self::Gone | Self::Local(_) => false,
        }
    }

    /// Returns whether it is the server that fails, and not the request.
    pub(super) fn is_trouble(&self) -> bool {
        self.is_transient() || matches!(self, Self::Rejected(_))
    }
}

impl Call {
    pub(super) fn new(method: Method, path: &str, body: Value) -> Self {
        Self { method, path: path.to_owned(), body: Body::Json(body) }
    }

    /// Returns a request that sends a file.
    pub(super) fn put(path: &str, bytes: &[u8]) -> Self {
        Self { method: Method::PUT, path: path.to_owned(), body: Body::Bytes(bytes.to_owned()) }
    }

    pub(super) fn delete(path: &str) -> Self {
        Self { method: Method::DELETE, path: path.to_owned(), body: Body::None }
    }

    pub(super) fn get(path: &str) -> Self {
        Self { method: Method::GET, path: path.to_owned(), body: Body::None }
    }
}

/// Sends requests to one server.
pub(super) struct Calls {
    api: ApiClient,
    credentials: Credentials,
    team: Option<Uuid>,
    /// What tokens are asked for.
    scopes: &'static [Scope],
    token: Mutex<Option<Token>>,
    /// How long a request may take with all that it waits for.
    patience: Duration,
}

struct Token {
    text: Zeroizing<String>,
    until: Instant,
}

impl Calls {
    pub(super) fn new(
        api: ApiClient,
        credentials: Credentials,
        team: Option<Uuid>,
        scopes: &'static [Scope],
        patience: Duration,
    ) -> Self {
        Self { api, credentials, team, scopes, token: Mutex::default(), patience }
    }

    /// Sends a request and returns its answer.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success, or that cannot be read.
    pub(super) fn send(&self, call: &Call) -> Result<Value, Error> {
        json(&self.fetch(call, LARGEST)?)
    }

    /// Sends a request and returns the bytes of its answer, which may have so many.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success.
    pub(super) fn fetch(&self, call: &Call, most: usize) -> Result<Vec<u8>, Error> {
        let until = Instant::now() + self.patience;
        let mut bearer = self.bearer(until)?;
        let mut answer = self.patiently(call, &bearer, most, until)?;
        // A token may have ended early. A key is what it is.
        if answer.status == 401 && matches!(self.credentials.kind(), Kind::Client { .. }) {
            self.drop_token(&bearer);
            bearer = self.bearer(until)?;
            answer = self.patiently(call, &bearer, most, until)?;
        }
        match answer.status.as_u16() {
            200..=299 => Ok(answer.body),
            401 => Err(Error::Rejected(self.said(&answer, Some(&bearer)))),
            _ => Err(self.status(&answer, Some(&bearer))),
        }
    }

    /// Sends a request again that came too soon, unless there is no time left for it.
    fn patiently(
        &self,
        call: &Call,
        bearer: &str,
        most: usize,
        until: Instant,
    ) -> Result<ApiAnswer, Error> {
        let mut pause = Duration::from_secs(1);
        for _ in 1..SENT_AT_MOST {
            let answer = self.exchange(call, bearer, most, until)?;
            if answer.status != 429 {
                return Ok(answer);
            }
            let asked = answer
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok())
                .and_then(|text| text.parse().ok())
                .map(Duration::from_secs);
            let wait = asked.unwrap_or(pause).min(LONGEST_WAIT);
            if wait >= until.saturating_duration_since(Instant::now()) {
                return Ok(answer);
            }
            std::thread::sleep(wait);
            pause *= 2;
        }
        self.exchange(call, bearer, most, until)
    }

    fn exchange(
        &self,
        call: &Call,
        bearer: &str,
        most: usize,
        until: Instant,
    ) -> Result<ApiAnswer, Error> {
        let mut headers = HeaderMap::new();
        let unusable = |_| Error::Local("a header cannot be sent".to_owned());
        let value = Zeroizing::new(format!("Bearer {bearer}"));
        let mut value = HeaderValue::from_str(&value).map_err(unusable)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        if let Some(team) = &self.team {
            let value = HeaderValue::from_str(&team.to_string()).map_err(unusable)?;
            headers.insert(HeaderName::from_static("x-moltnet-team-id"), value);
        }
        let mut typed = |kind| headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let body = match &call.body {
            Body::Json(body) => {
                typed("application/json");
                body.to_string().into_bytes()
            }
            Body::Bytes(bytes) => {
                typed("application/octet-stream");
                bytes.clone()
            }
            Body::None => Vec::new(),
        };
        let answer = self.api.send(call.method.clone(), &call.path, headers, body, most, until);
        answer.map_err(unreachable)
    }

    /// Returns what requests prove with who the worker is.
    fn bearer(&self, until: Instant) -> Result<Zeroizing<String>, Error> {
        match self.credentials.kind() {
            Kind::None => Err(Error::Local("there are no credentials".to_owned())),
            Kind::Key(key) => Ok(key.clone()),
            Kind::Client { id, secret } => {
                // Another call may be waiting for one.
                let late = || unreachable(ApiError::Timeout);
                let mut token = self.token.try_lock_until(until).ok_or_else(late)?;
                if let Some(token) = token.as_ref().filter(|token| Instant::now() < token.until) {
                    return Ok(token.text.clone());
                }
                let new = self.grant(id, secret, until)?;
                Ok(token.insert(new).text.clone())
            }
        }
    }

    fn drop_token(&self, bearer: &str) {
        let mut token = self.token.lock();
        if token.as_ref().is_some_and(|token| token.text.as_str() == bearer) {
            *token = None;
        }
    }

    /// Gets a token for the secret (RFC 6749, 4.4).
    fn grant(&self, id: &str, secret: &str, until: Instant) -> Result<Token, Error> {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.word()).collect();
        let form = Zeroizing::new(format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}",
            percent::encoded(id),
            percent::encoded(secret),
            percent::encoded(&scopes.join(" "))
        ));
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, kind);
        let body = form.as_bytes().to_vec();
        let answer = self
            .api
            .send(Method::POST, "/oauth2/token", headers, body, LARGEST_TOKEN, until)
            .map_err(unreachable)?;
        match answer.status.as_u16() {
            200..=299 => {}
            429 | 500.. => return Err(self.status(&answer, None)),
            _ => return Err(Error::Rejected(self.said(&answer, None))),
        }
        let granted = json(&answer.body)?;
        let text = granted
            .text_of("access_token")
            .map(|text| Zeroizing::new(text.into_owned()))
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
            .filter(|text| !text.is_empty())
            .ok_or_else(|| Error::Unreachable("it gave no token".to_owned()))?;
        let lasts = granted.get("expires_in").and_then(Value::as_count).unwrap_or(0);
        let lasts = Duration::from_secs(lasts).min(LONGEST_TOKEN).saturating_sub(EARLY);
        Ok(Token { text, until: Instant::now() + lasts })
    }

    fn status(&self, answer: &ApiAnswer, bearer: Option<&str>) -> Error {
        let text = self.said(answer, bearer);
        let status = answer.status.as_u16();
        // The form that the original's client has.
        let own = format!("HTTP {status}: ");
        let problem = text.strip_prefix(&own).unwrap_or(&text).to_owned();
        Error::Status { status, text, problem }
    }

    /// Returns what an answer says went wrong, on one line that drives no terminal. A server that repeats a secret does
    /// not get it into a message.
    fn said(&self, answer: &ApiAnswer, bearer: Option<&str>) -> String {
        const LONGEST: usize = 500;
        let body = json(&answer.body).unwrap_or(Value::Null);
        let mut said = format!("HTTP {}", answer.status.as_u16());
        let shown = |text: &str| {
            // Before secrets are looked for: what is left out may have been within one.
            let text: String = text.chars().filter(|letter| is_plain(*letter)).collect();
            self.scrubbed(text, bearer).chars().take(LONGEST).collect::<String>()
        };
        for name in ["title", "detail", "error", "error_description"] {
            if let Some(text) = body.text_of(name) {
                let _ = write!(said, ": {}", shown(&text));
            }
        }
        let errors = body.get("errors").and_then(Value::as_array).unwrap_or_default();
        for error in errors.iter().take(5) {
            let field = |name| error.text_of(name).unwrap_or_default();
            let _ = write!(said, "; {}: {}", shown(&field("field")), shown(&field("message")));
        }
        said
    }

    /// Returns a text without the secrets of this worker and the token that it used, as they are or encoded.
    fn scrubbed(&self, text: String, bearer: Option<&str>) -> Zeroizing<String> {
        let mut text = Zeroizing::new(text);
        let mut remove = |secret: &str| {
            for secret in [secret, &Zeroizing::new(percent::encoded(secret))] {
                *text = text.replace(secret, "…");
            }
        };
        match self.credentials.kind() {
            Kind::None => {}
            Kind::Key(key) => remove(key),
            Kind::Client { secret, .. } => remove(secret),
        }
        bearer.into_iter().for_each(remove);
        text
    }
}

fn json(body: &[u8]) -> Result<Value, Error> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::Unreachable("its answer is not UTF-8".to_owned()))?;
    read(text).map_err(|error| Error::Unreachable(format!("its answer is {error}")))
}

fn unreachable(error: ApiError) -> Error {
    Error::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests;
