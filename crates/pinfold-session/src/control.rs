//! Talking to a live session: a socket that only the session's own user reaches.
//!
//! It lies in the session's private directory, which no sandbox sees, and goes with it. A program
//! that runs next to the command gets its streams from the client by descriptor: their bytes never
//! pass through the session's supervisor, and a client that reads slowly slows nobody but its own.

mod approvals;
mod attach;
mod bounds;
mod client;
mod exec;
mod message;
mod rules;
mod server;
mod session;

pub(crate) use approvals::by_link;
pub use approvals::{Attendance, no_door};
pub use attach::{Attach, AttachEnd, attach};
pub use bounds::Limits;
pub use client::{change, reachable, stop};
pub use exec::{Exec, ExecEnd, Tty, end_of_input, exec};
pub use message::{Change, RulesNow};
pub(crate) use rules::Rules;
pub(crate) use server::{Base, Control, News};
pub use session::{Running, Session, variable};

/// The socket's name in the session's private directory.
const NAME: &str = "control";
