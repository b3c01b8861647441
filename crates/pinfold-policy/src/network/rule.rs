//! One rule: hosts, ports, protocol, and what may be asked there.

use std::fmt;
use std::str::FromStr;

use super::authority::{parse_port, split};
use super::host::Host;
use super::pattern::{HostPattern, InvalidPattern};

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TLS, whose server name is the host's.
    Tls,
    /// HTTP in the clear, each request for the host.
    Http,
    /// Anything, unless it begins like one of the others: then as they.
    Tcp,
}

impl Protocol {
    /// Returns the protocol that a port is known for.
    #[must_use]
    pub fn of_port(port: u16) -> Self {
        match port {
            443 => Self::Tls,
            80 => Self::Http,
            _ => Self::Tcp,
        }
    }

    /// Returns the word in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Tcp => "tcp",
        }
    }
}

/// Which ports a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ports {
    /// The web's: 443 and 80.
    Web,
    /// This one.
    One(u16),
    /// Every port.
    All,
}

impl Ports {
    /// Returns whether a port is meant.
    #[must_use]
    pub fn contains(self, port: u16) -> bool {
        match self {
            Self::Web => matches!(port, 80 | 443),
            Self::One(one) => one == port,
            Self::All => true,
        }
    }

    /// Returns whether every port of `other` is meant by these too.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        match other {
            Self::Web => self.contains(80) && self.contains(443),
            Self::One(port) => self.contains(port),
            Self::All => self == Self::All,
        }
    }
}

/// A path that a request may ask for: exactly this, or everything below it if it ends in `/**`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern(String);

impl PathPattern {
    /// Returns a path that is known to be plain.
    pub(super) fn exactly(path: String) -> Self {
        Self(path)
    }

    /// Returns whether a path is meant. One that could mean another to the server is meant by no
    /// pattern: with an empty or dotted segment (also with blanks, a parameter or an encoded `?` or `#`
    /// behind the dots), an encoded slash, dot, percent sign or control character, a backslash, anything
    /// above ASCII that is not encoded as sound UTF-8, or a character that some servers fold to one of
    /// these.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        if !is_plain(path) {
            return false;
        }
        match self.0.strip_suffix("/**") {
            Some(above) => {
                path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
            }
            None => path == self.0,
        }
    }
}

fn is_plain(path: &str) -> bool {
    let Some(segments) = path.strip_prefix('/') else { return false };
    let mut segments = segments.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if !(is_plain_segment(segment) || segment.is_empty() && is_last) {
            return false;
        }
    }
    true
}

/// Returns whether a segment has one reading, and is not empty.
fn is_plain_segment(segment: &str) -> bool {
    let Some(decoded) = decoded(segment) else { return false };
    // Some servers take what follows a semicolon for a parameter (RFC 3986, 3.3), and who decodes twice
    // takes what follows an encoded question mark for the query. Some cut blanks and dots off the end.
    let name = decoded.split([';', '?', '#']).next().unwrap_or_default();
    !name.trim_matches([' ', '.']).is_empty()
}

/// Returns a segment without its percent-encoding; none if that says something that servers read in
/// several ways.
fn decoded(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = segment.get(at + 1..at + 3)?;
                let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
                if byte.is_ascii_control() || b"/\\.%".contains(&byte) {
                    return None;
                }
                decoded.push(byte);
                at += 3;
            }
            b'\\' => return None,
            byte if byte.is_ascii_graphic() => {
                decoded.push(*byte);
                at += 1;
            }
            _ => return None,
        }
    }
    String::from_utf8(decoded).ok().filter(|text| !text.chars().any(is_folded))
}

/// Characters that Unicode's compatibility forms or a server's own tables make a dot, slash, backslash,
/// percent sign, blank or nothing of, and blocks in which others may be: controls, marks of format,
/// punctuation, symbols like letters, operators, enclosed and vertical forms, full and half width.
fn is_folded(character: char) -> bool {
    matches!(u32::from(character),
        0x80..=0xa0 | 0xad | 0x34f | 0x61c | 0x66a..=0x66d | 0x700..=0x70f | 0x115f..=0x1160
        | 0x1680 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x2000..=0x206f | 0x2100..=0x214f
        | 0x2150..=0x218f | 0x2200..=0x22ff | 0x2460..=0x24ff | 0x2571..=0x2573 | 0x27c0..=0x27ef
        | 0x2980..=0x2aff | 0x2e00..=0x2e7f | 0x3000..=0x3003 | 0x3033..=0x3035 | 0x3164
        | 0xa4f8..=0xa4ff | 0xd7b0..=0xf8ff | 0xfe00..=0xfe6f | 0xfeff..=0xffff | 0x1d16d
        | 0x1f100..=0x1f12f | 0xe0000..=0x10_ffff)
}

