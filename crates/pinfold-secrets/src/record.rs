//! What is written down next to a secret: where it comes from and what kind it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EnvName, Secret};

/// What kind of credential a secret is: it decides how it goes over the wire, and which shape
/// its placeholder inside must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// A key of an API account.
    ApiKey,
    /// A token of a subscription login.
    Oauth,
    /// A key of somebody's gateway, which is sent as a bearer token.
    Gateway,
}

impl AuthMode {
    /// Returns the kind a value shows by its own shape: Anthropic's subscription tokens begin with
    /// `sk-ant-oat`, everything else is taken for a key.
    #[must_use]
    pub fn of(secret: &Secret) -> Self {
        if secret.expose().starts_with("sk-ant-oat") { Self::Oauth } else { Self::ApiKey }
    }
}

impl fmt::Display for AuthMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey => "api_key",
            Self::Oauth => "oauth",
            Self::Gateway => "gateway",
        })
    }
}

/// The record of one secret, kept as JSON. Never holds a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) source: Source,
    pub(crate) auth: AuthMode,
}

/// Where the value of a recorded secret is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Source {
    /// In the file of the same name.
    File {},
    /// In a variable of the caller's environment.
    Env { name: EnvName },
    /// In what a command prints.
    Command { argv: Vec<String> },
    /// In the keyring of the desktop session.
    Keyring {},
    /// In a login, which pinfold refreshes.
    Login {},
}
