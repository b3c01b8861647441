//! What an agent's container image is made of, and the name that follows from it.
//!
//! An image is built from a context: the agent's own files ([`AgentFiles`]) and every directory of
//! its extensions folder ([`AgentContext`]). Its tag carries a hash over what was read, so what has not
//! changed is not built again, and a new extension needs nothing but its directory. A repository may add
//! a [`Layer`].
//!
//! The layout of context, hash and tag is the one that Ralph's users have images and scripts for; see
//! [`hash`] and [`ImageTag`]. This crate starts no process and knows no engine.

mod context;
mod dependencies;
mod dockerfile;
mod files;
pub mod hash;
mod layer;
mod tag;
mod tree;

pub use context::{AgentContext, Content, EXTENSIONS, NoContext};
pub use dependencies::{DependencyError, Package};
pub use dockerfile::{BASE_ARGUMENT, Base, Dockerfile, DockerfileError};
pub use files::AgentFiles;
pub use hash::{ImageHash, Sha256};
pub use layer::{Layer, LayerError, USER_ARGUMENT};
pub use tag::{ImageTag, InvalidReference, NoName, Reference};
pub use tree::ContextError;
