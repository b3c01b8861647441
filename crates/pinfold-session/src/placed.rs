//! Secrets of which the inside gets placeholders.

use std::sync::Arc;

use pinfold_egress::{LiveSecret, PlacedSecret, placeholder_like};
use pinfold_policy::network::SecretRule;
use pinfold_policy::origin::Valued;
use pinfold_secrets::{Error, Secret, SecretId, Store};

use crate::RunError;
use crate::launcher::Launcher;
use crate::places::Places;

/// Makes a placeholder for each secret that is there. Reads the secrets' values, so it must not be
/// called before init is cloned.
///
/// # Errors
/// A required secret that cannot be had, with the way to set it.
pub(crate) fn place(
    rules: &[Valued<SecretRule>],
    places: &Places,
) -> Result<Vec<PlacedSecret>, RunError> {
    let mut placed = Vec::new();
    for Valued { value: rule, origin } in rules {
        let source = StoreSecret::new(rule, places)?;
        match source.value() {
            Ok(secret) => {
                let placeholder = placeholder_like(&secret).map_err(RunError::System)?;
                placed.push(PlacedSecret {
                    rule: rule.clone(),
                    placeholder,
                    value: secret,
                    source: Arc::new(source),
                });
            }
            Err(error) if rule.required => {
                let set = format!("set it with `pinfold secret set {}`", rule.id);
                return Err(RunError::refused(
                    format!("the secret {}, required by {origin}, cannot be had: {error}", rule.id),
                    Some(set),
                ));
            }
            Err(_) => eprintln!(
                "pinfold: note: there is no secret {}, so {} is not set (`pinfold secret set {}`)",
                rule.id, rule.env, rule.id
            ),
        }
    }
    Ok(placed)
}

/// The variables that hold the placeholders, as `NAME=VALUE`.
pub(crate) fn environment(placed: &[PlacedSecret]) -> Vec<Vec<u8>> {
    let variable = |secret: &PlacedSecret| format!("{}={}", secret.rule.env, secret.placeholder);
    placed.iter().map(|secret| variable(secret).into_bytes()).collect()
}

/// A secret of the store.
struct StoreSecret {
    store: Store,
    id: SecretId,
    /// Whether it was kept in the store when the session began. One that was and is not any more
    /// is revoked: a variable of the same meaning does not take its place.
    kept: bool,
}

impl StoreSecret {
    fn new(rule: &SecretRule, places: &Places) -> Result<Self, RunError> {
        let refused = |error: Error| RunError::refused(error, None);
        let id = SecretId::new(rule.id.clone()).map_err(refused)?;
        let store = Store::new(places.secrets());
        let kept = store.keeps(&id).map_err(refused)?;
        Ok(Self { store, id, kept })
    }
}

impl LiveSecret for StoreSecret {
    fn stamp(&self) -> u64 {
        self.store.stamp(&self.id)
    }

    fn value(&self) -> Result<Secret, Error> {
        if self.kept && !self.store.keeps(&self.id)? {
            return Err(Error::Missing { id: self.id.clone(), looked: Vec::new() });
        }
        self.store.resolve(&self.id, &Launcher).map(|resolved| resolved.secret)
    }
}