impl FromStr for PathPattern {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let fixed = text.strip_suffix("/**").unwrap_or(text);
        let valid = (fixed.is_empty() && text == "/**") || is_plain(fixed);
        if !valid || fixed.contains(['*', '?', '#']) {
            return Err(InvalidRule::Path);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What may be reached. As text: `NAME[:PORT][/PROTOCOL]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetworkRule {
    /// Which hosts.
    pub hosts: HostPattern,
    /// Which of their ports.
    pub ports: Ports,
    /// What is spoken there, if not what the port is known for.
    pub protocol: Option<Protocol>,
    /// Methods that may be asked for; all if empty. More than none means that TLS is ended here.
    pub methods: Vec<String>,
    /// Paths that may be asked for; all if empty.
    pub paths: Vec<PathPattern>,
}

/// Why a text is no [`NetworkRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRule {
    #[error(transparent)]
    Hosts(#[from] InvalidPattern),
    #[error("expected a port between 1 and 65535, or * for all, after the colon")]
    Port,
    #[error("expected tls, http or tcp after the slash")]
    Protocol,
    #[error(
        "a path begins with /, may end in /** for everything below it, has no empty or dotted segments, \
         and what is not ASCII is percent-encoded"
    )]
    Path,
    #[error("a method is written in capital letters, such as GET")]
    Method,
}

impl NetworkRule {
    /// Returns a rule for the web ports of some hosts.
    #[must_use]
    pub fn web(hosts: HostPattern) -> Self {
        Self { hosts, ports: Ports::Web, protocol: None, methods: Vec::new(), paths: Vec::new() }
    }

    /// Returns the smallest rule for a host and port, which are as [`Endpoint`](super::Endpoint) shows
    /// them. The web's two ports are one.
    #[must_use]
    pub fn exactly(endpoint: &str) -> Option<Self> {
        let rule: Self = endpoint.parse().ok()?;
        let ports = match rule.ports {
            Ports::One(80 | 443) => Ports::Web,
            ports => ports,
        };
        Some(Self { ports, ..rule })
    }

    /// Returns whether the rule speaks of a host and port.
    #[must_use]
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.hosts.matches(host) && self.ports.contains(port)
    }

    /// Returns what is spoken on a port by this rule.
    #[must_use]
    pub fn protocol_at(&self, port: u16) -> Protocol {
        self.protocol.unwrap_or_else(|| Protocol::of_port(port))
    }

    /// Returns whether requests must be seen to be decided on.
    #[must_use]
    pub fn looks_at_requests(&self) -> bool {
        !self.methods.is_empty() || !self.paths.is_empty()
    }

    /// Returns whether a request may be made. `path` is without its query.
    #[must_use]
    pub fn allows_request(&self, method: &str, path: &str) -> bool {
        let method_fits = self.methods.is_empty() || self.methods.iter().any(|one| one == method);
        let path_fits = self.paths.is_empty() || self.paths.iter().any(|one| one.matches(path));
        method_fits && path_fits
    }

    /// Returns whether everything that `other` allows is allowed by this rule too, requests aside.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let protocol = self.protocol == other.protocol || self.protocol == Some(Protocol::Tcp);
        self.hosts.covers(&other.hosts) && self.ports.covers(other.ports) && protocol
    }
}

impl FromStr for NetworkRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        if text.contains("://") {
            return Err(InvalidPattern::Url.into());
        }
        let (endpoint, protocol) = match text.split_once('/') {
            Some((endpoint, word)) => (endpoint, Some(word.parse()?)),
            None => (text, None),
        };
        let is_bare_v6 = endpoint.parse::<std::net::Ipv6Addr>().is_ok();
        let (hosts, port) = if is_bare_v6 { (endpoint, None) } else { split(endpoint) };
        let ports = match port {
            None => Ports::Web,
            Some("*") => Ports::All,
            Some(digits) => Ports::One(parse_port(digits).ok_or(InvalidRule::Port)?),
        };
        Ok(Self { ports, protocol, ..Self::web(hosts.parse()?) })
    }
}

impl FromStr for Protocol {
    type Err = InvalidRule;

    fn from_str(word: &str) -> Result<Self, InvalidRule> {
        let all = [Self::Tls, Self::Http, Self::Tcp];
        all.into_iter().find(|protocol| protocol.word() == word).ok_or(InvalidRule::Protocol)
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hosts.fmt(f)?;
        match self.ports {
            Ports::Web => {}
            Ports::One(port) => write!(f, ":{port}")?,
            Ports::All => f.write_str(":*")?,
        }
        if let Some(protocol) = self.protocol {
            write!(f, "/{}", protocol.word())?;
        }
        if !self.methods.is_empty() {
            write!(f, " {}", self.methods.join(","))?;
        }
        for path in &self.paths {
            write!(f, " {path}")?;
        }
        Ok(())
    }
}
