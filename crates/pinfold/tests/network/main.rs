//! The network, the gateway, budgets and logins.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod budgets;
mod gateway;
mod logins;
mod models;
mod network;
