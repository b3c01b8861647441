//! The real credential of one route, from the first request that needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use pinfold_secrets::Secret;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::config::{Api, Credential, CredentialKind, Route};
use super::live::{Current, Lack, LiveCredential, Renewed, Times, now};
use super::sigv4::AwsKeys;

const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// Without this flag Anthropic's API refuses a subscription token.
const OAUTH_BETA: &str = "oauth-2025-04-20";

/// The longest wait for a credential: a keyring or a command may ask a user first.
const RESOLVE_LIMIT: Duration = Duration::from_secs(60);

/// How long a value is used without asking its source again, if that shows no change. What a
/// command gives may be short-lived.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// Pauses between attempts to refresh a token that is still good: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Holds a credential once it has been resolved. Requests that come while that goes on wait for it.
#[derive(Default)]
pub(super) struct Slot {
    held: tokio::sync::Mutex<Option<Held>>,
    aside: Arc<Aside>,
}

struct Held {
    stamp: u64,
    since: Instant,
    ready: Arc<Ready>,
    times: Option<Times>,
}

/// The refresh that goes on while a token is still good.
#[derive(Default)]
struct Aside {
    goes_on: AtomicBool,
    rest: Mutex<Rest>,
}

/// The pause after attempts that failed.
#[derive(Default)]
struct Rest {
    until: Option<Instant>,
    last: Option<Duration>,
}

/// A credential as it goes into a request.
pub(super) struct Ready {
    /// None for a server that asks for no credential.
    secret: Option<Secret>,
    header: Option<(HeaderName, HeaderValue)>,
    /// Keys that sign each request instead of a header.
    aws: Option<AwsKeys>,
    beta: bool,
    account: Option<(HeaderName, HeaderValue)>,
}

impl Slot {
    /// Returns the credential as it is now. It is read again, on a thread that may block, when its
    /// source has changed. A login that has ended is refreshed first; one that ends soon is refreshed in
    /// the background.
    pub(super) async fn get(&self, route: &Route) -> Result<Arc<Ready>, Lack> {
        if route.credential.kind == CredentialKind::None {
            return Ok(Arc::new(Ready::none()));
        }
        let mut slot = self.held.lock().await;
        let held = read(&mut slot, route).await?;
        match held.times {
            Some(times) if times.until <= now() => {
                renewed(&route.credential.source, None).await?;
                Ok(Arc::clone(&read(&mut slot, route).await?.ready))
            }
            Some(times) if times.renew_at <= now() => {
                self.renew_aside(&route.credential.source);
                Ok(Arc::clone(&held.ready))
            }
            Some(_) | None => Ok(Arc::clone(&held.ready)),
        }
    }

    /// Deals with a credential that the upstream has refused: a login is refreshed, and everything
    /// is read again for the next request.
    pub(super) async fn refused(&self, route: &Route, ready: &Ready) -> Result<Renewed, Lack> {
        let mut slot = self.held.lock().await;
        *slot = None;
        renewed(&route.credential.source, Some(ready)).await
    }

    /// Refreshes a login while its token still serves.
    fn renew_aside(&self, source: &Arc<dyn LiveCredential>) {
        if self.aside.rests() || self.aside.goes_on.swap(true, Ordering::SeqCst) {
            return;
        }
        let (aside, source) = (Arc::clone(&self.aside), Arc::clone(source));
        // Nobody waits for it: the next request finds what came of it.
        drop(spawn_blocking(move || {
            let failed = source.renew(None).is_err();
            aside.rest(failed);
            aside.goes_on.store(false, Ordering::SeqCst);
        }));
    }
}

impl Aside {
    fn rests(&self) -> bool {
        self.rest.lock().until.is_some_and(|until| Instant::now() < until)
    }

    fn rest(&self, failed: bool) {
        let mut rest = self.rest.lock();
        let pause = rest.last.map_or(FIRST_PAUSE, |last| (last * 2).min(LONGEST_PAUSE));
        rest.last = failed.then_some(pause);
        rest.until = rest.last.map(|pause| Instant::now() + pause);
    }
}

