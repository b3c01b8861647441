//! What sessions did, by what the audit log says of them.
//!
//! A [`Report`] is of one session, a [`Comparison`] sets it against earlier ones, a [`Summary`] is of all sessions of a
//! time. Much of it is text that a sandbox chose: names of hosts, arguments of commands, paths. Each such
//! text is cut when it is read, lists are bounded, and a [`Document`] keeps it apart from its own words, so that
//! it drives no terminal, forges no heading, and is data to a model that reads it.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod collect;
mod compare;
mod document;
pub mod export;
mod listed;
mod notes;
mod report;
mod sections;
mod summary;
mod time;

pub use collect::{Reports, Sessions};
pub use compare::Comparison;
pub use document::Document;
pub use listed::Listed;
pub use notes::{LONGEST_NOTES, notes};
pub use report::{
    Approval, Command, CredentialUse, Files, HostUse, Launches, MemoryUse, ModelUse, NotTaken,
    Phases, Refusal, Report, SessionState,
};
pub use summary::{Summary, WorkspaceSummary};
