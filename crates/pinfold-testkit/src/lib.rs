//! A scripted model server and helpers for tests that run the real thing.
//!
//! [`ModelServer`] stands in for the providers: it speaks Anthropic Messages, OpenAI Chat
//! Completions and OpenAI Responses, and plays a [`Script`] instead of asking a model. It writes
//! down every request, credentials included, so that a test can say which key arrived. Use no
//! real credential with it.
//!
//! [`Stage`], [`Session`] and [`Tmux`] run the real pinfold as the real users that [`people`] returns.
//! These helpers panic when they fail: a test that cannot be prepared has failed.

pub mod agent;
pub mod archive;
mod calls;
mod conversation;
pub mod engines;
mod executable;
pub mod git_attacks;
mod http;
mod machine;
pub mod memory;
mod operation;
pub mod podman;
mod postgres;
mod processes;
pub mod record;
pub mod registry;
mod reply;
pub mod repo;
mod route;
pub mod script;
pub mod search;
pub mod server;
mod session;
pub mod snapshot;
mod stage;
pub mod systemd;
mod tmux;
pub mod token_server;
pub mod tracer;
mod user;

pub use calls::{call_number, python_program};
pub use executable::{executable, kept_directory};
pub use machine::{
    LS_FAILS, NO_MOVES, OWN_PROCESSES, behind_gvisor, behind_vm, boundary, engine, has_engine,
    installed, machine_settings, not_behind_gvisor, patience, processes_with, run_line, skip,
};
pub use postgres::Postgres;
pub use record::Request;
pub use repo::TempRepo;
pub use script::Script;
pub use search::find_bytes_in_tree;
pub use server::{ModelServer, Options};
pub use session::Session;
pub use stage::Stage;
pub use tmux::Tmux;
pub use token_server::TokenServer;
pub use user::{User, people};
