//! Tasks of a team in PostgreSQL: several machines work on one queue.
//!
//! [`PostgresStore`] keeps what the queue of `pinfold-tasks` decides. An [`Address`] is a URL as libpq has it, read so that
//! nothing secret is ever shown, and stricter where libpq would go on without protection.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod address;
mod choice;
mod connection;
mod database;
mod error;
mod schema;
mod store;
mod stream;
mod tls;

pub use address::{Address, AddressError};
pub use choice::{AnyStore, DATABASE_VARIABLE, OpenError};
pub use store::PostgresStore;
