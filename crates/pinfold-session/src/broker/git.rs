//! Git that the host runs for an inside: in throwaway pens, on a git directory of ours.
//!
//! Nothing that the inside wrote is live but its objects. A first pen, without network, reads what its
//! references name. From that a git directory is made, with the remotes that the host's own
//! configuration had at the session's start, and no hooks, filters, aliases, helpers or includes.
//! What a push would do is found out in a second pen, against a remote that is what this repository
//! remembers of the real one; a hook of ours notes which references would move from where to where, and
//! packs what is new, so that every commit that is shown is one whose bytes were hashed. Only then is
//! anybody asked. The push itself runs in a third pen that reaches the remote's host and nothing
//! else, with a hook that lets exactly these moves pass.

mod helper;
mod remote;
mod stage;
mod task;
mod words;

pub use stage::Stage;
pub(crate) use task::{Task, prepare, shown_url};
