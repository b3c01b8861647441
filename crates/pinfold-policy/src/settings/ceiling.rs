//! The administrator's ceiling: what no lower layer passes.

use std::fmt::Display;

use super::error::SettingsError;
use super::words::{BoundaryName, LandlockMode};
use crate::limits::{Limits, WallTime};
use crate::network::NetworkRule;
use crate::origin::{Origin, Valued};
use crate::path::HostPath;

/// What the administrator allows. Without a policy file everything is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    pub(super) limits: Limits,
    pub(super) boundaries: Option<Valued<Vec<BoundaryName>>>,
    pub(super) landlock: Option<Valued<LandlockMode>>,
    pub(super) roots: Option<Valued<Vec<HostPath>>>,
    pub(super) hosts: Option<Valued<Vec<NetworkRule>>>,
    /// The hosts that a task leaves.
    pub(super) narrowed_hosts: Option<Valued<Vec<NetworkRule>>>,
    pub(super) agents: Option<Valued<Vec<String>>>,
    pub(super) host_exec: Option<Valued<bool>>,
    pub(super) executables: Option<Valued<Vec<String>>>,
    pub(super) allow_weaker: Option<Valued<bool>>,
    pub(super) nested: Option<Valued<bool>>,
}

impl Ceiling {
    /// Returns how long anything may run.
    #[must_use]
    pub fn timeout(&self) -> Option<&Valued<WallTime>> {
        self.limits.timeout.as_ref()
    }

    /// Returns whether a boundary may be used: for the automatic choice.
    #[must_use]
    pub fn allows_boundary(&self, boundary: BoundaryName) -> bool {
        self.boundaries.as_ref().is_none_or(|allowed| allowed.value.contains(&boundary))
    }

    /// Checks a boundary that somebody chose.
    ///
    /// # Errors
    /// Returns an error when the administrator does not list it.
    pub fn check_boundary(&self, chosen: &Valued<BoundaryName>) -> Result<(), SettingsError> {
        member("boundary", &chosen.value, &chosen.origin, self.boundaries.as_ref())
    }

    /// Checks an agent, also one that was not named in settings.
    ///
    /// # Errors
    /// Returns an error when the administrator does not list it.
    pub fn check_agent(&self, agent: &Valued<String>) -> Result<(), SettingsError> {
        member("agent", &agent.value, &agent.origin, self.agents.as_ref())
    }

    /// Checks a path that is to be granted: a workspace, or one the user names.
    ///
    /// # Errors
    /// Returns an error when it lies under none of the administrator's roots.
    pub fn check_path(
        &self,
        key: &'static str,
        path: &HostPath,
        origin: &Origin,
    ) -> Result<(), SettingsError> {
        let Some(roots) = &self.roots else { return Ok(()) };
        if roots.value.iter().any(|root| path.starts_with(root)) {
            return Ok(());
        }
        Err(SettingsError::NotAllowed {
            key,
            asked: Valued::new(path, origin.clone()).shown(),
            ceiling: Valued::new(listed(&roots.value, "paths under "), roots.origin.clone())
                .shown(),
        })
    }

    /// Checks a rule for hosts.
    ///
    /// # Errors
    /// Returns an error when none of the administrator's rules covers it, or none of the task's.
    pub fn check_host(&self, rule: &Valued<NetworkRule>) -> Result<(), SettingsError> {
        for hosts in [&self.hosts, &self.narrowed_hosts].into_iter().flatten() {
            if !hosts.value.iter().any(|allowed| allowed.covers(&rule.value)) {
                return Err(SettingsError::NotAllowed {
                    key: "network.allow",
                    asked: rule.shown(),
                    ceiling: Valued::new(listed(&hosts.value, ""), hosts.origin.clone()).shown(),
                });
            }
        }
        Ok(())
    }

    /// Returns whether a task leaves this host.
    pub(super) fn leaves_host(&self, rule: &NetworkRule) -> bool {
        let covers =
            |hosts: &Valued<Vec<NetworkRule>>| hosts.value.iter().any(|it| it.covers(rule));
        self.narrowed_hosts.as_ref().is_none_or(covers)
    }

