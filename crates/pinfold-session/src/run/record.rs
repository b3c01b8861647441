//! What is said and recorded of a run.

use std::io;
use std::path::Path;

use pinfold_boundary::{Feature, Inside};
use pinfold_git::refs::shell_word;
use pinfold_git::settled::Settled;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::session_id::SessionName;
use pinfold_policy::authority::{Authority, Effect, Restriction};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::Settings;
use pinfold_terminal::notify;
use pinfold_worktree::workspace::Workspace;
use serde_json::json;

use crate::request::Request;

/// Restrictions in the record of a session: a repository can have very many protected names.
const MOST_RESTRICTIONS: usize = 256;

/// Hidden paths that are named one by one at most.
const MOST_HIDDEN: usize = 3;

/// Says which wall or limit is missing that nobody insists on, and that the boundary has elsewhere.
pub(super) fn say_what_is_less(
    settings: &Settings,
    inside: &Inside,
    lacks: &[Feature],
    nested: bool,
) {
    if let Some(note) = inside.note() {
        notify!("pinfold: note: {note}");
    }
    if nested {
        notify!(
            "pinfold: note: programs may make sandboxes of their own (nested, by {}): Landlock has no rules for files, and more of \
             {} is in reach",
            settings.scalars.nested.origin,
            if inside.has_own_kernel() { "the machine's kernel" } else { "the kernel" }
        );
        if !inside.enforced.memory && settings.limits.memory.is_some() {
            notify!(
                "pinfold: note: file systems in memory that they mount do not count as resources.memory here"
            );
        }
    } else if inside.enforced.landlock == 0 && !lacks.contains(&Feature::Landlock) {
        // The mounts carry the same verdicts; that one wall less stands is said and recorded.
        notify!("pinfold: note: this run has no Landlock wall (`pinfold doctor` says why)");
    }
    if let Some(cpus) = &settings.limits.cpus
        && !inside.enforced.cpus
    {
        notify!("pinfold: note: resources.cpus, {cpus}, cannot be enforced for this user");
    }
}

/// Says which files and directories are hidden for their names.
pub(super) fn say_what_is_hidden(authority: &Authority, workspace: &Workspace) {
    // What else is hidden (sockets, pinfold's own files, what the user denied) has no name that shows it.
    let is_by_name =
        |found: &&Restriction| found.effect == Effect::Hide && found.reason.opt_in.is_some();
    let mut hidden: Vec<&Path> = authority
        .restrictions()
        .filter(is_by_name)
        .map(|found| found.host.as_path())
        .map(|path| path.strip_prefix(workspace.cwd.as_path()).unwrap_or(path))
        .collect();
    hidden.sort_unstable();
    hidden.dedup();
    let Some(first) = hidden.first() else { return };
    let mut named = hidden
        .iter()
        .take(MOST_HIDDEN)
        .map(|path| Escaped(path).to_string())
        .collect::<Vec<_>>()
        .join(", ");
    if hidden.len() > MOST_HIDDEN {
        named.push_str(&format!(" and {} more", hidden.len() - MOST_HIDDEN));
    }
    let first = shell_word(&Escaped(first).to_string());
    notify!(
        "pinfold: note: hidden in the sandbox: {named} (`pinfold check read {first}` says why)"
    );
}

/// Returns the record of a session that is about to begin.
pub(super) fn record_session<'a>(
    authority: &'a Authority,
    request: &'a Request,
    boundary: &'static str,
    inside: &Inside,
) -> Event<'a> {
    let Request { settings, workspace, nested, name, .. } = request;
    Event::Session {
        subject: authority.subject().to_string(),
        name: name.as_ref().map(SessionName::as_str),
        identity: settings.scalars.identity.as_ref().map(|identity| identity.value.as_str()),
        workspace: workspace.root.to_string(),
        boundary,
        enforced: json!({
            "landlock": inside.enforced.landlock,
            "memory-group": inside.enforced.memory,
            "nested": nested,
        }),
        grants: authority.grants().map(Into::into).collect(),
        restrictions: authority.restrictions().take(MOST_RESTRICTIONS).map(Into::into).collect(),
        more_restrictions: authority.restrictions().count().saturating_sub(MOST_RESTRICTIONS),
    }
}

/// Records what the host took and did not take of a session's changes.
///
/// # Errors
/// Returns the error of writing the log.
pub(super) fn record_settled(settled: &Settled, audit: &Audit) -> io::Result<()> {
    for what in &settled.taken {
        audit.record(&Event::Taken { what: what.clone() })?;
    }
    for kept in &settled.kept {
        let (what, reason) = (kept.named().into_owned(), kept.why.to_string());
        audit.record(&Event::Kept { what, reason })?;
    }
    Ok(())
}
