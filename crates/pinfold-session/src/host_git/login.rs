//! The login of a remote that the user's credential helpers gave: read from this process's environment,
//! and put behind a placeholder for git in its sandbox.

use std::ffi::OsString;
use std::path::Path;

use pinfold_git::config::Setting;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_hostexec::git::{ID, PASSWORD, USER};
use pinfold_secrets::{Entry, EnvName, SecretId, Store};

use crate::outcome::RunError;

/// Returns whether this process was given a login.
pub(super) fn is_given() -> bool {
    pinfold_secrets::env_is_set(PASSWORD)
}

/// Places whose only secret is the login that this process was given. No value is read.
///
/// # Errors
/// Returns the file system's error.
pub(super) fn places(
    places: Places,
    place: &Path,
    launcher: &Launcher,
) -> Result<Places, RunError> {
    let refused = |error: pinfold_secrets::Error| RunError::refused(error, None);
    let places = Places { config: place.join("config"), ..places };
    let id = SecretId::new(ID).map_err(|error| refused(error.into()))?;
    let variable = EnvName::new(PASSWORD).map_err(|error| refused(error.into()))?;
    let source = Entry::Env(variable);
    Places::make_private(&places.config).map_err(RunError::System)?;
    Store::new(places.secrets()).set(&id, source, None, launcher).map_err(refused)?;
    Ok(places)
}

/// Returns configuration of git in the scratch sandbox: log in so, and ask nobody else.
pub(super) fn settings() -> [Setting; 2] {
    let helper = format!(
        "!f() {{ test \"$1\" != get || \
         printf 'username=%s\\npassword=%s\\n' \"${USER}\" \"${PASSWORD}\"; }}; f"
    );
    [String::new(), helper].map(|value| Setting {
        key: "credential.helper".to_owned(),
        value: Some(value.into_bytes()),
    })
}

/// Returns whom the login is of, for the scratch sandbox.
pub(super) fn user() -> Option<(OsString, OsString)> {
    std::env::var_os(USER).map(|user| (USER.into(), user))
}
