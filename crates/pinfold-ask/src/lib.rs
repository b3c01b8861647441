//! Questions of a session to its user, and what they answer.
//!
//! A thread that asks for the sandbox waits in [`Approvals`]. A user answers at the session's terminal
//! (`question`), at its control socket (`approvals_server`, `watchers`), by a link of a webhook (`links`,
//! `link_server`) or by a command (`away`). Questions about connections that no rule names are made in
//! `connections`; those about commands come from elsewhere. Nothing that the sandbox says decides how a
//! question looks, and no door of it leads to where answers are given.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod approvals;
mod approvals_server;
mod away;
mod connections;
mod desk;
pub mod display;
mod link_server;
mod links;
mod loopback;
mod question;
mod question_text;
mod saved_hosts;
mod saved_list;
mod watchers;
mod webhook;

pub use approvals::{Answer, AnswerError, Answered, Approvals, NoAnswer, Pending, Subject, Terms};
pub use approvals_server::{ApproverRequest, Happening, attend};
pub use away::{Away, OfSession};
pub use connections::{ConnectionTerms, Connections};
pub use desk::Desk;
pub use links::Visit;
pub use saved_hosts::{SavedHost, SavedHosts};
pub use saved_list::SavedList;
pub use watchers::Watcher;
