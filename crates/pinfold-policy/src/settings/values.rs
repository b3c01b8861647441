//! Values of settings that several files and layers share.

use super::api::Api;
use super::cloud_name::CloudName;
use super::url::BaseUrl;
use super::words::AgentState;
use crate::env::EnvName;
use crate::glob::Glob;
use crate::origin::{Origin, Valued};
use crate::path::HostPath;

/// A variable set in a file or on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSetting {
    /// The name, which is free for the layer that set it.
    pub name: EnvName,
    pub value: String,
    /// Who set it; [`Origin`] has the layer.
    pub origin: Origin,
}

/// Grants and denials beyond the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// Paths granted for reading and running.
    pub read: Vec<Valued<HostPath>>,
    /// Paths granted in full.
    pub write: Vec<Valued<HostPath>>,
    /// Names hidden in every granted directory, the administrator's included.
    pub deny: Vec<Valued<Glob>>,
    /// Unix sockets that stay reachable.
    pub sockets: Vec<Valued<HostPath>>,
    /// Protections that are lifted.
    pub opt_in: Vec<Valued<String>>,
    /// What becomes of the agent's own state.
    pub state: Valued<AgentState>,
    /// Whether the user's own setup of the agent enters.
    pub my_config: Valued<bool>,
}

/// What holds for a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Its base URL, instead of its own.
    pub base_url: Option<Valued<BaseUrl>>,
    /// What a provider of the user's own speaks.
    pub api: Option<Valued<Api>>,
    /// The variable with the key of a provider of the user's own.
    pub env_var_name: Option<Valued<EnvName>>,
    /// Whether it needs no key.
    pub keyless: Option<Valued<bool>>,
    /// The region of Bedrock or Vertex.
    pub region: Option<Valued<CloudName>>,
    /// The project of Vertex.
    pub project: Option<Valued<CloudName>>,
    /// The models that may be asked for; all if absent. A name that ends in `*` stands for all
    /// that begin so.
    pub models: Option<Valued<Vec<String>>>,
    /// Headers that choose an account: names and values.
    pub account: Vec<(String, Valued<String>)>,
}
