//! The real credential of one route, from the first request that needs it.

use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};
use pinfold_secrets::Secret;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::config::{Api, Credential, CredentialKind, Route};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// Without this flag Anthropic's API refuses a subscription token.
const OAUTH_BETA: &str = "oauth-2025-04-20";

/// Time for a credential to be had: a keyring or a command may ask a person first.
const RESOLVE_LIMIT: Duration = Duration::from_secs(60);

/// Holds a credential once it has been resolved. Whoever comes while that goes on waits for it.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Arc<Ready>>>);

/// A credential as it goes into a request.
pub(super) struct Ready {
    secret: Secret,
    header: HeaderName,
    value: HeaderValue,
    beta: bool,
}

/// There is no usable value; the store's own words are for the host, not for the inside.
pub(super) struct NoCredential;

impl Slot {
    /// The credential, resolved on a thread that may block when it is not at hand.
    pub(super) async fn get(&self, route: &Route) -> Result<Arc<Ready>, NoCredential> {
        let mut slot = self.0.lock().await;
        if let Some(ready) = slot.as_ref() {
            return Ok(Arc::clone(ready));
        }
        let source = Arc::clone(&route.credential.secret);
        let resolving = timeout(RESOLVE_LIMIT, spawn_blocking(move || source()));
        let resolved = resolving.await.map_err(|_| NoCredential)?.map_err(|_| NoCredential)?;
        let secret = resolved.map_err(|_| NoCredential)?;
        let ready = Arc::new(Ready::new(secret, route.api, &route.credential)?);
        *slot = Some(Arc::clone(&ready));
        Ok(ready)
    }

    /// Has the credential resolved anew for the next request, unless that has happened already.
    pub(super) async fn forget(&self, refused: &Arc<Ready>) {
        let mut slot = self.0.lock().await;
        if slot.as_ref().is_some_and(|held| Arc::ptr_eq(held, refused)) {
            *slot = None;
        }
    }
}

impl Ready {
    fn new(secret: Secret, api: Api, credential: &Credential) -> Result<Self, NoCredential> {
        let (header, text) = match (credential.kind, api) {
            (CredentialKind::ApiKey, Api::Anthropic) => (X_API_KEY, None),
            (CredentialKind::ApiKey, Api::OpenAi)
            | (CredentialKind::Bearer | CredentialKind::OAuth, _) => {
                (AUTHORIZATION, Some(format!("Bearer {}", secret.expose())))
            }
        };
        let text = text.as_deref().unwrap_or(secret.expose());
        // Beyond ASCII a header means something else to every server (RFC 9110, 5.5).
        if !text.is_ascii() {
            return Err(NoCredential);
        }
        let mut value = HeaderValue::from_str(text).map_err(|_| NoCredential)?;
        value.set_sensitive(true);
        let beta = credential.kind == CredentialKind::OAuth && api == Api::Anthropic;
        Ok(Self { secret, header, value, beta })
    }

    /// Puts the credential into a request from which every other has been removed.
    pub(super) fn place(&self, headers: &mut HeaderMap) {
        headers.insert(self.header.clone(), self.value.clone());
        let flagged = |value: &HeaderValue| {
            value.to_str().is_ok_and(|flags| flags.split(',').any(|f| f.trim() == OAUTH_BETA))
        };
        if self.beta && !headers.get_all(ANTHROPIC_BETA).iter().any(flagged) {
            headers.append(ANTHROPIC_BETA, HeaderValue::from_static(OAUTH_BETA));
        }
    }

    /// The value, to look for it in what comes back.
    pub(super) fn secret(&self) -> &str {
        self.secret.expose()
    }
}
