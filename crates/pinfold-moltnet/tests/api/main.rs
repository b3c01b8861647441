//! MoltNet's task API over a socket.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod access;
mod client;
mod diaries;
mod hostile;
mod inquiries;
mod remote;
mod remote_lies;
mod replay;
mod runtimes;
mod scene;
mod served;
mod tasks;
