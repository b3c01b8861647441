//! From what a front end asks for to a running session: preparation, design, supervision, settling.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod agent;
mod boundaries;
#[cfg(feature = "guard")]
pub mod bundle;
#[cfg(not(feature = "guard"))]
#[path = "bundle_absent.rs"]
pub mod bundle;
pub mod control;
mod design;
pub mod detach;
mod doors;
mod group;
pub mod host_git;
mod outcome;
pub mod prepare;
mod prospect;
mod request;
mod run;
pub mod snapshot;
mod spec;
mod supervise;
mod timeline;
mod view;
pub mod workspace_state;

pub use boundaries::{Own as OwnPrograms, all as boundaries, made_for_machines};
pub use doors::records::Used;
pub use outcome::{LimitReached, Outcome, RunError};
pub use pinfold_wire::Window;
pub use prospect::{Prospect, prospect};
pub use request::Request;
pub use run::run;
pub use spec::{NOTES, ReturnedSpec};
pub use timeline::{Mark, Timeline, Who};
