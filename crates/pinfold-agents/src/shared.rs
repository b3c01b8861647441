//! Providers that agents have without a word about them in their own files: they imitate an API that the
//! agent speaks. Built in (`agents/providers.toml`) or of the user's own (`[providers.NAME]` with `api`).

use std::path::Path;

use pinfold_policy::document::{Document, FileError, Item, SettingsFile};
use pinfold_policy::env::EnvName;
use pinfold_policy::settings::{Api, ProviderSettings};

use crate::keys::SHARED;
use crate::profile::{AuthMode, Provider};
use crate::read;

const BUILT_IN: &[u8] = include_bytes!("../../../agents/providers.toml");

/// A provider that imitates an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedProvider {
    /// The APIs that it imitates, the best first.
    pub(crate) apis: Vec<Api>,
    /// Where it is and what it takes; without what an agent adds.
    pub(crate) terms: Provider,
}

/// Returns every built-in provider by name.
///
/// # Errors
/// Returns a mistake in the built-in file.
pub(crate) fn built_in() -> Result<Vec<(String, SharedProvider)>, FileError> {
    let file = SettingsFile { path: Path::new("agents/providers.toml"), bytes: BUILT_IN };
    let document = Document::parse(file)?;
    let section = Item::of_document(&document).map()?;
    let provider = |item: Item<'_>| {
        let table = item.table(SHARED)?;
        let name = item.name().to_owned();
        Ok((
            name.clone(),
            SharedProvider { apis: read::apis(&table)?, terms: read::shared(&table, name)? },
        ))
    };
    section.items().map(provider).collect()
}

/// Returns the provider of the user's own that settings define by `api`.
pub(crate) fn of_user(name: &str, settings: &ProviderSettings) -> Option<SharedProvider> {
    let api = settings.api.as_ref()?.value;
    let variable = settings.env_var_name.as_ref().map(|name| name.value.clone());
    let auth_modes = vec![AuthMode::ApiKey, AuthMode::Gateway, AuthMode::None];
    let terms = Provider {
        uses_proxy: true,
        env_var_name: variable.or_else(|| usual_variable(name)),
        auth_modes,
        default_auth_mode: Some(AuthMode::ApiKey),
        secret: Some(name.to_ascii_lowercase()),
        ..Provider::default()
    };
    Some(SharedProvider { apis: vec![api], terms })
}

/// Returns the variable that holds the key of a provider by custom: `NAME_API_KEY`.
fn usual_variable(name: &str) -> Option<EnvName> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("{}_API_KEY", name.chars().map(plain).collect::<String>()).parse().ok()
}
