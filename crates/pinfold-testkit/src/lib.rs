//! A scripted model server and helpers for tests that run the real thing.
//!
//! [`ModelServer`] stands in for the providers: it speaks Anthropic Messages, OpenAI Chat
//! Completions and OpenAI Responses, and plays a [`Script`] instead of asking a model. It writes
//! down every request, credentials included, so that a test can say which key arrived. Use no
//! real credential with it.

mod conversation;
mod http;
mod operation;
pub mod record;
mod reply;
pub mod repo;
mod route;
pub mod script;
pub mod search;
pub mod server;
pub mod token_server;

pub use record::Request;
pub use repo::TempRepo;
pub use script::Script;
pub use search::find_bytes_in_tree;
pub use server::{ModelServer, Options};
pub use token_server::TokenServer;
