//! From a policy to a running session: supervisor, audit, launcher.

pub mod agent;
pub mod audit;
mod gateway;
mod git;
pub mod launcher;
mod outcome;
pub mod places;
pub mod provision;
mod run;
mod state;
mod stdio;
mod supervise;
mod survey;
mod sys;
mod terminal;
pub mod userland;
mod view;
pub mod workspace;

pub use outcome::{LimitReached, Outcome, RunError};
pub use run::{Request, run};
pub use state::SessionId;
pub use view::{Extra, View};
