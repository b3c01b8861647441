//! The decision: may this host be reached, and by which rule.

use std::fmt;
use std::net::IpAddr;

use super::address::AddressClass;
use super::authority::Endpoint;
use super::github::Brokered;
use super::host::{Host, HostName};
use super::pattern::HostPattern;
use super::rule::{NetworkRule, Ports};
use super::strangers;
use crate::origin::Valued;

/// What a session may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// What may be reached.
    pub allow: Vec<Valued<NetworkRule>>,
    /// Hosts that may lead to addresses of the host's own networks.
    pub internal: Vec<Valued<NetworkRule>>,
    /// Hosts whose TLS is ended here although no rule needs it.
    pub intercept: Vec<Valued<HostPattern>>,
    /// Tokens that the session does not get, and git has outside.
    pub brokered: Vec<Brokered>,
}

/// Why something cannot be reached, with a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// No rule names the host.
    Host(Endpoint),
    /// Rules name the host with other ports.
    Port {
        /// What was asked for.
        asked: Endpoint,
        /// The ports that rules name.
        allowed: Vec<Ports>,
    },
    /// An address without a rule, or one that was never given out for a name.
    Address(Endpoint),
    /// The name leads to an address of the host's own networks.
    Internal {
        /// What was asked for.
        asked: Endpoint,
        /// What kind of address it leads to.
        class: AddressClass,
    },
    /// The request's method or path is not among those of the rule.
    Request {
        /// The host and port.
        asked: Endpoint,
        rule: Box<NetworkRule>,
    },
    /// Another name in TLS or in the request than the one that was allowed.
    OtherName {
        /// What was allowed.
        asked: Endpoint,
        /// What the client then said, shortened and escaped.
        said: String,
    },
    /// The host belongs to a token that the session does not get.
    Brokered {
        /// The host and port.
        asked: Endpoint,
        brokered: Box<Brokered>,
    },
    /// Something else is spoken than the rule says.
    Protocol {
        /// The host and port.
        asked: Endpoint,
        /// What the rule says.
        expected: &'static str,
    },
}

impl NetworkPolicy {
    /// Returns whether nothing at all may be reached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty()
    }

    /// Returns the rule by which a host may be reached.
    ///
    /// # Errors
    /// Returns an error when no rule allows it.
    pub fn decide(&self, asked: &Endpoint) -> Result<&Valued<NetworkRule>, Refused> {
        let named = || self.allow.iter().filter(|rule| rule.value.hosts.matches(&asked.host));
        // A rule that looks at requests is meant even where a broader one would not.
        let fits = || named().filter(|rule| rule.value.ports.contains(asked.port));
        let strict = fits().find(|rule| rule.value.looks_at_requests());
        if let Some(rule) = strict.or_else(|| fits().next()) {
            return Ok(rule);
        }
        if let Some(refused) = self.brokered_at(asked) {
            return Err(refused);
        }
        let allowed: Vec<Ports> = named().map(|rule| rule.value.ports).collect();
        Err(match (&asked.host, allowed.is_empty()) {
            (_, false) => Refused::Port { asked: asked.clone(), allowed },
            (Host::Name(_), true) => Refused::Host(asked.clone()),
            (Host::Address(_), true) => Refused::Address(asked.clone()),
        })
    }

    /// Returns the rules that together decide on the requests to a host and port.
    pub fn rules_for<'a>(
        &'a self,
        asked: &'a Endpoint,
    ) -> impl Iterator<Item = &'a NetworkRule> + 'a {
        let rules = self.allow.iter().map(|rule| &rule.value);
        rules.filter(|rule| rule.matches(&asked.host, asked.port))
    }

    /// Returns whether a request may be made to a host that may be reached; `path` is without its query.
    /// Where rules look at requests, they alone decide: a broader one (such as the one that comes with a
    /// secret) opens nothing that they leave out.
    #[must_use]
    pub fn allows_request(&self, asked: &Endpoint, method: &str, path: &str) -> bool {
        let strict = || self.rules_for(asked).filter(|rule| rule.looks_at_requests());
        match strict().next() {
            Some(_) => strict().any(|rule| rule.allows_request(method, path)),
            None => self.rules_for(asked).next().is_some(),
        }
    }

    /// Returns why a request that is not allowed is refused, where this rule admitted the connection.
    #[must_use]
    pub fn refused_request(&self, asked: &Endpoint, rule: &NetworkRule) -> Refused {
        let rule = Box::new(rule.clone());
        let refused = Refused::Request { asked: asked.clone(), rule };
        self.brokered_at(asked).unwrap_or(refused)
    }

    /// Returns whether TLS with a host is ended here: requests have to be seen, or the host serves
    /// strangers.
    #[must_use]
    pub fn intercepts(&self, asked: &Endpoint) -> bool {
        self.must_intercept(asked)
            || strangers::is_listed(&asked.host) && self.rules_for(asked).all(may_mean_strangers)
    }

    /// Returns whether requests to a host have to be seen.
    #[must_use]
    pub fn must_intercept(&self, asked: &Endpoint) -> bool {
        self.intercept.iter().any(|pattern| pattern.value.matches(&asked.host))
            || self.rules_for(asked).any(NetworkRule::looks_at_requests)
    }

    /// Returns whether there is any host with which TLS is ended here.
    #[must_use]
    pub fn intercepts_any(&self) -> bool {
        let intercepts = |rule: &Valued<NetworkRule>| {
            let rule = &rule.value;
            let means_strangers = || strangers::may_mean_one(&rule.hosts);
            rule.looks_at_requests() || may_mean_strangers(rule) && means_strangers()
        };
        !self.intercept.is_empty() || self.allow.iter().any(intercepts)
    }

    /// Returns whether some port of a name may be reached: only such names are looked up.
    #[must_use]
    pub fn knows(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        self.allow.iter().any(|rule| rule.value.hosts.matches(&host))
    }

    /// Checks that a host may be reached at this address of its own.
    ///
    /// # Errors
    /// Returns an error for an address of the host's own networks without permission.
    pub fn check_address(&self, asked: &Endpoint, address: IpAddr) -> Result<(), Refused> {
        let class = AddressClass::of(address);
        let permitted = || {
            self.internal.iter().any(|rule| {
                let ports = match rule.value.ports {
                    // Written without a port, the permission is for the host as a whole.
                    Ports::Web => Ports::All,
                    ports => ports,
                };
                rule.value.hosts.matches(&asked.host) && ports.contains(asked.port)
            })
        };
        if class.is_public() || permitted() {
            return Ok(());
        }
        Err(Refused::Internal { asked: asked.clone(), class })
    }
}

