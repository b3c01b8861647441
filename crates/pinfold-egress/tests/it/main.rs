//! The gateway and the downloads against real servers on loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod budgets;
mod clouds;
mod credentials;
mod download;
mod event_streams;
mod floods;
mod logins;
mod models;
mod streams;
mod support;
mod upstreams;
