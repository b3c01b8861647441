//! The diary that tools of a session may use.

use pinfold_content::SystemClock;
use pinfold_host::Host;
use pinfold_memory::{Diary, DiaryName, KnownSecrets, MemoryTools};
use pinfold_policy::settings::MemoryGrant;
use pinfold_secrets::Store;

use crate::cli::PolicyArgs;
use crate::exit::Failure;
use crate::policy;

/// Returns the tools that the settings of a run here give an agent; none without a grant. A diary is made if there is none.
///
/// # Errors
/// Returns an error for settings that are wrong, or a diary that cannot be used.
pub(crate) fn tools(args: &PolicyArgs, host: Host<'_>) -> Result<Option<MemoryTools>, Failure> {
    let start = policy::prepare(args, None, policy::presence(args), host)?;
    let settings = start.settings();
    let grant = settings.memory.value;
    if grant == MemoryGrant::None {
        return Ok(None);
    }
    let identity = settings.identity.as_ref().map(|identity| identity.value.as_str());
    let name = DiaryName::new(identity, None).map_err(Failure::new)?;
    let diary = Diary::open(host.places, &name, Box::new(SystemClock))?;
    let (places, launcher) = (host.places.clone(), host.launcher.clone());
    Ok(MemoryTools::new(diary, grant, move || {
        let store = Store::new(places.secrets());
        KnownSecrets::of_store(&store, &launcher).map_err(|error| error.to_string())
    }))
}
