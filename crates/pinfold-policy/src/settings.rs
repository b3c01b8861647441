//! Settings: flags over project over user over built in, under the administrator's ceiling.
//!
//! Every value knows its origin. A repository's file may narrow what the user and the defaults
//! allow; what widens it waits until the user trusts that very content. A value above the ceiling is an error that
//! names both sides, never quietly lowered, unless nobody chose it.

mod agent_loop;
mod api;
mod ask;
mod branch;
mod budget;
mod ceiling;
mod cloud_name;
mod diary;
mod effective;
mod error;
mod fields;
mod group;
mod group_home;
mod group_import;
mod host_exec;
pub(crate) mod keys;
mod layers;
mod narrowing;
mod network;
mod origins;
mod project;
mod publish;
mod read;
mod resolve;
mod scalars;
mod ssh;
mod task_rules;
mod url;
mod values;
mod widen;
mod words;
mod wrapper;

pub use agent_loop::AgentLoop;
pub use api::Api;
pub use ask::AskSettings;
pub use branch::{BranchName, InvalidBranch};
pub use budget::{Budget, BudgetOf, FlagBudget, Usd, UsdError};
pub use ceiling::Ceiling;
pub use cloud_name::{CloudName, InvalidCloudName};
pub use diary::DiarySettings;
pub use effective::Settings;
pub use error::{InvalidGroup, SettingsError};
pub(crate) use fields::path;
pub use group_home::{ExtraName, ExtraNameError, GroupFiles, GroupHome, GroupMount};
pub use group_import::{import_group, import_groups};
pub use host_exec::{FlagHostExec, HostExec, HostExecVerdict, LISTED};
pub use keys::{CEILING, ID_PATTERN, PLACE_PATTERN, PROJECT, USER};
pub use layers::{Attendance, FlagLimits, Flags, Layers, Trust};
pub use narrowing::Narrowing;
pub use network::FlagNetwork;
pub use origins::OriginRow;
pub use project::Project;
pub use publish::{InvalidPublishedPort, PublishedPort};
pub use scalars::{FlagScalars, Scalars};
pub use task_rules::TaskRules;
pub use url::{BaseUrl, BaseUrlError};
pub use values::{EnvSetting, FileSettings, ProviderSettings};
pub use words::{
    AcceleratorName, AgentState, ApplyMode, BoundaryName, EngineName, GroupTrust, IdentityMode,
    LandlockMode, MemoryGrant, ShadowMode, UnknownWord, Window, WorkspaceMode,
};
pub use wrapper::WrapperSetting;

#[cfg(test)]
mod tests;
