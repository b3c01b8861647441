//! What settings are made from.

use super::agent_loop::AgentLoop;
use super::budget::FlagBudget;
use super::host_exec::FlagHostExec;
use super::narrowing::Narrowing;
use super::network::FlagNetwork;
use super::project::Project;
use super::scalars::FlagScalars;
use super::words::AgentState;
use crate::document::SettingsFile;
use crate::env::EnvName;
use crate::limits::{ByteSize, MilliCpus, WallTime};
use crate::path::HostPath;
use crate::project::Base;

/// Whether somebody watches the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// Somebody does.
    #[default]
    Attended,
    /// Nobody does: the workspace is a view unless a setting says otherwise.
    Unattended,
}

/// Whether a repository's file may widen what its user gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Nobody has looked at it.
    #[default]
    Untrusted,
    /// The user has trusted this very content.
    Trusted,
}

/// Everything that has a say, as it was found.
#[derive(Clone, Debug, Default)]
pub struct Layers<'a> {
    /// What `~/` stands for in the user's file.
    pub home: Option<&'a HostPath>,
    /// Whether somebody watches the run.
    pub attendance: Attendance,
    /// The administrator's `policy.toml`, if there is one.
    pub ceiling: Option<SettingsFile<'a>>,
    /// The user's `config.toml`, if there is one.
    pub user: Option<SettingsFile<'a>>,
    /// The repository's `sandbox.json` or `sandbox.toml`, if there is one.
    pub project: Option<Project>,
    /// Whether its user trusts that file as it is.
    pub trust: Trust,
    /// The repository's `.agent-loop/config.json`, if there is one.
    pub agent_loop: Option<AgentLoop>,
    /// The command line.
    pub flags: Flags,
}

/// The command line's part. What is absent was not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Those of one value.
    pub scalars: FlagScalars,
    /// `--state`.
    pub state: Option<AgentState>,
    /// `--my-config`.
    pub my_config: bool,
    pub limits: FlagLimits,
    /// `--env NAME=VALUE`, in order.
    pub env: Vec<(EnvName, String)>,
    /// `--forward-env NAME`.
    pub forward_env: Vec<EnvName>,
    /// `--read PATH`.
    pub read: Vec<HostPath>,
    /// `--write PATH`.
    pub write: Vec<HostPath>,
    /// `--socket PATH`.
    pub sockets: Vec<HostPath>,
    /// `--opt-in NAME`.
    pub opt_in: Vec<String>,
    /// The network's.
    pub network: FlagNetwork,
    /// `--base`, its path absolute if it is one.
    pub base: Option<Base>,
    /// Commands on the host.
    pub host_exec: FlagHostExec,
    /// `--ask`.
    pub ask: bool,
    /// The budget of this session.
    pub budget: FlagBudget,
    /// `--narrow`.
    pub narrowing: Option<Narrowing>,
}

/// The limits on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagLimits {
    /// `--cpus`.
    pub cpus: Option<MilliCpus>,
    /// `--memory`.
    pub memory: Option<ByteSize>,
    /// `--pids`.
    pub pids: Option<u64>,
    /// `--disk`.
    pub disk: Option<ByteSize>,
    /// `--files`.
    pub files: Option<u64>,
    /// `--timeout`.
    pub timeout: Option<WallTime>,
}
