//! Grants in words, for messages.

use pinfold_policy::authority::{Grant, RootKind};
use pinfold_policy::origin::Origin;

/// Returns what a grant is called in an error, and what to do without it.
pub(crate) fn in_words(grant: &Grant) -> (String, &'static str) {
    let host = &grant.root.host;
    if grant.root.kind == RootKind::Workspace && grant.source == Origin::Default {
        (format!("the workspace {host}"), "change into a project's directory")
    } else {
        (format!("the grant of {host} by {}", grant.source), "leave it out")
    }
}
