//! The diary that tools of `pinfold mcp` may use.

use pinfold_host::{Host, Refusal};
use std::sync::Arc;

use pinfold_mcp::{Agent, DiaryError, tools_of};
use pinfold_memory::{DiaryTools, Signer};
use pinfold_personal::identity::PrivateFiles;
use pinfold_session::RunError;

use crate::cli::PolicyArgs;
use crate::exit::Failure;
use crate::policy;

/// Returns the tools that the settings of a run here give an agent; none without a grant. A diary is made if it is missing.
///
/// # Errors
/// Returns an error for settings that are wrong, or a diary that cannot be used.
pub(crate) fn tools(
    args: &PolicyArgs,
    host: Host<'_>,
) -> Result<Option<Arc<dyn DiaryTools>>, Failure> {
    let start = policy::prepare(args, None, policy::presence(args), host)?;
    let settings = start.settings();
    let name = settings.scalars.identity.as_ref().map(|identity| &*identity.value);
    let private = name.map(|name| PrivateFiles::find(name, start.workspace())).transpose();
    let agent = agent(private.map_err(refused)?.as_ref())?;
    Ok(tools_of(settings, host, agent)?)
}

/// Returns what an identity has for diaries.
///
/// # Errors
/// Returns an error for files that cannot be used.
pub(super) fn agent(private: Option<&PrivateFiles>) -> Result<Agent, Failure> {
    let Some(private) = private else { return Ok(Agent::default()) };
    let diary = private.diary().map_err(refused)?;
    let moltnet = private.moltnet().map_err(refused)?;
    let signer = Signer::of_identity(&moltnet).map_err(Failure::new)?;
    Ok(Agent { signer, diary, moltnet: Some(moltnet), ..Agent::default() })
}

impl From<DiaryError> for Failure {
    fn from(error: DiaryError) -> Self {
        let hint = error.hint();
        Self::new(error).hint(hint)
    }
}

pub(super) fn refused(refusal: Refusal) -> Failure {
    RunError::from(refusal).into()
}
