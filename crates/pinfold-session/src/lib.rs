//! From a policy to a running session: supervisor, audit, launcher.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
pub mod tell;

pub mod accept;
mod after;
pub mod agent;
mod anchor;
pub mod audit;
pub mod broker;
mod budget;
mod built;
#[cfg(feature = "guard")]
pub mod bundle;
#[cfg(not(feature = "guard"))]
#[path = "bundle_absent.rs"]
pub mod bundle;
pub mod control;
pub mod dedicated;
pub mod detach;
pub mod door;
mod faults;
mod file_id;
mod filling;
mod gateway;
mod generated;
mod git;
mod gitconfig;
mod github;
pub mod group;
mod guard;
pub mod hide;
pub mod identity;
mod idle;
pub mod image;
mod input;
mod interpreter;
pub mod launcher;
mod live;
mod managed;
mod masks;
mod mount_points;
pub mod mounts;
mod outcome;
mod own;
pub mod owned;
mod pace;
mod placed;
mod placeholder;
pub mod places;
mod protect;
mod protected_dirs;
pub mod provision;
mod proxy;
mod publish;
mod refresh;
pub mod repository;
mod restrict;
mod resume;
pub mod review;
mod run;
mod screen;
mod serving;
pub mod set_aside;
mod shadow;
pub mod snapshot;
pub mod ssh;
mod stand_in;
mod state;
mod stdio;
mod supervise;
mod survey;
mod sys;
pub mod system;
mod talk;
mod terminal;
mod timeline;
pub mod toolchains;
mod tracked;
pub mod trust;
pub mod userland;
mod view;
mod wall;
pub mod workspace;
pub mod wrappers;

pub use filling::Bound;
pub use git::import;
pub use guard::{Prospect, prospect};
pub use outcome::{LimitReached, Outcome, RunError};
pub use pinfold_wire::Window;
pub use run::{Request, run};
pub use state::{SessionId, SessionName, boundary_of, is_live, live_sessions, names};
pub use sys::{die_of, die_of_broken_pipe, die_of_interrupt, remember_ignored_signals};
pub use timeline::{Mark, Timeline, Who};
pub use view::{Extra, View};
pub use wall::all as boundaries;
