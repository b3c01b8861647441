//! What a session may do: settings, grants, rules and decisions, without I/O of its own.
//!
//! The crate starts no process and opens no socket. It reads the bytes it is handed and, through
//! [`authority::Tree`], the names and links of the file system. Everything that enforces a
//! decision (mounts, Landlock rules, the direct file API) is generated from the one
//! [`authority::Authority`] value built here.

pub mod access;
pub mod allowlist;
pub mod authority;
pub mod count;
pub mod document;
pub mod env;
pub mod glob;
pub mod limits;
pub mod network;
pub mod origin;
pub mod path;
pub mod prices;
pub mod project;
pub mod settings;
pub mod ssh;
