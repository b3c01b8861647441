//! What asks the user while a session runs, and what was answered for always.

use std::path::PathBuf;
use std::sync::Arc;

use pinfold_ask::{Away, ConnectionTerms, Connections, Desk, OfSession, SavedHosts};
use pinfold_egress::Doorkeeper;
use pinfold_host::Refusal;
use pinfold_host::audit::Audit;
use pinfold_host::directories::Places;
use pinfold_host::sessions::SessionState;
use pinfold_policy::settings::Settings;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_worktree::workspace::Workspace;

use crate::RunError;
use crate::control;
use crate::request::Request;

/// Adds the rules that the user has answered `always` with in this repository, as far as the administrator's rules
/// cover them.
///
/// # Errors
/// Returns an error for a file that cannot be read, or has a mistake.
pub(crate) fn add_saved_rules(
    settings: &mut Settings,
    workspace: &Workspace,
    places: &Places,
) -> Result<(), RunError> {
    let saved =
        SavedHosts::new(places).rules_of(&repository(workspace)).map_err(RunError::System)?;
    let ceiling = &settings.ceiling;
    let allowed = saved.into_iter().filter(|rule| ceiling.check_host(rule).is_ok());
    settings.network.allow.extend(allowed);
    Ok(())
}

/// Returns what answers for always are for: the git directory, or the workspace.
pub(crate) fn repository(workspace: &Workspace) -> PathBuf {
    let git = workspace.git_directory();
    if git.exists() { git } else { workspace.root.as_path().to_owned() }
}

/// Returns where the user of a session is asked, if it can ask anything.
///
/// # Errors
/// Returns the error of making a descriptor.
pub(crate) fn desk(
    request: &Request,
    state: &SessionState,
    audit: &Arc<Audit>,
    passage: Option<&Arc<Passage>>,
) -> Result<Option<Arc<Desk>>, RunError> {
    let settings = &request.settings;
    if !settings.ask.connections.value && !settings.host_exec.enabled.value {
        return Ok(None);
    }
    let terminal = passage.filter(|_| request.attended).cloned();
    let places = request.places.clone();
    let of_session = OfSession {
        id: state.id().to_string(),
        workspace: request.workspace.root.as_path().to_owned(),
        private: state.private().to_owned(),
        audit: Arc::clone(audit),
    };
    let away =
        Away::find(&settings.ask, request.host(), of_session, move |session, token, visit| {
            control::by_link(&places, session, token, visit).map_err(Refusal::of)
        });
    Desk::new(terminal, away, &request.places).map(Some).map_err(RunError::System)
}

/// Returns what asks about connections that no rule names.
pub(crate) fn doorkeeper(
    request: &Request,
    desk: &Arc<Desk>,
    audit: &Arc<Audit>,
) -> Option<Arc<dyn Doorkeeper>> {
    let settings = &request.settings;
    let terms = settings.ask.connections.value.then(|| ConnectionTerms {
        patience: settings.ask.patience.value,
        ceiling: settings.ceiling.clone(),
        silent: request.silent_hosts.clone(),
        repository: repository(&request.workspace),
        places: request.places.clone(),
        audit: Arc::clone(audit),
    });
    Some(Arc::new(Connections::new(Arc::clone(desk), terms?)))
}
