//! The one order in which the environment inside is put together (requirement 1.6).

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::EnvName;
use crate::origin::Origin;

/// Where a variable comes from. Later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnvLayer {
    /// The agent's profile.
    Profile,
    /// The identity's `env` file.
    Identity,
    /// A variable of the caller, by allow list.
    Forwarded,
    /// `PATH`, `HOME` and the other values that are right inside.
    Fixed,
    /// `[env]` of the user's `config.toml`.
    User,
    /// `env` of the repository's file.
    Project,
    /// `--env` of the command line.
    Flag,
    /// `[env]` of the administrator's policy.
    Managed,
    /// Certificates, gateway and workspace.
    Door,
    /// Stand-ins for credentials.
    Placeholder,
}

impl EnvLayer {
    /// Returns the layer's word in `pinfold config --origins`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Identity => "identity",
            Self::Forwarded => "forwarded",
            Self::Fixed => "fixed",
            Self::User => "user",
            Self::Project => "project",
            Self::Flag => "flag",
            Self::Managed => "managed",
            Self::Door => "door",
            Self::Placeholder => "placeholder",
        }
    }
}

/// A variable, its value, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    pub name: EnvName,
    /// The value, without NUL bytes.
    pub value: OsString,
    /// The layer, which decides who wins.
    pub layer: EnvLayer,
    /// Who gave it, for people.
    pub origin: Origin,
}

/// Puts the environment together: for each name the highest layer wins, and within a layer the
/// last. Nothing enters that is not given here. Sorted by name.
#[must_use]
pub fn compose_env(vars: impl IntoIterator<Item = EnvVar>) -> Vec<EnvVar> {
    let mut chosen: BTreeMap<EnvName, EnvVar> = BTreeMap::new();
    for var in vars {
        match chosen.get(&var.name) {
            Some(present) if present.layer > var.layer => {}
            _ => {
                chosen.insert(var.name.clone(), var);
            }
        }
    }
    chosen.into_values().collect()
}
