//! GitHub for sessions that are not trusted with a token: which repositories they are about.

use pinfold_git::github::{configuration, repositories};
use pinfold_policy::settings::Settings;
use pinfold_terminal::notify;
use pinfold_worktree::workspace::Workspace;

use crate::RunError;

/// Lets git have the tokens that are brokered, for the remotes that the workspace's repository has
/// on github.com now: what the sandbox makes of them later does not count.
///
/// # Errors
/// Returns an error when the administrator's rules do not cover github.com.
pub(crate) fn broker(settings: &mut Settings, workspace: &Workspace) -> Result<(), RunError> {
    if settings.network.brokered.is_empty() {
        return Ok(());
    }
    // An empty workspace is about no repository, wherever its caller stands.
    let remotes = if workspace.is_scratch {
        Vec::new()
    } else {
        repositories(&configuration(&workspace.git_directory()))
    };
    settings.broker(&remotes).map_err(RunError::settings)?;
    for brokered in &settings.network.brokered {
        let hint = brokered.hint.iter().map(|hint| format!(" ({hint} gives it)"));
        notify!("pinfold: note: {brokered}{}", hint.collect::<String>());
    }
    Ok(())
}
