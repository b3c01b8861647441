//! Git that the host runs for a sandbox: in scratch sandboxes, on a git directory of its own.
//!
//! Of what the sandbox wrote only objects count. A first scratch sandbox, without network, reads what
//! its references name. From that a git directory is made, with the remotes that the host's own
//! configuration had at the session's start, and no hooks, filters, aliases, helpers or includes.
//! A second one finds out what a push would do, against a remote that is what this repository
//! remembers of the real one; a hook notes which references would move from where to where, and
//! packs what is new, so that every commit that is shown is one whose bytes were hashed. Only then is
//! the user asked. The push itself runs in a third one that reaches the remote's host and nothing
//! else, with a hook that lets exactly these moves pass.
//!
//! This module plans, shows and reports a command. Each stage runs in a process of its own, `pinfold
//! host-git`, which reads the [`Task`] from its directory.

mod arguments;
mod helper;
mod moves;
mod remote;
mod task;

pub use arguments::Doing;
pub use helper::{ID, PASSWORD, USER};
pub use remote::{Key, Login, Remote, Way};
pub use task::Task;
pub(crate) use task::{prepare, shown_url};
