//! An attempt at a task on this machine.
//!
//! The worker's [`LocalEngine`] starts a process for each attempt, so that an attempt that is stuck or killed takes
//! nothing else with it. That process ([`carry_out`]) starts each sandbox as `pinfold run` does: one for the agent, and
//! one for each command that verifies the result. Nothing that a sandbox says decides whether the result is accepted: only
//! the exit status of commands that run on a fresh checkout of the commit.
//!
//! ```text
//! branch at the base ─▶ agent ─▶ commit the rest ─▶ verify in a fresh checkout ─passes─▶ result
//!                         ▲                                  │
//!                         └──── output of what failed ◀──────┘
//! ```
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod admission;
mod attempt;
mod engine;
mod failed;
mod inquiries;
mod job;
mod landing;
mod log;
mod options;
mod prompt;
mod repository;
mod sandbox;
mod spec_loop;
mod unpublished;
mod verify;
mod work;

pub use admission::Admission;
pub use attempt::carry_out;
pub use engine::{COMMAND, LocalEngine, landing_log_of, log_of};
pub use job::{Job, Line, Output, Step};
pub use landing::{LandOrder, Landed, Moves, NotLanded, Obstacle, land};
pub use prompt::first as first_prompt;
pub use repository::{Published, Repository};
pub use spec_loop::{LoopEnd, SpecLoop, run_spec_loop};
