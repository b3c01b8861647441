//! Who acts, and what kinds of root there are.

use std::fmt;
use std::sync::Arc;

/// Who asks for an access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// pinfold itself.
    Core,
    /// A session of an agent, or of a plain command.
    AgentSession {
        /// The agent's name; a plain command has its program's name.
        agent: Arc<str>,
    },
    Extension {
        /// The extension's id.
        id: Arc<str>,
    },
    /// A run that nobody watches.
    Automation {
        /// The automation's id.
        id: Arc<str>,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("core"),
            Self::AgentSession { agent } => write!(f, "agent session {agent}"),
            Self::Extension { id } => write!(f, "extension {id}"),
            Self::Automation { id } => write!(f, "automation {id}"),
        }
    }
}

/// What a root is for. The kind decides nothing; it is shown and recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// The repository or directory the session works in.
    Workspace,
    /// An agent's own files that outlive a session.
    AgentState,
    /// What an extension keeps.
    ExtensionStorage,
    /// What a run produces for others.
    Artifacts,
    /// Private and gone afterwards.
    Temp,
    /// Documents to read.
    Knowledge,
    /// What was fetched.
    Downloads,
    /// Credentials handed over explicitly.
    Secret,
    /// Programs and libraries of the host's userland or a base.
    System,
}

impl RootKind {
    /// Returns the kind's word in settings, decisions and audit.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::AgentState => "agent-state",
            Self::ExtensionStorage => "extension-storage",
            Self::Artifacts => "artifacts",
            Self::Temp => "temp",
            Self::Knowledge => "knowledge",
            Self::Downloads => "downloads",
            Self::Secret => "secret",
            Self::System => "system",
        }
    }
}

impl fmt::Display for RootKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
