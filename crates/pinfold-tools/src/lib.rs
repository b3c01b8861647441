//! The tools of a session: files read, written, edited and searched inside, asked for from outside.
//!
//! Init starts [`serve`] behind the same walls as the command, with one end of a socket; the
//! supervisor holds a [`Tools`] with the other. So a tool reaches what a command would reach, by
//! the same verdicts of the kernel, and its paths are the sandbox's. What it answers may be a lie:
//! the outside bounds every length and believes nothing.

mod bytes;
mod client;
mod edit;
mod error;
mod find;
mod frame;
mod grep;
mod incoming;
mod list;
mod operation;
mod read;
mod roots;
mod rules;
mod serve;
mod walk;
mod watch;
mod write;

pub use bytes::Bytes;
pub use client::{Call, Tools};
pub use error::{ErrorKind, ToolError};
pub use frame::MAX_CONTENT;
pub use incoming::Incoming;
pub use operation::{
    Change, ContentKind, Edit, EditDone, Entry, EntryKind, Event, Find, FindDone, Grep, GrepDone,
    GrepLine, GrepMode, LineKind, List, ListDone, MakeDirectory, Operation, Range, Read, ReadDone,
    Replacement, Stat, StatDone, Watch, Write, WriteDone,
};
pub use roots::Roots;
pub use serve::serve;

#[cfg(test)]
mod tests;