    pub(super) fn narrow_hosts(&mut self, hosts: Valued<Vec<NetworkRule>>) {
        self.narrowed_hosts = Some(hosts);
    }

    /// Checks a request for nested user namespaces.
    ///
    /// # Errors
    /// Returns an error when the administrator forbids them.
    pub fn check_nested(&self, origin: &Origin) -> Result<(), SettingsError> {
        permitted("nested", origin, self.nested.as_ref())
    }

    pub(super) fn check_host_exec(&self, origin: &Origin) -> Result<(), SettingsError> {
        permitted("host_exec.allowed", origin, self.host_exec.as_ref())
    }

    pub(super) fn check_executable(&self, name: &Valued<String>) -> Result<(), SettingsError> {
        member("hostExec.executables", &name.value, &name.origin, self.executables.as_ref())
    }

    pub(super) fn allows_executable(&self, name: &[u8]) -> bool {
        let is_it = |allowed: &String| allowed.as_bytes() == name;
        self.executables.as_ref().is_none_or(|allowed| allowed.value.iter().any(is_it))
    }

    pub(super) fn check_weaker(&self, origin: &Origin) -> Result<(), SettingsError> {
        permitted("allow_weaker", origin, self.allow_weaker.as_ref())
    }
}

fn permitted(
    key: &'static str,
    asker: &Origin,
    ceiling: Option<&Valued<bool>>,
) -> Result<(), SettingsError> {
    match ceiling {
        Some(ceiling) if !ceiling.value => Err(SettingsError::NotAllowed {
            key,
            asked: Valued::new(true, asker.clone()).shown(),
            ceiling: ceiling.shown(),
        }),
        _ => Ok(()),
    }
}

fn member<T: PartialEq + Display>(
    key: &'static str,
    value: &T,
    origin: &Origin,
    allowed: Option<&Valued<Vec<T>>>,
) -> Result<(), SettingsError> {
    match allowed {
        Some(allowed) if !allowed.value.contains(value) => Err(SettingsError::NotAllowed {
            key,
            asked: Valued::new(value, origin.clone()).shown(),
            ceiling: Valued::new(listed(&allowed.value, ""), allowed.origin.clone()).shown(),
        }),
        _ => Ok(()),
    }
}

fn listed<T: Display>(values: &[T], before: &str) -> String {
    if values.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("{before}{}", words.join(", "))
}

/// Returns a setting with a strictness: no lower layer may choose less than the ceiling requires; what
/// nobody chose is raised to it.
pub(super) fn at_least<T: Copy + Ord + Display>(
    key: &'static str,
    value: Valued<T>,
    ceiling: Option<&Valued<T>>,
) -> Result<Valued<T>, SettingsError> {
    match ceiling {
        Some(required) if value.value < required.value && value.origin.is_chosen() => {
            Err(SettingsError::TooWeak { key, asked: value.shown(), ceiling: required.shown() })
        }
        Some(required) if value.value < required.value => Ok(required.clone()),
        _ => Ok(value),
    }
}

/// Returns a limit: no lower layer may choose more than the ceiling; what nobody chose is lowered to it,
/// and where nobody says anything the ceiling itself is the limit.
pub(super) fn at_most<T: Copy + Ord + Display>(
    key: &'static str,
    value: Option<Valued<T>>,
    ceiling: Option<&Valued<T>>,
) -> Result<Option<Valued<T>>, SettingsError> {
    match (value, ceiling) {
        (value, None) => Ok(value),
        (None, Some(ceiling)) => Ok(Some(ceiling.clone())),
        (Some(value), Some(ceiling)) if value.value <= ceiling.value => Ok(Some(value)),
        (Some(value), Some(ceiling)) if value.origin.is_chosen() => {
            Err(SettingsError::AboveCeiling { key, asked: value.shown(), ceiling: ceiling.shown() })
        }
        (Some(_), Some(ceiling)) => Ok(Some(ceiling.clone())),
    }
}
