//! A secret of the store, as long as a session lives: set again on the host, it is used at once;
//! removed there, it is gone at once.

use std::sync::atomic::{AtomicBool, Ordering};

use pinfold_egress::{
    CredentialKind, Current, Lack, LiveCredential, LiveSecret, Renewal, Renewed, Times,
};
use pinfold_host::Host;
use pinfold_host::launcher::Launcher;
use pinfold_secrets::{AuthMode, Error, Secret, SecretId, Store};

/// A secret of the store.
pub(crate) struct StoreSecret {
    store: Store,
    launcher: Launcher,
    id: SecretId,
    /// Whether it was ever seen in the store. One that was and is not any more is revoked: a
    /// variable of the same meaning does not take its place.
    kept: AtomicBool,
    /// Refreshes it, if it is a login and the session knows how.
    renewal: Option<Renewal>,
}

impl StoreSecret {
    /// Looks whether it is kept, and reads no value.
    ///
    /// # Errors
    /// Returns an error for a store that is not private.
    pub(crate) fn new(id: SecretId, host: Host<'_>) -> Result<Self, Error> {
        Self::of(Store::new(host.places.secrets()), id, host)
    }

    /// Returns the same, of a store that knows a further variable.
    ///
    /// # Errors
    /// Returns an error for a store that is not private.
    pub(crate) fn of(store: Store, id: SecretId, host: Host<'_>) -> Result<Self, Error> {
        let kept = AtomicBool::new(store.keeps(&id)?);
        let launcher = host.launcher.clone();
        Ok(Self { store, launcher, id, kept, renewal: None })
    }

    /// Returns the same, refreshed.
    pub(crate) fn renewed_by(self, renewal: Renewal) -> Self {
        Self { renewal: Some(renewal), ..self }
    }

    fn resolve(&self) -> Result<pinfold_secrets::Resolved, Error> {
        let keeps = self.store.keeps(&self.id)?;
        if self.kept.fetch_or(keeps, Ordering::SeqCst) && !keeps {
            return Err(Error::Missing { id: self.id.clone(), looked: Vec::new() });
        }
        self.store.resolve(&self.id, &self.launcher)
    }
}

impl LiveSecret for StoreSecret {
    fn stamp(&self) -> u64 {
        self.store.stamp(&self.id)
    }

    fn value(&self) -> Result<Secret, Error> {
        self.resolve().map(|resolved| resolved.secret)
    }
}

impl LiveCredential for StoreSecret {
    fn current(&self) -> Result<Current, Lack> {
        let missing = |_| Lack::Missing;
        let resolved = self.resolve().map_err(missing)?;
        let kind = kind_of(resolved.found.auth);
        Ok(match self.store.login(&self.id).map_err(missing)? {
            Some(login) => {
                let times = Times::of(&login);
                Current { secret: login.access, kind, account: login.account, times }
            }
            None => Current { secret: resolved.secret, kind, account: None, times: None },
        })
    }

    fn renew(&self, refused: Option<&Secret>) -> Result<Renewed, Lack> {
        let Some(renewal) = &self.renewal else { return Ok(Renewed::Same) };
        match self.store.login(&self.id) {
            Ok(Some(_)) => renewal.renew(refused),
            Ok(None) | Err(_) => Ok(Renewed::Same),
        }
    }

    fn finish(&self) {
        self.renewal.iter().for_each(Renewal::finish);
    }
}

/// Returns how a kind of credential goes over the wire.
pub(crate) fn kind_of(auth: AuthMode) -> CredentialKind {
    match auth {
        AuthMode::ApiKey => CredentialKind::ApiKey,
        AuthMode::Oauth => CredentialKind::OAuth,
        AuthMode::Gateway => CredentialKind::Bearer,
    }
}
