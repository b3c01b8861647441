//! Where a remote leads, and the user's login there.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_git::known::Known;
use pinfold_host::within::is_within;
use pinfold_policy::network::{Endpoint, HostName, NetworkRule, SecretRule, Spots};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::ssh::SshKey;
use serde::{Deserialize, Serialize};

use super::arguments::Doing;
use super::helper;
use crate::context::Context;
use crate::refusal::Refusal;
use pinfold_ask::display::line;

/// A remote of the host's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    pub name: String,
    /// Where it leads for this command.
    pub url: String,
    /// What it maps when it fetches.
    pub fetch: Vec<String>,
    /// How it is reached.
    pub way: Way,
}

/// How it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// A repository on this machine.
    Here(PathBuf),
    Host {
        /// The rule of the network that allows it.
        rule: String,
        /// Whether it may lead to private addresses.
        is_internal: bool,
        /// How it knows the user.
        login: Login,
    },
}

/// How a host knows the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Login {
    /// It does not.
    None,
    /// By a secret of the user's, which the network's door puts in.
    Secret {
        id: String,
        /// The variable of its placeholder.
        env: String,
        /// The only host that gets it.
        host: String,
        /// The only port.
        port: u16,
    },
    /// By what the user's own credential helpers say, once the command is approved.
    Helper {
        /// The only host that gets it.
        host: String,
        /// The only port.
        port: u16,
    },
    /// By a key, which signs for this host alone.
    Ssh {
        key: Key,
        host: String,
        port: u16,
        /// The user there.
        user: String,
        /// The host's own keys.
        known: Vec<String>,
        /// Whether it must prove them to the agent.
        hostbound: bool,
    },
}

/// A key as it crosses to another process: where it is, never what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Key {
    File(PathBuf),
    /// In the user's agent, by its public half.
    Agent(String),
}

impl Remote {
    /// Finds a remote of the repository, the one that git would take if none is named.
    ///
    /// # Errors
    /// Returns an error if it is unknown, or cannot be reached.
    pub(crate) fn find(
        known: &Known,
        named: Option<&str>,
        branch: Option<&str>,
        doing: Doing,
        context: &Context,
    ) -> Result<Self, Refusal> {
        let of_branch = |key: &str| known.setting(&format!("branch.{}.{key}", branch?));
        let for_push = || of_branch("pushremote").or_else(|| known.setting("remote.pushdefault"));
        let implied = || {
            let for_push = if doing == Doing::Push { for_push() } else { None };
            for_push.or_else(|| of_branch("remote")).unwrap_or_else(|| "origin".to_owned())
        };
        let name = named.map_or_else(implied, str::to_owned);
        let shown = line(name.as_bytes());
        let urls = known.all(&format!("remote.{name}.url"));
        let push = known.all(&format!("remote.{name}.pushurl"));
        let (urls, is_push_url) = match doing {
            Doing::Push if !push.is_empty() => (push, true),
            _ => (urls, false),
        };
        let [url] = urls.as_slice() else {
            let why = if urls.is_empty() {
                format!("the repository has no remote {shown} on the host")
            } else {
                format!("the remote {shown} leads to {} places", urls.len())
            };
            return Err(Refusal::new(why).hint(
                "remotes count as they were on the host when the session began: its user adds one \
                 with `git remote add`, and starts a new session",
            ));
        };
        let for_push =
            (doing == Doing::Push && !is_push_url).then(|| known.instead(url, "pushinsteadof"));
        let url =
            for_push.flatten().or_else(|| known.instead(url, "insteadof")).unwrap_or(url.clone());
        let fetch = known.all(&format!("remote.{name}.fetch"));
        let way = way(&url, known, doing, context)?;
        Ok(Self { name, url, fetch, way })
    }

    /// Returns whether the user's credential helpers are asked for its login.
    pub(crate) fn asks_helpers(&self) -> bool {
        matches!(&self.way, Way::Host { login: Login::Helper { .. }, .. })
    }
}

