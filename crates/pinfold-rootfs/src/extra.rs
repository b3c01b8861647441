//! What a sandbox's root contains because of its agent, its doors or the user's programs.

use std::sync::Arc;

use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_provision::Lock;

/// A grant that comes with an agent or a door instead of the settings.
#[derive(Debug, Clone)]
pub struct Extra {
    /// Its name in decisions and audit records.
    pub id: Arc<str>,
    /// What it is for.
    pub kind: RootKind,
    /// Where it is on the host.
    pub host: HostPath,
    /// Where it appears inside.
    pub inside: InsidePath,
    /// What may be done with it.
    pub access: Access,
    /// Who gave it.
    pub origin: Origin,
    /// Keeps others from removing what is granted.
    pub held: Option<Arc<Lock>>,
}
