//! MoltNet's APIs of tasks and of diaries, as a server and as a client.
//!
//! What a task asks for and what an attempt returns are known by [content addresses](pinfold_content::Cid) over the bytes that
//! `JSON.stringify` writes, so values are read and written as JavaScript does ([`Value`](pinfold_content::Value)). The [`Server`] answers the API
//! on a store of tasks of its own, one transaction for each request. A [`Remote`] is a worker's source of tasks behind it,
//! and [`RemoteDiaries`] are what tools of a diary ask.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod agents;
mod client;
mod condition;
mod diaries;
mod problem;
mod schema;
mod scope;
mod server;
mod task_type;

pub use agents::{Agent, Agents, AgentsError, KEY_BEGINS, NewAgent, PublicKey};
pub use client::{
    Credentials, CredentialsError, Remote, RemoteArtifacts, RemoteConfig, RemoteDiaries, VARIABLES,
    Work,
};
pub use diaries::{DiaryConfig, Record};
pub use pinfold_egress::WayOut;
pub use scope::{Scope, UnknownScope};
pub use server::{Profile, Server, ServerConfig, TlsFiles, TlsFilesError};
