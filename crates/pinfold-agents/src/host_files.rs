//! Variables and files of the host that an agent's file names, because they choose a provider.

use std::path::PathBuf;

use pinfold_policy::env::EnvName;
use pinfold_policy::words;

/// Variables of the host that say where a provider is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostVariables {
    /// Variables that choose the provider when they are true.
    pub chosen_by: Vec<EnvName>,
    /// Variables with its base URL.
    pub base_url: Vec<EnvName>,
    /// Variables with its region.
    pub region: Vec<EnvName>,
    /// Variables with its project.
    pub project: Vec<EnvName>,
}

words! {
    /// What a key of a file on the host sets.
    HostKey, "host key":
    /// A provider's base URL.
    BaseUrl = "base_url",
    Provider = "provider",
}

/// A key of a file of the agent's own on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// The file, absolute or relative to the home.
    pub path: PathBuf,
    /// The key, with dots between tables.
    pub key: String,
    /// What it sets.
    pub sets: HostKey,
    /// The provider that it concerns; any if absent.
    pub provider: Option<String>,
    /// Values that choose what pinfold chooses anyway.
    pub except: Vec<String>,
}
