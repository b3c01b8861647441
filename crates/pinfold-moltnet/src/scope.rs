//! What an agent may do, by MoltNet's names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// A part of the API that an agent may use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Scope {
            $($(#[$doc])* #[serde(rename = $word)] $name,)+
        }

        impl Scope {
            /// Every scope.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns its name.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

scopes! {
    /// Who it is.
    AgentProfile = "agent:profile",
    /// Profiles and slots of runtimes.
    RuntimeRead = "runtime:read",
    /// Tasks, attempts, messages and artifacts.
    TaskRead = "task:read",
    /// Claiming tasks.
    TaskClaim = "task:claim",
    /// Working on attempts that it claimed.
    TaskExecute = "task:execute",
    /// Creating, changing, cancelling and deleting tasks.
    TaskManage = "task:manage",
    /// Reading and searching entries.
    DiaryRead = "diary:read",
    /// Adding entries.
    DiaryWrite = "diary:write",
    /// Removing entries.
    DiaryManage = "diary:manage",
    /// Reading packs and renderings.
    PackRead = "pack:read",
    /// Making packs and renderings.
    PackWrite = "pack:write",
    /// Signing entries.
    CryptoSign = "crypto:sign",
}

impl Scope {
    /// What tools of a diary need that only read.
    pub const OF_A_READER: &'static [Self] = &[Self::AgentProfile, Self::DiaryRead, Self::PackRead];

    /// What reading tasks needs.
    pub const OF_A_WATCHER: &'static [Self] = &[Self::TaskRead];

    /// What a worker needs.
    pub const OF_A_WORKER: &'static [Self] = &[
        Self::AgentProfile,
        Self::RuntimeRead,
        Self::TaskRead,
        Self::TaskClaim,
        Self::TaskExecute,
    ];
    /// What an agent needs that remembers.
    pub const OF_A_DIARY: &'static [Self] =
        &[Self::AgentProfile, Self::DiaryRead, Self::DiaryWrite, Self::PackRead, Self::PackWrite];
    /// What tools of a diary need that verify signatures of their own client.
    pub const OF_A_VERIFIER: &'static [Self] =
        &[Self::AgentProfile, Self::DiaryRead, Self::PackRead, Self::CryptoSign];
    /// What an agent needs that signs what it remembers.
    pub const OF_A_SIGNER: &'static [Self] = &[
        Self::AgentProfile,
        Self::DiaryRead,
        Self::DiaryWrite,
        Self::PackRead,
        Self::PackWrite,
        Self::CryptoSign,
    ];
    /// What a user needs who removes entries.
    pub const OF_A_KEEPER: &'static [Self] =
        &[Self::AgentProfile, Self::DiaryRead, Self::DiaryManage, Self::PackRead];
}

/// The error for a word that is no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope; known: {}", Scope::ALL.iter().map(|scope| scope.word()).collect::<Vec<_>>().join(", "))]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(word: &str) -> Result<Self, UnknownScope> {
        Self::ALL.iter().copied().find(|scope| scope.word() == word).ok_or(UnknownScope)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
