//! MoltNet's task API, as a server and as a client.
//!
//! What a task asks for and what an attempt returns are known by [content addresses](Cid) over the bytes that
//! `JSON.stringify` writes, so values are read and written as JavaScript does ([`Value`]). The [`Server`] answers the API
//! on a store of tasks of its own, one transaction for each request. A [`Remote`] is a worker's source of tasks behind it.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod agents;
mod canonical;
mod cid;
mod client;
mod condition;
mod id;
mod json;
mod problem;
mod schema;
mod scope;
mod server;
mod task_type;
mod times;

pub use agents::{Agent, Agents, AgentsError, KEY_BEGINS, NewAgent, PublicKey};
pub use cid::{Cid, InvalidCid};
pub use client::{Credentials, CredentialsError, Remote, RemoteConfig, VARIABLES, Work};
pub use id::{InvalidUuid, Uuid};
pub use json::{InvalidJson, MOST_DEPTH, Object, Text, Value, read};
pub use pinfold_egress::WayOut;
pub use scope::{Scope, UnknownScope};
pub use server::{Profile, Server, ServerConfig, TlsFiles, TlsFilesError};
