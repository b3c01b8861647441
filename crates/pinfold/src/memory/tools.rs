//! The diary that tools of `pinfold mcp` may use.

use pinfold_host::Host;
use pinfold_mcp::tools_of;
use pinfold_memory::MemoryTools;

use crate::cli::PolicyArgs;
use crate::exit::Failure;
use crate::policy;

/// Returns the tools that the settings of a run here give an agent; none without a grant. A diary is made if there is none.
///
/// # Errors
/// Returns an error for settings that are wrong, or a diary that cannot be used.
pub(crate) fn tools(args: &PolicyArgs, host: Host<'_>) -> Result<Option<MemoryTools>, Failure> {
    let start = policy::prepare(args, None, policy::presence(args), host)?;
    tools_of(start.settings(), host, Vec::new()).map_err(Failure::new)
}
