//! The local API of pinfold (`pinfold serve`): JSON-RPC 2.0, one message a line, on a Unix socket or
//! on standard streams.
//!
//! [`api`] says what can be asked, [`Client`] asks it, and `schema/api.json` describes it for other
//! languages (OpenRPC 1.3).

#![warn(missing_docs)]

pub mod api;
mod client;
mod line;
mod message;
mod schema;

pub use client::{Client, ClientError, Exec, ExecEvent, Watching};
pub use line::{LONGEST, read_bounded_line, read_line, write_line};
pub use message::{Fault, Id, Message, code};
pub use schema::schema;

#[cfg(test)]
mod tests;
