//! Secrets of which the sandbox gets placeholders.

use std::sync::Arc;

use pinfold_egress::{LiveSecret as _, PlacedSecret, placeholder_like};
use pinfold_host::Host;
use pinfold_policy::origin::Valued;
use pinfold_policy::settings::Settings;
use pinfold_secrets::SecretId;
use pinfold_terminal::notify;

use crate::RunError;
use crate::doors::live_secret::StoreSecret;

/// Makes a placeholder for each secret that is there. Reads the secrets' values, so it must not be
/// called before init is cloned.
///
/// # Errors
/// Returns an error for a required secret that is not available, with the way to set it.
pub(crate) fn place(settings: &Settings, host: Host<'_>) -> Result<Vec<PlacedSecret>, RunError> {
    let mut placed = Vec::new();
    for Valued { value: rule, origin } in &settings.secrets {
        let brokered = &settings.network.brokered;
        let brokered = brokered.iter().find(|brokered| brokered.secret.value == *rule);
        let id = SecretId::new(rule.id.clone()).map_err(pinfold_secrets::Error::from);
        let source = id
            .and_then(|id| StoreSecret::new(id, host))
            .map_err(|error| RunError::refused(error, None))?;
        match source.value() {
            Ok(secret) => {
                let placeholder = placeholder_like(&secret).map_err(RunError::System)?;
                placed.push(PlacedSecret {
                    rule: rule.clone(),
                    placeholder,
                    git: brokered.map(|brokered| brokered.repositories.clone()),
                    value: secret,
                    source: Arc::new(source),
                });
            }
            Err(error) if rule.required => {
                let set = format!("set it with `pinfold secret set {}`", rule.id);
                return Err(RunError::refused(
                    format!(
                        "the secret {}, required by {origin}, is not available: {error}",
                        rule.id
                    ),
                    Some(set),
                ));
            }
            Err(_) if brokered.is_some() => notify!(
                "pinfold: note: there is no secret {0}, so git has none (`pinfold secret set {0}`)",
                rule.id
            ),
            Err(_) => notify!(
                "pinfold: note: there is no secret {}, so {} is not set (`pinfold secret set {}`)",
                rule.id,
                rule.env,
                rule.id
            ),
        }
    }
    Ok(placed)
}

/// Returns the variables that hold the placeholders, as `NAME=VALUE`.
pub(crate) fn environment(placed: &[PlacedSecret]) -> Vec<Vec<u8>> {
    let variable = |secret: &PlacedSecret| format!("{}={}", secret.rule.env, secret.placeholder);
    let inside = placed.iter().filter(|secret| secret.git.is_none());
    inside.map(|secret| variable(secret).into_bytes()).collect()
}
