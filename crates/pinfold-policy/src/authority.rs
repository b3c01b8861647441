//! The Filesystem Authority (requirement 7.1): one value that owns roots, grants and decisions.
//!
//! Mounts, Landlock rules, the direct file API and `pinfold check` are all generated from an
//! [`Authority`]; none of them holds a rule of its own. The rules, in order:
//!
//! 1. A path is read as the sandbox sees it: links are followed in the sandbox's own name space.
//! 2. The grant whose inside path is the longest prefix, by component, governs.
//! 3. A restriction beats every grant, wherever the same host file appears inside.
//! 4. Among restrictions hiding wins, otherwise the innermost.
//! 5. What no grant names does not exist, except the directories that lead to a grant.

mod build;
mod decide;
mod explain;
mod grant;
mod resolve;
mod subject;
mod tree;
mod value;

pub use build::{AuthorityBuilder, AuthorityError, Claim};
pub use decide::{Allowed, Answer, Decision, DenyReason, UserPresence};
pub use explain::{Explanation, GrantLine, RestrictionLine, Verdict};
pub use grant::{
    Effect, Grant, HardLinks, Reason, Restriction, Root, RootId, Rules, Symlinks, Why,
};
pub use resolve::{Block, Hop, Located, Place, Resolved};
pub use subject::{RootKind, Subject};
pub use tree::{Entry, HostTree, Kind, Tree};
pub use value::{Authority, Pin, Placement};

#[cfg(test)]
mod tests;
