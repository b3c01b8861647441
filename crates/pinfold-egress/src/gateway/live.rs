//! What a route's credential is made of, as long as the session lives.

use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_secrets::{Login, Secret};

use super::CredentialKind;
use crate::LiveSecret;

/// How long before its end a token is refreshed, in milliseconds; less for one that lives shortly.
const MARGIN: u64 = 5 * 60 * 1000;

/// Where the credential of a route comes from. What changes on the host is used at once:
/// [`LiveSecret::stamp`] is asked for each request.
pub trait LiveCredential: LiveSecret {
    /// Returns the credential as it is now. Called on a thread that may block; sends nothing.
    ///
    /// # Errors
    /// Returns [`Lack::Missing`].
    fn current(&self) -> Result<Current, Lack>;

    /// Refreshes a login that needs it: it ends soon, or `refused` is its token and the upstream
    /// has answered 401 to it. Called on a thread that may block.
    ///
    /// # Errors
    /// Returns [`Lack`].
    fn renew(&self, refused: Option<&Secret>) -> Result<Renewed, Lack>;

    /// Waits until no refresh is under way, and lets none begin any more. An answer that the
    /// process does not live to write down is lost, and with it the login.
    fn finish(&self);
}

/// A credential as it is now.
pub struct Current {
    pub secret: Secret,
    /// How it goes over the wire.
    pub kind: CredentialKind,
    /// The account of a login, where its API wants it.
    pub account: Option<String>,
    /// When a login's token is to be refreshed; none for what does not end.
    pub times: Option<Times>,
}

/// When a token is to be refreshed, and when it ends. Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// From when on it is refreshed.
    pub renew_at: u64,
    /// From when on it is of no use.
    pub until: u64,
}

/// What came of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// There is another token now.
    Fresh,
    /// The token is as before: it needs no refresh, or can have none.
    Same,
}

/// Why there is no credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// There is no usable value; the store's own words are for the host, not for the sandbox.
    Missing,
    /// There is one, of another kind than the session began with.
    OtherKind,
    /// The login has ended: its server gives no more tokens for it.
    Ended,
    /// The login's server did not answer as it should; it may later.
    NotNow(String),
}

impl Times {
    /// Returns the times of a login; none when its end is not known.
    #[must_use]
    pub fn of(login: &Login) -> Option<Self> {
        let until = login.expires_at?;
        let lives = login.refreshed_at.map(|since| until.saturating_sub(since));
        let margin = lives.map_or(MARGIN, |lives| MARGIN.min(lives / 4));
        Some(Self { renew_at: until.saturating_sub(margin), until })
    }
}

/// Returns the time in milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
