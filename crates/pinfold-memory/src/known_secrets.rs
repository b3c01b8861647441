//! Secrets of this machine, which entries must not hold.

use std::fmt;

use pinfold_content::Value;
use pinfold_secrets::{Error, RunCommand, Secret, SecretId, Store};

use crate::MemoryError;
use crate::entry::NewEntry;

/// Values that are refused.
#[derive(Default)]
pub struct KnownSecrets(Vec<(String, Secret)>);

/// The error for a secret that cannot be read, so that an entry cannot be checked for it.
#[derive(Debug, thiserror::Error)]
#[error("entries cannot be checked for the secret `{id}`: {cause}")]
pub struct UnreadableSecret {
    pub id: SecretId,
    pub cause: Error,
}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Shorter values are found in any text by chance, and are no secrets.
const SHORTEST: usize = 6;

impl KnownSecrets {
    /// Reads all secrets of the store, and those that the environment holds.
    ///
    /// # Errors
    /// Returns an error for one that is there and cannot be read.
    pub fn of_store(store: &Store, runner: &dyn RunCommand) -> Result<Self, SecretsError> {
        let mut all = Vec::new();
        for report in store.list()? {
            if report.found.is_none() {
                continue;
            }
            match store.resolve(&report.id, runner) {
                Ok(resolved) => all.push((report.id.to_string(), resolved.secret)),
                // It went since it was listed.
                Err(Error::Missing { .. }) => {}
                Err(cause) => return Err(UnreadableSecret { id: report.id, cause }.into()),
            }
        }
        Ok(Self(all))
    }

    /// Adds a value by a name, such as a placeholder that a session has in the place of a secret.
    #[must_use]
    pub fn with(mut self, name: String, value: Secret) -> Self {
        self.0.push((name, value));
        self
    }

    /// Checks an entry.
    ///
    /// # Errors
    /// Returns an error that names the field and the secret.
    pub(crate) fn check(&self, entry: &NewEntry) -> Result<(), MemoryError> {
        if let Some(title) = &entry.title {
            self.check_text("/title", title)?;
        }
        self.check_text("/content", &entry.content)?;
        entry.tags.iter().try_for_each(|tag| self.check_text("/tags", tag))
    }

    /// Checks all texts, names and numbers of a JSON value.
    pub(crate) fn check_value(
        &self,
        field: &'static str,
        value: &Value,
    ) -> Result<(), MemoryError> {
        match value {
            Value::Text(text) => self.check_text(field, &text.to_str()),
            Value::Array(items) => items.iter().try_for_each(|item| self.check_value(field, item)),
            Value::Object(object) => object.members().try_for_each(|(key, value)| {
                self.check_text(field, &key.to_str())?;
                self.check_value(field, value)
            }),
            Value::Number(_) => self.check_text(field, &value.to_string()),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    /// Checks a text.
    pub(crate) fn check_text(&self, field: &'static str, text: &str) -> Result<(), MemoryError> {
        let is_in =
            |secret: &Secret| secret.expose().len() >= SHORTEST && text.contains(secret.expose());
        match self.0.iter().find(|(_, secret)| is_in(secret)) {
            Some((name, _)) => Err(MemoryError::Secret { field, secret: name.clone() }),
            None => Ok(()),
        }
    }
}

/// Why the secrets of this machine are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretsError {
    /// One cannot be read.
    #[error(transparent)]
    Unreadable(#[from] UnreadableSecret),
    /// The store cannot be read.
    #[error("entries cannot be checked for secrets: {0}")]
    Store(#[from] Error),
}
