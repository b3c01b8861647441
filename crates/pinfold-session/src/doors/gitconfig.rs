//! Git configuration inside, in addition to the user's own taste: which key signs, how git logs
//! in over https where a secret is for that, and which authorities it trusts.

use pinfold_boundary::{Entry, Place};
use pinfold_git::config::{Setting, write};
use pinfold_personal::caller_trust::CallerTrust;
use pinfold_policy::network::{Endpoint, HostPattern, Repository, SecretRule, Spots};
use pinfold_policy::path::InsidePath;
use pinfold_policy::settings::Settings;
use pinfold_rootfs::userland::HOME;

use crate::RunError;
use crate::doors::ssh::Ssh;

/// Returns the file that git reads as the user's own; none if there is nothing to say. The user's taste
/// is in the other one (git-config(1), "FILES"), which this one wins over.
///
/// # Errors
/// Returns no error: the path is a constant.
pub(crate) fn entry(
    settings: &Settings,
    ssh: Option<&Ssh>,
    trust: Option<&CallerTrust>,
) -> Result<Option<Entry>, RunError> {
    let signing = ssh.map_or_else(Vec::new, Ssh::git_settings);
    let helpers = settings.placed().flat_map(|secret| helpers(&secret.value));
    let trusted = trust.into_iter().flat_map(CallerTrust::git_settings);
    let all: Vec<Setting> =
        signing.into_iter().chain(helpers).chain(instead_of_ssh(settings)).chain(trusted).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let path = InsidePath::new(format!("{HOME}/.gitconfig")).map_err(RunError::path)?;
    let place = Place::File { content: write(&all), mode: 0o644, keep: false };
    Ok(Some(Entry { path, place }))
}

/// Remotes on GitHub that are written for ssh go over https, where a token is for that and nothing
/// lets ssh through.
fn instead_of_ssh(settings: &Settings) -> Vec<Setting> {
    let allows = |endpoint| {
        let endpoint = Endpoint::parse(endpoint, None);
        endpoint.is_ok_and(|endpoint| settings.network.decide(&endpoint).is_ok())
    };
    if !settings.has_github_token() || !allows("github.com:443") || allows("github.com:22") {
        return Vec::new();
    }
    let instead_of = |prefix: &str| Setting {
        key: "url.https://github.com/.insteadof".to_owned(),
        value: Some(prefix.into()),
    };
    ["git@github.com:", "ssh://git@github.com/"].map(instead_of).into()
}

/// Returns a credential helper (gitcredentials(7)) for each host of a secret: it answers with the
/// placeholder. What `gh auth setup-git` writes asks `gh`, which need not be there.
fn helpers(secret: &SecretRule) -> impl Iterator<Item = Setting> + '_ {
    let hosts = secret.hosts.iter().filter(|_| secret.spots.contains(Spots::BASIC));
    hosts.flat_map(move |host| secret.ports.iter().map(move |port| helper(secret, host, *port)))
}

fn helper(secret: &SecretRule, host: &HostPattern, port: u16) -> Setting {
    const HTTPS: u16 = 443;
    let port = if port == HTTPS { String::new() } else { format!(":{port}") };
    // The variable is read when git asks: a run without the secret has no such variable.
    let value = format!(
        "!f() {{ test \"$1\" != get || test -z \"${env}\" || \
         printf 'username={user}\\npassword=%s\\n' \"${env}\"; }}; f",
        env = secret.env,
        user = Repository::USER,
    );
    Setting {
        key: format!("credential.https://{host}{port}.helper"),
        value: Some(value.into_bytes()),
    }
}
