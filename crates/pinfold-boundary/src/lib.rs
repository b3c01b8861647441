//! Where a session runs.
//!
//! A [`Boundary`] takes a [`LaunchPlan`] (what the sandbox consists of, in words that name no
//! mechanism) and returns a running [`Inside`]. One module for each boundary; this crate knows
//! mounts and namespaces and neither policy files nor the command line.

mod backing;
mod capability;
pub mod container;
mod group;
mod inside;
pub mod landlock;
mod launch_error;
mod live_view;
pub mod managed;
pub mod namespace;
mod outlets;
pub mod ownership;
mod plan;
mod sys;
pub mod systemd;
mod wait;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::Timespec;

pub use backing::{Backing, InitCommand, LateInit};
pub use capability::{Capabilities, Feature, Finding, Probe};
pub use group::{Exceeded, Group};
pub use inside::{Doors, Ender, Inside};
pub use launch_error::{LaunchError, step_failed};
pub use live_view::LiveView;
pub use outlets::connections::DoorRequest;
pub use pinfold_init::{close_all_but, end_on_panic};
pub use pinfold_wire::{Mask, MaskKind, Step};
pub use plan::{
    Changes, CpuShare, Door, Entry, Identity, Landlock, LaunchPlan, Lower, Place, Program,
    ResourceLimits, Stdio, StdioEnd,
};
pub use wait::{Waited, wait};

/// One way to keep a session in.
pub trait Boundary {
    /// Returns the name by which it is selected (`--boundary`).
    fn name(&self) -> &'static str;

    /// Returns what its sessions cannot have. It is refused where somebody asks for it.
    fn lacks(&self) -> &'static [Feature] {
        &[]
    }

    /// Returns what it enforces here, and what stands in the way.
    fn probe(&self) -> Probe;

    /// Starts the sandbox: everything up to the masks, which the caller sends when it has scanned
    /// the workspace. The command runs when the caller says so.
    ///
    /// # Errors
    /// Returns whatever kept the sandbox from being made; nothing is left behind then.
    fn launch(&self, plan: LaunchPlan, session: Session<'_>) -> Result<Inside, LaunchError>;
}

/// Whose a sandbox is.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// Its name, which no other of this machine has.
    pub name: &'a str,
    /// A directory of its own, which nobody but its user can look into, and which goes with it.
    pub directory: &'a Path,
    /// The user's configuration of the agent, where the boundary brings it in.
    pub configuration: Option<&'a systemd::Configuration>,
    /// Can be read once the user wants the start to end. Signals are blocked by then, so a wait for an engine, a runner
    /// or a machine looks at it, and ends with [`LaunchError::Interrupted`].
    pub interrupt: Option<BorrowedFd<'a>>,
}

impl Session<'_> {
    /// Returns whether the user wants the start to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        wait(&[], self.interrupt, NOW) == Ok(Waited::Interrupted)
    }

    /// Returns a descriptor of the interrupt for what waits later.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub fn own_interrupt(&self) -> Result<Option<OwnedFd>, LaunchError> {
        let own = self.interrupt.map(|interrupt| interrupt.try_clone_to_owned()).transpose();
        own.map_err(|source| LaunchError::System { what: "cannot keep a descriptor", source })
    }
}