/// Returns what the slot holds, read again if need be.
async fn read<'s>(slot: &'s mut Option<Held>, route: &Route) -> Result<&'s Held, Lack> {
    let source = &route.credential.source;
    let stamp = source.stamp();
    let held = slot.take().filter(|held| held.stamp == stamp && held.since.elapsed() < KEPT);
    let held = match held {
        Some(held) => held,
        None => {
            let source = Arc::clone(source);
            let resolving = timeout(RESOLVE_LIMIT, spawn_blocking(move || source.current()));
            let resolved = resolving.await.map_err(|_| Lack::Missing)?;
            let current = resolved.map_err(|_| Lack::Missing)??;
            let times = current.times;
            let ready = Arc::new(Ready::new(current, route.api, &route.credential)?);
            Held { stamp, since: Instant::now(), ready, times }
        }
    };
    Ok(slot.insert(held))
}

/// Refreshes on a thread that may block. No limit of its own: the source has one, and an answer
/// that nobody waits for is not lost.
async fn renewed(
    source: &Arc<dyn LiveCredential>,
    refused: Option<&Ready>,
) -> Result<Renewed, Lack> {
    let source = Arc::clone(source);
    let refused = refused
        .and_then(|ready| ready.secret.as_ref())
        .map(|secret| secret.expose().as_bytes().to_vec());
    let renewing = spawn_blocking(move || {
        let refused = refused.and_then(|value| Secret::from_bytes(value).ok());
        source.renew(refused.as_ref())
    });
    renewing.await.map_err(|_| Lack::Missing)?
}

impl Ready {
    fn new(current: Current, api: Api, credential: &Credential) -> Result<Self, Lack> {
        let Current { secret, kind, account, times: _ } = current;
        if kind != credential.kind {
            return Err(Lack::OtherKind);
        }
        let aws = Some(secret.expose()).filter(|_| api == Api::Bedrock).and_then(AwsKeys::read);
        if aws.is_some() {
            let (secret, account) = (Some(secret), None);
            return Ok(Self { secret, header: None, aws, beta: false, account });
        }
        let own = credential.key_header.clone().filter(|_| kind == CredentialKind::ApiKey);
        let (header, text) = match (kind, api) {
            (CredentialKind::ApiKey, _) if own.is_some() => (own.unwrap_or(X_API_KEY), None),
            (CredentialKind::ApiKey, Api::Anthropic) => (X_API_KEY, None),
            (CredentialKind::ApiKey, Api::Gemini) => (X_GOOG_API_KEY, None),
            (CredentialKind::ApiKey, Api::OpenAi | Api::Bedrock | Api::Vertex)
            | (CredentialKind::Bearer | CredentialKind::OAuth | CredentialKind::None, _) => {
                (AUTHORIZATION, Some(format!("Bearer {}", secret.expose())))
            }
        };
        let mut value = header_value(text.as_deref().unwrap_or(secret.expose()))?;
        value.set_sensitive(true);
        let beta = kind == CredentialKind::OAuth && api == Api::Anthropic;
        let account = match (&credential.account_header, account) {
            (Some(name), Some(account)) => Some((name.clone(), header_value(&account)?)),
            (Some(_) | None, _) => None,
        };
        let (secret, header) = (Some(secret), Some((header, value)));
        Ok(Self { secret, header, aws: None, beta, account })
    }

    /// Returns no credential, for a server that asks for none.
    fn none() -> Self {
        Self { secret: None, header: None, aws: None, beta: false, account: None }
    }

    /// Puts the credential into a request from which every other has been removed.
    pub(super) fn place(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.header {
            headers.insert(name.clone(), value.clone());
        }
        if let Some((name, value)) = &self.account {
            headers.insert(name.clone(), value.clone());
        }
        let flagged = |value: &HeaderValue| {
            value.to_str().is_ok_and(|flags| flags.split(',').any(|f| f.trim() == OAUTH_BETA))
        };
        if self.beta && !headers.get_all(ANTHROPIC_BETA).iter().any(flagged) {
            headers.append(ANTHROPIC_BETA, HeaderValue::from_static(OAUTH_BETA));
        }
    }

    /// Returns the keys that sign requests, for a credential that is one of AWS's.
    pub(super) fn aws(&self) -> Option<&AwsKeys> {
        self.aws.as_ref()
    }

    /// Returns the values that must not come back.
    pub(super) fn secrets(&self) -> Vec<&str> {
        match &self.aws {
            Some(keys) => keys.values().collect(),
            None => self.secret.iter().map(Secret::expose).collect(),
        }
    }
}

/// Makes the value of a header. Beyond ASCII a header means something else to every server (RFC 9110, 5.5).
fn header_value(text: &str) -> Result<HeaderValue, Lack> {
    let plain = Some(text).filter(|text| text.is_ascii());
    plain.and_then(|text| HeaderValue::from_str(text).ok()).ok_or(Lack::Missing)
}