/// Returns whether a rule leaves it to pinfold how TLS is carried. One for every name has nothing to
/// hide inside TLS, and one with a protocol of its own wants just that.
fn may_mean_strangers(rule: &NetworkRule) -> bool {
    rule.hosts != HostPattern::AnyName && rule.protocol.is_none()
}

impl Refused {
    /// Returns what was asked for.
    #[must_use]
    pub fn asked(&self) -> &Endpoint {
        match self {
            Self::Host(asked)
            | Self::Address(asked)
            | Self::Port { asked, .. }
            | Self::Internal { asked, .. }
            | Self::Request { asked, .. }
            | Self::OtherName { asked, .. }
            | Self::Brokered { asked, .. }
            | Self::Protocol { asked, .. } => asked,
        }
    }

    /// Returns what would allow it; `None` where nothing should.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        let flag = match self {
            // A name that is only looked up has no port yet, and is asked about as one of the web.
            Self::Host(Endpoint { host, port: 80 | 443 }) if host.is_this_machine() => {
                format!("--allow-internal-host {host}:PORT")
            }
            Self::Host(asked) | Self::Port { asked, .. } if asked.host.is_this_machine() => {
                format!("--allow-internal-host {asked}")
            }
            Self::Host(Endpoint { host, port: 80 | 443 }) => format!("--allow-host {host}"),
            Self::Address(Endpoint { host: Host::Address(address), port })
                if !AddressClass::of(*address).is_public() =>
            {
                let host = Host::Address(*address);
                format!("--allow-internal-host {host}:{port}")
            }
            Self::Host(asked) | Self::Port { asked, .. } | Self::Address(asked) => {
                format!("--allow-host {asked}")
            }
            Self::Internal { asked, .. } => format!("--allow-internal-host {asked}"),
            Self::Protocol { asked, .. } => format!("--allow-host {asked}/tcp"),
            Self::Brokered { brokered, .. } => return brokered.hint.clone(),
            Self::Request { .. } | Self::OtherName { .. } => return None,
        };
        Some(Hint::Flag(flag))
    }
}

/// What would allow something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A flag of `pinfold run`.
    Flag(String),
    /// Words for `config.toml`.
    Setting(String),
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Flag(text) | Self::Setting(text)) = self;
        f.write_str(text)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(Endpoint { host, port: 80 | 443 }) => write!(f, "no rule allows {host}"),
            Self::Host(asked) => write!(f, "no rule allows {asked}"),
            Self::Port { asked, allowed } => {
                write!(f, "no rule allows port {} of {} (allowed: ", asked.port, asked.host)?;
                for (at, ports) in allowed.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    match ports {
                        Ports::Web => write!(f, "{comma}443, 80")?,
                        Ports::One(port) => write!(f, "{comma}{port}")?,
                        Ports::All => write!(f, "{comma}all")?,
                    }
                }
                f.write_str(")")
            }
            Self::Address(asked) => {
                write!(f, "no rule allows the address {asked}; names decide, so use the name")
            }
            Self::Internal { asked, class } => {
                write!(f, "{asked} leads to {class}, which is not in allowedInternalHosts")
            }
            Self::Request { asked, rule } => {
                write!(f, "the rule for {} allows only {rule}", asked.host)
            }
            Self::OtherName { asked, said } => {
                write!(f, "the connection is for {asked}, and the client then named {said}")
            }
            Self::Brokered { asked, brokered } => write!(f, "{asked}: {brokered}"),
            Self::Protocol { asked, expected } => {
                write!(f, "the rule for {asked} expects {expected}, and something else was spoken")
            }
        }
    }
}