fn way(url: &str, known: &Known, doing: Doing, context: &Context) -> Result<Way, Refusal> {
    let place = Place::of(url).ok_or_else(|| {
        Refusal::new(format!(
            "the remote leads to {}, which the host does not open",
            line(url.as_bytes())
        ))
        .hint("https, http, ssh and git URLs are opened, and repositories on this machine")
    })?;
    let (scheme, user, host, port) = match place {
        Place::Here(path) => return here(&known.top.join(path), context),
        Place::Host { scheme, user, host, port } => (scheme, user, host, port),
    };
    let refused =
        |error: &dyn std::fmt::Display| Refusal::new(format!("{}: {error}", line(url.as_bytes())));
    let text = format!("{host}:{port}");
    let endpoint = Endpoint::parse(&text, None).map_err(|error| refused(&error))?;
    let text = match (scheme, port) {
        ("https", 443) | ("http", 80) | ("ssh", 22) => text,
        ("https", _) => format!("{text}/tls"),
        _ => format!("{text}/tcp"),
    };
    let rule: NetworkRule = text.parse().map_err(|error| refused(&error))?;
    let by_remote = Valued::new(rule.clone(), Origin::Flag { name: "the remote" });
    let settings = &context.settings;
    settings.ceiling.check_host(&by_remote).map_err(|error| refused(&error))?;
    let is_internal = settings.network.internal.iter().any(|one| one.value.covers(&rule));
    let login = match scheme {
        "ssh" => ssh(&host, port, user.as_deref(), context)?,
        "https" => {
            let mut secrets = settings.secrets.iter().map(|secret| &secret.value);
            let fits = |secret: &&SecretRule| {
                secret.is_for(&endpoint) && secret.spots.contains(Spots::BASIC)
            };
            match secrets.find(fits) {
                Some(SecretRule { id, env, .. }) => {
                    let (id, env) = (id.clone(), env.to_string());
                    Login::Secret { id, env, host: host.clone(), port }
                }
                None if helper::is_there(url, context) => {
                    Login::Helper { host: host.clone(), port }
                }
                None => Login::None,
            }
        }
        _ => Login::None,
    };
    if login == Login::None && doing == Doing::Push && scheme == "https" {
        let why = format!("no secret of yours is for {host}, so nobody could push there");
        return Err(Refusal::new(why).hint(format!(
            "its user names one: [[secrets]] with hosts = [\"{host}\"] in config.toml, and `pinfold \
             secret set`; or an SSH URL, with [ssh]; or has git's own credential helper (`gh auth \
             setup-git`)"
        )));
    }
    Ok(Way::Host { rule: text, is_internal, login })
}

fn here(path: &Path, context: &Context) -> Result<Way, Refusal> {
    let shown = line(path.as_os_str().as_encoded_bytes());
    let path = fs::canonicalize(path)
        .map_err(|error| Refusal::new(format!("the remote {shown} cannot be opened: {error}")))?;
    if is_within(&path, context.path_map.writable()) {
        let why = format!("the remote {shown} is where the sandbox can write");
        return Err(Refusal::new(why).hint("it needs nothing of the host: go to it from inside"));
    }
    if !path.join("objects").is_dir() || !path.join("HEAD").is_file() {
        let why = format!("the remote {shown} is not a bare repository");
        return Err(Refusal::new(why).hint("make one with `git init --bare`, and push to that"));
    }
    Ok(Way::Here(path))
}

fn ssh(host: &str, port: u16, user: Option<&str>, context: &Context) -> Result<Login, Refusal> {
    let ssh = &context.settings.ssh;
    let rule = ssh.hosts.iter().map(|rule| &rule.value).find(|rule| {
        let name: Result<HostName, _> = host.parse();
        name.is_ok_and(|name| name == rule.host) && rule.port == port
    });
    let (Some(key), Some(rule)) = (&ssh.key, rule) else {
        let why = format!("no key of yours is for {host}, so nobody could log in there");
        return Err(Refusal::new(why).hint(format!(
            "its user names one: [ssh] with key = \"~/.ssh/id_ed25519\" and hosts = [{{ host = \
             \"{host}\" }}] in config.toml"
        )));
    };
    if user.is_some_and(|user| user != rule.user) {
        let why = format!("the key is for {}, and the remote logs in as another user", rule.user);
        return Err(Refusal::new(why).hint("name that user in ssh.hosts"));
    }
    Ok(Login::Ssh {
        key: match &key.value {
            SshKey::File(path) => Key::File(path.as_path().to_owned()),
            SshKey::Agent(public) => Key::Agent(public.clone()),
        },
        host: host.to_owned(),
        port,
        user: rule.user.clone(),
        known: rule.known.clone(),
        hostbound: rule.hostbound,
    })
}

