//! From a policy to a running session: supervisor, audit, launcher.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod agent;
pub mod broker;
mod budget;
#[cfg(feature = "guard")]
pub mod bundle;
#[cfg(not(feature = "guard"))]
#[path = "bundle_absent.rs"]
pub mod bundle;
pub mod caller_trust;
pub mod container_tools;
pub mod control;
pub mod detach;
pub mod door;
mod faults;
mod filling;
mod gateway;
mod gitconfig;
mod github;
pub mod group;
pub mod identity;
mod idle;
mod live;
mod my_config;
pub mod node_tools;
mod outcome;
mod placed;
mod prospect;
mod publish;
pub mod repository;
mod resume;
mod run;
pub mod search_path;
mod serving;
pub mod snapshot;
pub mod ssh;
mod supervise;
mod timeline;
pub mod toolchains;
pub mod trust;
mod view;
mod wall;

pub use filling::Bound;
pub use my_config::MyConfig;
pub use outcome::{LimitReached, Outcome, RunError};
pub use pinfold_wire::Window;
pub use prospect::{Prospect, prospect};
pub use run::{Request, run};
pub use timeline::{Mark, Timeline, Who};
pub use view::{Extra, View};
pub use wall::all as boundaries;
