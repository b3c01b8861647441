//! The person's own credential helpers (gitcredentials(7)): asked on the host, once a command was
//! approved, for a login of which git in its pen has a placeholder.
//!
//! Only the person's own and the system's configuration is read. The remote's URL is the host's, as it
//! was when the session began. What a helper says crosses to the process above the pen by its
//! environment, which init's is not made of; it is on no disk.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use pinfold_git::config::Setting;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_secrets::{CommandOutput, Entry, EnvName, SecretId, Store};

use super::super::ground::Ground;
use crate::outcome::RunError;

/// The login's name as a secret of that one pen.
pub(super) const ID: &str = "host-git";
/// Where its password is: the real one above the pen, the placeholder in it.
pub(super) const PASSWORD: &str = "HOST_GIT_PASSWORD";
/// Whom it is of.
const USER: &str = "HOST_GIT_USER";

/// Whether the person's git would ask a helper about this URL.
pub(super) fn is_there(url: &str, ground: &Ground) -> bool {
    let words = ["config", "--get-urlmatch", "credential.helper", url];
    ask(ground, &words, None).is_ok_and(|said| !said.stdout.trim_ascii().is_empty())
}

/// Asks the helpers for a login; gives it as variables for the process above the pen. None if they
/// have none, and nobody is asked for one.
///
/// # Errors
/// Git cannot be started.
pub(super) fn login(
    url: &str,
    ground: &Ground,
) -> io::Result<Option<[(&'static str, OsString); 2]>> {
    // Whoever would be asked on a screen is not there.
    let words = ["-c", "credential.interactive=false", "credential", "fill"];
    let said = ask(ground, &words, Some(&format!("url={url}\n\n")))?;
    let Ok(said) = str::from_utf8(&said.stdout) else { return Ok(None) };
    let value =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let both = value("username").zip(value("password"));
    let both = both.filter(|(user, password)| !user.is_empty() && !password.is_empty());
    Ok(both.map(|(user, password)| [(USER, user.into()), (PASSWORD, password.into())]))
}

/// Runs git of the host's outside of any repository.
fn ask(ground: &Ground, words: &[&str], input: Option<&str>) -> io::Result<CommandOutput> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "git is not on the host");
    let git = ground.program("git").ok_or_else(missing)?;
    let path = std::env::join_paths(ground.search_path()).map_err(io::Error::other)?;
    let no_text = || io::Error::new(io::ErrorKind::InvalidData, "PATH is no text");
    let (git, path) = (git.to_str().ok_or_else(no_text)?, path.to_str().ok_or_else(no_text)?);
    let argv: Vec<String> = [&[git], words].concat().into_iter().map(str::to_owned).collect();
    let variables = [
        ("PATH", path),
        ("GIT_DIR", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // Set and empty, it is asked in place of core.askPass, and nobody is.
        ("GIT_ASKPASS", ""),
    ];
    Launcher.run_to_end(&argv, &variables, input.map(str::as_bytes))
}

/// Whether this process was given a login.
pub(super) fn is_given() -> bool {
    pinfold_secrets::env_is_set(PASSWORD)
}

/// Places whose only secret is the login that this process was given. No value is read.
///
/// # Errors
/// What the file system says.
pub(super) fn places(places: Places, place: &Path) -> Result<Places, RunError> {
    let refused = |error: pinfold_secrets::Error| RunError::refused(error, None);
    let places = Places { config: place.join("config"), ..places };
    let id = SecretId::new(ID).map_err(refused)?;
    let source = Entry::Env(EnvName::new(PASSWORD).map_err(refused)?);
    Places::make_private(&places.config).map_err(RunError::System)?;
    Store::new(places.secrets()).set(&id, source, None, &Launcher).map_err(refused)?;
    Ok(places)
}

/// What git in the pen is told: to log in so, and to ask nobody else.
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

/// Whom the login is of, for the pen.
pub(super) fn user() -> Option<(OsString, OsString)> {
    std::env::var_os(USER).map(|user| (USER.into(), user))
}
