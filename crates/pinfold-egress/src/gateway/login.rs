//! Refreshing a login, once for all sessions of a user.
//!
//! A process that refreshes a login holds a lock next to it and reads it again under the lock, so
//! that of many sessions one asks the login's server and the others find what it got. The server
//! may refuse the old refresh token from the moment it sends a new one: the answer is on the disk
//! before anybody uses it, and a session does not end between the two ([`Renewal::finish`]). What
//! remains is a crash or a full disk within that moment; then the user logs in again.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pinfold_secrets::{Login, LoginLock, Secret, SecretId, Store};

use super::live::{Lack, Renewed, Times, now};
use super::token::{self, LoginTerms, TokenError};
use crate::WayOut;

/// A token that upstreams refuse although it is younger than this, in milliseconds, is not
/// refreshed again: its age is not what is wrong with it.
const YOUNG: u64 = 60 * 1000;

/// Pauses before another attempt, while there is no usable token.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// How long the end of a session waits for an answer that is under way.
const FINISH_LIMIT: Duration = Duration::from_secs(35);

/// Refreshes one login of the store.
pub struct Renewal {
    store: Store,
    id: SecretId,
    terms: LoginTerms,
    way: WayOut,
    /// The stamp of a login of which the server has said that it has ended.
    ended: Mutex<Option<u64>>,
    gate: Gate,
}

impl Renewal {
    /// Returns a refresher for the login of an id. Sends and reads nothing yet.
    #[must_use]
    pub fn new(store: Store, id: SecretId, terms: LoginTerms, way: impl Into<WayOut>) -> Self {
        let way = way.into();
        Self { store, id, terms, way, ended: Mutex::default(), gate: Gate::default() }
    }

    /// Refreshes the login if it needs it; see [`super::LiveCredential::renew`].
    ///
    /// # Errors
    /// Returns [`Lack`].
    pub fn renew(&self, refused: Option<&Secret>) -> Result<Renewed, Lack> {
        let before = self.login()?;
        if !needs(&before, refused) {
            return Ok(changed(&before, refused));
        }
        let stamp = self.store.stamp(&self.id);
        if *self.ended.lock() == Some(stamp) {
            return Err(Lack::Ended);
        }
        let lock = self.store.lock_login(&self.id).map_err(|_| Lack::Missing)?;
        let login = self.login()?;
        if !needs(&login, refused) {
            return Ok(changed(&login, refused));
        }
        let _under_way = self.gate.enter().ok_or(Lack::Missing)?;
        // Written as it is, before a token is spent that could not be replaced: a disk that is full
        // or read-only is found now. What was put in its place since counts.
        if self.keep(&login, &login, &lock)? {
            let renewed = self.exchange(&login, refused.is_some())?;
            self.keep(&login, &renewed, &lock)?;
        }
        Ok(Renewed::Fresh)
    }

    /// Does what [`super::LiveCredential::finish`] says.
    pub fn finish(&self) {
        self.gate.close();
    }

    fn login(&self) -> Result<Login, Lack> {
        self.store.login(&self.id).ok().flatten().ok_or(Lack::Missing)
    }

    /// Asks the login's server, more than once if nothing works without.
    fn exchange(&self, login: &Login, was_refused: bool) -> Result<Login, Lack> {
        let Some(refresh) = &login.refresh else { return Err(Lack::Ended) };
        let in_use = !was_refused && login.expires_at.is_none_or(|end| now() < end);
        let mut pauses = PAUSES.iter().filter(|_| !in_use);
        loop {
            match token::refresh(&self.terms, refresh, &self.way) {
                Ok(tokens) => return Ok(tokens.into_login(login, now())),
                Err(TokenError::Refused) => {
                    *self.ended.lock() = Some(self.store.stamp(&self.id));
                    return Err(Lack::Ended);
                }
                Err(TokenError::Failed(cause)) => match pauses.next() {
                    Some(pause) => thread::sleep(*pause),
                    None => return Err(Lack::NotNow(cause)),
                },
            }
        }
    }

    /// Puts a login in the place of another, on the disk; false when that is not there any more.
    fn keep(&self, old: &Login, new: &Login, lock: &LoginLock) -> Result<bool, Lack> {
        let kept = self.store.replace_login(&self.id, old, new, lock);
        kept.map_err(|error| Lack::NotNow(format!("a new token cannot be kept: {error}")))
    }
}

/// Returns whether a login is to be refreshed: it ends soon, or it was refused and is not young.
fn needs(login: &Login, refused: Option<&Secret>) -> bool {
    let now = now();
    let is_refused = refused.is_some_and(|refused| refused.expose() == login.access.expose());
    let is_young = login.refreshed_at.is_some_and(|since| now.saturating_sub(since) < YOUNG);
    let ends = Times::of(login).is_some_and(|times| times.renew_at <= now);
    (is_refused && !is_young && login.refresh.is_some()) || ends
}

/// Returns what a login that needs no refresh means to the one who asked for a refresh.
fn changed(login: &Login, refused: Option<&Secret>) -> Renewed {
    match refused {
        Some(refused) if refused.expose() == login.access.expose() => Renewed::Same,
        _ => Renewed::Fresh,
    }
}

/// Counts the refreshes under way.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    left: Condvar,
}

#[derive(Default)]
struct GateState {
    inside: usize,
    closed: bool,
}

/// One refresh under way.
struct UnderWay<'g>(&'g Gate);

impl Gate {
    fn enter(&self) -> Option<UnderWay<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(UnderWay(self))
    }

    fn close(&self) {
        let end = Instant::now() + FINISH_LIMIT;
        let mut state = self.state.lock();
        state.closed = true;
        while state.inside > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let _ = self.left.wait_for(&mut state, left);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state.lock().inside -= 1;
        self.0.left.notify_all();
    }
}
