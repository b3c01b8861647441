//! What an image is called.

use std::fmt;
use std::str::FromStr;

use pinfold_egress::is_loopback;

/// The name of an image: `[HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]`. As Docker has it, a name
/// without a host is one of Docker Hub's, and one without a slash lies in its `library`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: String,
    digest: Option<String>,
}

/// A text that names no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` names no image: expected [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]", .0.escape_debug())]
pub struct InvalidReference(String);

/// Docker Hub's name, and the host that serves it.
const HUB: [&str; 2] = ["docker.io", "registry-1.docker.io"];

impl Reference {
    /// Returns the digest, or else the tag.
    pub(super) fn manifest(&self) -> &str {
        self.digest.as_deref().unwrap_or(&self.tag)
    }

    /// Returns the digest that fixes its content, if its name has one.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Returns the same image, fixed to a digest.
    ///
    /// # Errors
    /// Returns an error for a text that is no digest.
    pub fn pinned(&self, digest: &str) -> Result<Self, InvalidReference> {
        crate::integrity_of(digest).ok_or_else(|| InvalidReference(digest.to_owned()))?;
        Ok(Self { digest: Some(digest.to_owned()), ..self.clone() })
    }

    /// Returns the host that it comes from, with a port if there is one.
    fn host(&self) -> &str {
        if self.registry == HUB[0] { HUB[1] } else { &self.registry }
    }

    /// Returns the address of a manifest or blob. Only this machine itself is asked without TLS.
    pub(super) fn url(&self, what: &str, which: &str) -> String {
        let scheme = if self.is_local() { "http" } else { "https" };
        format!("{scheme}://{}/v2/{}/{what}/{which}", self.host(), self.repository)
    }

    /// Returns whether this machine itself is the registry.
    pub(super) fn is_local(&self) -> bool {
        let host = self.host();
        is_loopback(host.rsplit_once(':').map_or(host, |(name, _)| name))
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let invalid = || InvalidReference(text.to_owned());
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => {
                crate::integrity_of(digest).ok_or_else(invalid)?;
                (name, Some(digest.to_owned()))
            }
            None => (text, None),
        };
        let (registry, rest) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => (HUB[0], name),
        };
        let (repository, tag) = match rest.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (rest, "latest"),
        };
        let in_library = registry == HUB[0] && !repository.contains('/');
        let repository =
            if in_library { format!("library/{repository}") } else { repository.to_owned() };
        let fits = is_host(registry) && repository.split('/').all(is_component) && is_tag(tag);
        let (registry, tag) = (registry.to_owned(), tag.to_owned());
        if fits { Ok(Self { registry, repository, tag, digest }) } else { Err(invalid()) }
    }
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.rsplit_once(':').unwrap_or((text, "1"));
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !name.is_empty() && name.bytes().all(inner) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Returns a component of a name (Distribution Specification, "Pulling manifests").
fn is_component(text: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let outer = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let last = text.bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric());
    outer(text) && last && text.bytes().all(inner)
}

fn is_tag(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with(['.', '-'])
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)?;
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}
