//! What is kept of a sandbox whose init is a child of this process.

use crate::backing::Backing;
use crate::group::Group;

/// Nothing but the control group.
#[derive(Debug)]
pub(super) struct NamespaceBacking(pub(super) Option<Group>);

impl Backing for NamespaceBacking {
    fn is_parent(&self) -> bool {
        true
    }

    fn group(&self) -> Option<&Group> {
        self.0.as_ref()
    }
}
