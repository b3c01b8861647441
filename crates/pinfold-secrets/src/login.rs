//! A login of a subscription: a token that is soon old, and the one that gets the next.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::private_dir::PrivateDir;
use crate::record::Source;
use crate::{Error, Secret, SecretId, Store};

/// Begins the names of the locks.
const LOCK: &str = ".lock-";

/// A login of a subscription. Times are milliseconds since 1970.
pub struct Login {
    /// The token that goes into requests.
    pub access: Secret,
    /// The token that gets the next access token; a login without one ends with its access token.
    /// Many servers give a new one each time and refuse the old one from then on.
    pub refresh: Option<Secret>,
    /// When the access token ends; not known for some.
    pub expires_at: Option<u64>,
    /// When pinfold last refreshed it; never, if absent.
    pub refreshed_at: Option<u64>,
    /// The account, where its API wants it. No secret.
    pub account: Option<String>,
}

/// As a login is kept, in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    access: String,
    refresh: Option<String>,
    expires_at: Option<u64>,
    refreshed_at: Option<u64>,
    account: Option<String>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.access.zeroize();
        self.refresh.zeroize();
    }
}

impl Login {
    /// Returns whether two logins hold the same tokens.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let refresh = |login: &Self| login.refresh.as_ref().map(|r| r.expose().to_owned());
        self.access.expose() == other.access.expose()
            && refresh(self).map(Zeroizing::new) == refresh(other).map(Zeroizing::new)
    }

    /// Reads what [`Login::to_bytes`] has written. The parser's words are not given on: they may
    /// quote a token.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let kept: Kept = serde_json::from_slice(bytes).ok()?;
        let secret = |text: &String| Secret::from_bytes(text.as_bytes().to_vec()).ok();
        let refresh = match &kept.refresh {
            Some(text) => Some(secret(text)?),
            None => None,
        };
        Some(Self {
            access: secret(&kept.access)?,
            refresh,
            expires_at: kept.expires_at,
            refreshed_at: kept.refreshed_at,
            account: kept.account.clone(),
        })
    }

    /// Returns the form in which it is kept.
    pub(crate) fn to_bytes(
        &self,
        logins: &PrivateDir,
        id: &SecretId,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let kept = Kept {
            access: self.access.expose().to_owned(),
            refresh: self.refresh.as_ref().map(|refresh| refresh.expose().to_owned()),
            expires_at: self.expires_at,
            refreshed_at: self.refreshed_at,
            account: self.account.clone(),
        };
        let bytes = serde_json::to_vec(&kept).map(Zeroizing::new);
        bytes.map_err(|_| Error::BadLogin { path: logins.path_of(id.as_str()) })
    }
}

/// Held by the process that refreshes a login, alone among all processes of this user.
pub struct LoginLock {
    _held: OwnedFd,
}

impl Store {
    /// Returns the login that is kept under an id; `None` if what is kept is something else.
    ///
    /// # Errors
    /// Returns [`Error::BadLogin`], or the file system's error.
    pub fn login(&self, id: &SecretId) -> Result<Option<Login>, Error> {
        if self.record(id)?.is_none_or(|record| record.source != (Source::Login {})) {
            return Ok(None);
        }
        let Some(logins) = self.logins()? else { return Ok(None) };
        let Some(content) = logins.read(id.as_str())? else { return Ok(None) };
        let path = || logins.path_of(id.as_str());
        Login::from_bytes(&content).map(Some).ok_or_else(|| Error::BadLogin { path: path() })
    }

    /// Waits until nobody else refreshes the login of an id. What was read before is to be read
    /// again then. Setting and removing a secret do not wait for it.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub fn lock_login(&self, id: &SecretId) -> Result<LoginLock, Error> {
        let missing = || Error::Missing { id: id.clone(), looked: Vec::new() };
        let logins = self.logins()?.ok_or_else(missing)?;
        Ok(LoginLock { _held: logins.lock_named(&format!("{LOCK}{id}"))? })
    }

    /// Puts a refreshed login in the place of the one it was made of, on the disk when this
    /// returns; says whether that was still there. A login that was removed or replaced since stays
    /// so.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub fn replace_login(
        &self,
        id: &SecretId,
        old: &Login,
        new: &Login,
        _lock: &LoginLock,
    ) -> Result<bool, Error> {
        let Some(logins) = self.logins()? else { return Ok(false) };
        let content = new.to_bytes(&logins, id)?;
        logins.replace(id.as_str(), &content, |current| {
            Login::from_bytes(current).is_some_and(|current| current.is_same(old))
        })
    }
}
