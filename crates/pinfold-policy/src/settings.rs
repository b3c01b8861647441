//! Settings: flags over project over user over built in, under the administrator's ceiling.
//!
//! Every value knows its origin. A repository's file may only narrow what the user and the
//! defaults allow, until there is a way to trust it; a value above the ceiling is an error that
//! names both sides, never quietly lowered, unless nobody chose it.

mod budget;
mod ceiling;
mod error;
pub(crate) mod keys;
mod layers;
mod network;
mod origins;
mod read;
mod resolve;
mod ssh;
mod url;
pub(crate) mod words;

pub use budget::{Budget, BudgetOf, Usd};
pub use ceiling::Ceiling;
pub use error::SettingsError;
pub use layers::{Attendance, FlagBudget, FlagLimits, FlagNetwork, Flags, Layers};
pub use network::parse_publish;
pub use origins::OriginRow;
pub use resolve::{EnvSetting, FileSettings, ProviderSettings, Settings};
pub use url::{BaseUrl, BaseUrlError};
pub use words::{
    AgentState, BoundaryName, GitMode, IdentityMode, LandlockMode, UnknownWord, Window,
};

#[cfg(test)]
mod tests;
