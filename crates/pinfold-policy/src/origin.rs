//! Where a value came from. Every setting and every grant carries it, so that a refusal can name
//! both sides and `pinfold config --origins` can answer "who said this".

use std::fmt;
use std::sync::Arc;

/// A line of a settings file, named as it was handed in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, with control characters escaped.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The layer, and where there is one the file and line, that gave a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Built into pinfold.
    Default,
    /// An agent's profile.
    Profile {
        /// The agent's name.
        agent: Arc<str>,
    },
    /// The administrator's policy file, `/etc/pinfold/policy.toml`.
    Ceiling(Place),
    /// The user's `config.toml`.
    User(Place),
    /// The repository's `sandbox.json` or `sandbox.toml`.
    Project(Place),
    /// A command-line flag.
    Flag {
        /// The flag with its dashes.
        name: &'static str,
    },
}

impl Origin {
    /// Returns the layer's name: `default`, `profile`, `ceiling`, `user`, `project` or `flag`.
    #[must_use]
    pub fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Profile { .. } => "profile",
            Self::Ceiling(_) => "ceiling",
            Self::User(_) => "user",
            Self::Project(_) => "project",
            Self::Flag { .. } => "flag",
        }
    }

    /// Returns whether a user or an administrator chose the value. What nobody chose may be adjusted to
    /// the machine; what was chosen is honoured or refused.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        !matches!(self, Self::Default | Self::Profile { .. })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the built-in default"),
            Self::Profile { agent } => write!(f, "the profile of agent {agent}"),
            Self::Ceiling(place) | Self::User(place) | Self::Project(place) => place.fmt(f),
            Self::Flag { name } => f.write_str(name),
        }
    }
}

impl serde::Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A value and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valued<T> {
    pub value: T,
    /// Who gave it.
    pub origin: Origin,
}

impl<T> Valued<T> {
    /// Returns a value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// Returns a value built into pinfold.
    pub fn default_of(value: T) -> Self {
        Self::new(value, Origin::Default)
    }
}

impl<T: fmt::Display> Valued<T> {
    /// Returns the value as text, for messages.
    pub(crate) fn shown(&self) -> Box<Valued<String>> {
        Box::new(Valued::new(self.value.to_string(), self.origin.clone()))
    }
}

impl<T: fmt::Display> fmt::Display for Valued<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.value, self.origin)
    }
}
