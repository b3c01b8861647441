//! What a repository's file says beyond what every settings file can say.
//!
//! The formats are MoltNet's `sandbox.json` and Ralph's `.agent-loop/config.json`; what is ours in
//! the former are `boundary`, `network`, `secrets`, `publish`, `workspaceMode` and
//! `snapshot.base`.

mod approval;
mod resume;
mod shadow;
mod snapshot;
mod widening;

pub use approval::{ApprovalRule, AutoApprove, is_executable};
pub use resume::ResumeCommand;
pub use shadow::{ShadowPath, ShadowPathError};
pub use snapshot::{
    Base, BaseError, ImageEngine, ImageEngineError, InvalidTopDirectory, Snapshot, SystemUser,
    TopDirectory,
};
pub use widening::Widening;
