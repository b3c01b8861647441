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

use std::path::Path;

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
}