/// What a URL names (git-clone(1), "GIT URLS").
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    Host { scheme: &'static str, user: Option<String>, host: String, port: u16 },
}

impl Place {
    fn of(url: &str) -> Option<Self> {
        const SCHEMES: [(&str, &str, u16); 6] = [
            ("https", "https", 443),
            ("http", "http", 80),
            ("ssh", "ssh", 22),
            ("git+ssh", "ssh", 22),
            ("ssh+git", "ssh", 22),
            ("git", "git", 9418),
        ];
        let is_plain = url.chars().all(|character| character.is_ascii_graphic());
        if !is_plain || url.contains("::") || url.starts_with('-') {
            return None;
        }
        if let Some((scheme, rest)) = url.split_once("://") {
            if scheme == "file" {
                return rest.starts_with('/').then(|| Self::Here(rest.into()));
            }
            let (_, scheme, default) = SCHEMES.into_iter().find(|(name, ..)| *name == scheme)?;
            let authority = rest.split('/').next()?;
            return Self::host(scheme, authority, default);
        }
        match url.split_once(':') {
            // The short form of ssh, unless a slash comes first.
            Some((authority, _)) if !authority.contains('/') => {
                let (user, host) = parted(authority);
                Self::named("ssh", user, host, 22)
            }
            _ => Some(Self::Here(url.into())),
        }
    }

    fn host(scheme: &'static str, authority: &str, default: u16) -> Option<Self> {
        let (user, host) = parted(authority);
        let user = user.map(|user| user.split(':').next().unwrap_or(user));
        match host.rsplit_once(':') {
            Some((host, port)) => Self::named(scheme, user, host, port.parse().ok()?),
            None => Self::named(scheme, user, host, default),
        }
    }

    fn named(scheme: &'static str, user: Option<&str>, host: &str, port: u16) -> Option<Self> {
        let is_name = |host: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
            !host.is_empty() && !host.starts_with('-') && host.bytes().all(is_part)
        };
        let host = host.to_ascii_lowercase();
        is_name(&host).then(|| Self::Host { scheme, user: user.map(str::to_owned), host, port })
    }
}

fn parted(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_git_reads_them() {
        let host = |scheme, user: &str, host: &str, port| {
            let user = Some(user.to_owned()).filter(|user| !user.is_empty());
            Some(Place::Host { scheme, user, host: host.to_owned(), port })
        };
        for (url, place) in [
            ("https://github.com/a/b", host("https", "", "github.com", 443)),
            (
                "https://me:token@Git.example.com:8443/x",
                host("https", "me", "git.example.com", 8443),
            ),
            ("ssh://git@h.example:2222/x.git", host("ssh", "git", "h.example", 2222)),
            ("git@github.com:a/b.git", host("ssh", "git", "github.com", 22)),
            ("git://h.example/x", host("git", "", "h.example", 9418)),
            ("/srv/x.git", Some(Place::Here("/srv/x.git".into()))),
            ("file:///srv/x.git", Some(Place::Here("/srv/x.git".into()))),
            ("../x.git", Some(Place::Here("../x.git".into()))),
            ("./a:b", Some(Place::Here("./a:b".into()))),
            ("ext::sh -c id", None),
            ("ext::sh", None),
            ("-oProxyCommand=x", None),
            ("ssh://-oProxyCommand=x/y", None),
            ("git@-x:y", None),
            ("foo://h/x", None),
            ("file://host/x", None),
            ("https://h/\u{202e}x", None),
            ("https://h\n/x", None),
        ] {
            assert_eq!(Place::of(url), place, "{url}");
        }
    }
}
