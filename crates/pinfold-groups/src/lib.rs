//! Groups: their tables in the user's settings, and requests of their agents, which are files in `/workspace/ipc/tasks`.
//!
//! An agent writes a file under another name and renames it to `NAME.json`, so that a request is there as a whole or not at
//! all. Everything in the directory may be hostile. It is read without following a link and without waiting, and what is
//! no request is moved to `errors`, with the reason next to it. The caller decides what a request may ask for.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod edit;
mod mailbox;
mod request;
mod schedule;

pub use edit::{GroupEditError, NewGroup, groups_of, with_group, without_group};
pub use mailbox::{Found, Mailbox, MailboxError};
pub use request::{LONGEST, Request};
pub use schedule::Schedule;
