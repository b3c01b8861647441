//! From a policy to a running session: supervisor, audit, launcher.

mod after;
pub mod agent;
pub mod audit;
pub mod door;
mod gateway;
mod git;
mod guard;
pub mod launcher;
pub mod mounts;
mod outcome;
mod pace;
mod placeholder;
pub mod places;
mod protect;
pub mod provision;
mod restrict;
mod run;
mod state;
mod stdio;
mod supervise;
mod survey;
mod sys;
mod terminal;
mod timeline;
pub mod toolchains;
pub mod userland;
mod view;
pub mod workspace;

pub use git::import;
pub use guard::authority_of;
pub use outcome::{LimitReached, Outcome, RunError};
pub use run::{Request, run};
pub use state::SessionId;
pub use sys::die_of_interrupt;
pub use timeline::{Mark, Timeline, Who};
pub use view::{Extra, View};
