//! GitHub, for sessions that are not trusted with a token: git's own requests to the repositories
//! that the session is about have it, and nothing else.

use std::fmt;

use super::authority::Endpoint;
use super::host::{Host, HostName};
use super::pattern::HostPattern;
use super::policy::{Hint, NetworkPolicy, Refused};
use super::rule::{NetworkRule, PathPattern, Ports};
use super::secret::SecretRule;
use crate::origin::Valued;

/// Where repositories are.
const GIT_HOST: &str = "github.com";
/// Where everything else is.
const API_HOST: &str = "api.github.com";
/// A name for `GIT_HOST` at which ssh is served on port 443.
const SSH_HOST: &str = "ssh.github.com";

const HTTPS: u16 = 443;

impl SecretRule {
    /// Returns whether the secret is a token for GitHub: it goes to one of its two hosts at least.
    #[must_use]
    pub fn is_for_github(&self) -> bool {
        let meant = |name: &str| {
            let host = name.parse();
            host.is_ok_and(|host| self.hosts.iter().any(|pattern| pattern.matches(&host)))
        };
        meant(GIT_HOST) || meant(API_HOST)
    }
}

/// A token for GitHub that a session does not get: git alone has it, outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokered {
    /// Where it goes.
    pub secret: Valued<SecretRule>,
    /// Who does not get it, as words for a sentence.
    pub whom: String,
    /// What would give it to them; `None` where that is not theirs to say.
    pub hint: Option<Hint>,
    /// The repositories that git has it for, known once the workspace is.
    pub repositories: Vec<Repository>,
}

impl NetworkPolicy {
    /// Lets git's own requests to these repositories through, where a token is brokered for them.
    /// Where github.com may be reached anyway the rule for that goes on to decide, and only the
    /// token is for these alone.
    pub(crate) fn broker(&mut self, repositories: &[Repository]) {
        let Some(first) = repositories.first() else { return };
        let at = Endpoint::new(Host::Name(first.host.clone()), HTTPS);
        let is_allowed = self.decide(&at).is_ok();
        let of_it = |brokered: &&mut Brokered| brokered.secret.value.is_for(&at);
        for brokered in self.brokered.iter_mut().filter(of_it) {
            brokered.repositories = repositories.to_vec();
            let rules = repositories.iter().flat_map(Repository::rules).filter(|_| !is_allowed);
            let origin = &brokered.secret.origin;
            self.allow.extend(rules.map(|rule| Valued::new(rule, origin.clone())));
        }
    }

    /// Returns the token by which alone a host could be reached.
    pub(super) fn brokered_at(&self, asked: &Endpoint) -> Option<Refused> {
        let hosts = |brokered: &&Brokered| {
            brokered.secret.value.hosts.iter().any(|pattern| pattern.matches(&asked.host))
        };
        let brokered = self.brokered.iter().find(hosts)?.clone();
        Some(Refused::Brokered { asked: asked.clone(), brokered: Box::new(brokered) })
    }
}

impl fmt::Display for Brokered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not get the token {}", self.whom, self.secret.value.id)?;
        let Some((first, more)) = self.repositories.split_first() else {
            return f.write_str(", and the workspace has no remote on github.com");
        };
        write!(f, ": only git has it, for {first}")?;
        more.iter().try_for_each(|one| write!(f, ", {one}"))
    }
}

/// A repository on github.com.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    /// [`GIT_HOST`].
    host: HostName,
    owner: String,
    /// Without `.git`.
    name: String,
}

impl Repository {
    /// The user that a token logs in as: GitHub takes any name, its documentation names this one.
    pub const USER: &str = "x-access-token";

    /// Returns the repository that a remote's URL names (git-fetch(1), "GIT URLS"), by https or ssh;
    /// `None` for one elsewhere.
    #[must_use]
    pub fn of_url(url: &str) -> Option<Self> {
        let (authority, path) = match url.split_once("://") {
            Some(("https" | "ssh" | "git+ssh" | "ssh+git", rest)) => rest.split_once('/')?,
            Some(_) => return None,
            // Like scp: a slash before the first colon would make it a path.
            None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
        };
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let named = place.split_once(':').map_or(place, |(host, _)| host);
        if ![GIT_HOST, SSH_HOST].contains(&named.parse::<HostName>().ok()?.as_str()) {
            return None;
        }
        let (owner, name) = path.trim_matches('/').split_once('/')?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        let is_word = |word: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !word.is_empty() && !word.bytes().all(|byte| byte == b'.') && word.bytes().all(plain)
        };
        let host = GIT_HOST.parse().ok()?;
        let known = is_word(owner) && is_word(name);
        known.then(|| Self { host, owner: owner.to_owned(), name: name.to_owned() })
    }

    /// Returns it as GitHub names it: `OWNER/NAME`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Returns whether a host is the one that repositories are fetched from and pushed to.
    #[must_use]
    pub fn is_at(asked: &Endpoint) -> bool {
        let is_host = matches!(&asked.host, Host::Name(name) if name.as_str() == GIT_HOST);
        is_host && asked.port == HTTPS
    }

    /// Returns whether a request is git's, for this repository (gitprotocol-http(5), "Smart"). It is
    /// checked against the text of the path as it is: of another way to write it the server may think
    /// otherwise.
    #[must_use]
    pub fn is_asked_for(&self, method: &str, path: &str, query: Option<&str>) -> bool {
        let Some(service) = self.bases().iter().find_map(|base| path.strip_prefix(base.as_str()))
        else {
            return false;
        };
        match (method, service, query) {
            ("GET", "/info/refs", Some(query)) => {
                SERVICES.iter().any(|(service, _)| query.strip_prefix("service=") == Some(service))
            }
            ("POST", service, None) => SERVICES.iter().any(|(_, path)| service == *path),
            _ => false,
        }
    }

    /// Returns the longer one first, since the other is its beginning.
    fn bases(&self) -> [String; 2] {
        let base = format!("/{}/{}", self.owner, self.name);
        [format!("{base}.git"), base]
    }

    /// Rules for these requests and no others.
    fn rules(&self) -> [NetworkRule; 2] {
        let posted = SERVICES.map(|(_, path)| path);
        [("GET", &["/info/refs"][..]), ("POST", &posted)].map(|(method, paths)| {
            let below = |base: String| paths.iter().map(move |path| format!("{base}{path}"));
            NetworkRule {
                ports: Ports::One(HTTPS),
                methods: vec![method.to_owned()],
                paths: self.bases().into_iter().flat_map(below).map(PathPattern::exactly).collect(),
                ..NetworkRule::web(HostPattern::Exactly(Host::Name(self.host.clone())))
            }
        })
    }
}

/// What git asks for when it fetches and pushes, by name and by path.
const SERVICES: [(&str, &str); 2] =
    [("git-upload-pack", "/git-upload-pack"), ("git-receive-pack", "/git-receive-pack")];

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}
