//! What closes a tree in once it is complete.

use std::convert::Infallible;
use std::os::fd::BorrowedFd;

use pinfold_init::Failure;
use pinfold_wire::{Channel, LastSteps};

use super::root::Root;
use crate::backing::Backing;
use crate::group::Group;
use crate::launch_error::LaunchError;
use crate::plan::LaunchPlan;

/// What closes the tree in once it is complete.
pub(crate) enum Wall {
    /// The process that made it.
    Own,
    /// Something that this process becomes, such as a container engine.
    Other(Box<dyn Takeover>),
}

impl Wall {
    /// Returns whether the tree is only served to another kernel.
    pub(super) fn serves_files(&self) -> bool {
        match self {
            Self::Own => false,
            Self::Other(takeover) => takeover.serves_files(),
        }
    }
}

/// What the process that made a tree becomes, to start init elsewhere.
pub(crate) trait Takeover {
    /// Returns whether a kernel of its own answers the sandbox's system calls.
    fn has_own_kernel(&self) -> bool;

    /// Returns whether it serves the tree to a kernel that mounts its own /proc, /dev and private directories.
    fn serves_files(&self) -> bool {
        false
    }

    /// Returns the descriptors that the child needs for it.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns what the supervisor keeps of it. Called before the clone.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    fn backing(
        &self,
        group: Option<Group>,
        steps: LastSteps,
    ) -> Result<Box<dyn Backing>, LaunchError>;

    /// Becomes it, in the child.
    ///
    /// # Errors
    /// Returns the step that failed.
    fn take_over(
        self: Box<Self>,
        root: &Root,
        plan: &LaunchPlan,
        channel: &Channel,
    ) -> Result<Infallible, Failure>;
}
