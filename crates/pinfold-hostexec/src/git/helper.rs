//! The user's own credential helpers (gitcredentials(7)): asked on the host, once a command was
//! approved, for a login of which git in its scratch sandbox has a placeholder.
//!
//! Only the user's own and the system's configuration is read. The remote's URL is the host's, as it
//! was when the session began. What a helper says crosses to the process above the scratch sandbox by
//! its environment, which init's is not made of; it is on no disk.

use std::ffi::OsString;
use std::io;

use pinfold_secrets::CommandOutput;

use crate::context::Context;

/// The login's name as a secret of that one sandbox.
pub const ID: &str = "host-git";
/// The variable of its password: the real one above the sandbox, the placeholder in it.
pub const PASSWORD: &str = "HOST_GIT_PASSWORD";
/// The variable of its user's name.
pub const USER: &str = "HOST_GIT_USER";

/// Returns whether the user's git would ask a helper about this URL.
pub(super) fn is_there(url: &str, context: &Context) -> bool {
    let words = ["config", "--get-urlmatch", "credential.helper", url];
    ask(context, &words, None).is_ok_and(|said| !said.stdout.trim_ascii().is_empty())
}

/// Asks the helpers for a login; gives it as variables for the process above the scratch sandbox.
/// None if they have none, and nobody is asked for one.
///
/// # Errors
/// Returns an error if git cannot be started.
pub(super) fn login(
    url: &str,
    context: &Context,
) -> io::Result<Option<[(&'static str, OsString); 2]>> {
    // Nobody is at a screen to be asked.
    let words = ["-c", "credential.interactive=false", "credential", "fill"];
    let said = ask(context, &words, Some(&format!("url={url}\n\n")))?;
    let Ok(said) = str::from_utf8(&said.stdout) else { return Ok(None) };
    let value =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let both = value("username")
        .zip(value("password"))
        .filter(|(user, password)| !user.is_empty() && !password.is_empty());
    Ok(both.map(|(user, password)| [(USER, user.into()), (PASSWORD, password.into())]))
}

/// Runs git of the host's outside of any repository.
fn ask(context: &Context, words: &[&str], input: Option<&str>) -> io::Result<CommandOutput> {
    let argv = [&["git"], words].concat();
    let variables = [
        ("GIT_DIR", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // Set and empty, it is asked in place of core.askPass, and nobody is.
        ("GIT_ASKPASS", ""),
    ];
    context.launcher.run_to_end(&argv, &variables, input.map(str::as_bytes))
}
