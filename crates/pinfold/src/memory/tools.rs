//! The diary that tools of `pinfold mcp` may use.

use pinfold_host::{Host, Refusal};
use pinfold_mcp::{Agent, tools_of};
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
) -> Result<Option<Box<dyn DiaryTools>>, Failure> {
    let start = policy::prepare(args, None, policy::presence(args), host)?;
    let settings = start.settings();
    let name = settings.identity.as_ref().map(|identity| &*identity.value);
    let private = name.map(|name| PrivateFiles::find(name, start.workspace())).transpose();
    let private = private.map_err(refused)?;
    let signer = private.as_ref().map(signer).transpose()?.flatten();
    let diary = private.as_ref().map(PrivateFiles::diary).transpose().map_err(refused)?.flatten();
    let moltnet = private.as_ref().map(PrivateFiles::moltnet).transpose().map_err(refused)?;
    let agent = Agent { signer, diary, moltnet, ..Agent::default() };
    tools_of(settings, host, agent).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })
}

/// Returns who signs for an identity.
///
/// # Errors
/// Returns an error for a key that cannot be used.
pub(super) fn signer(private: &PrivateFiles) -> Result<Option<Signer>, Failure> {
    let file = private.moltnet().map_err(refused)?;
    Signer::of_identity(&file).map_err(Failure::new)
}

pub(super) fn refused(refusal: Refusal) -> Failure {
    RunError::from(refusal).into()
}
