//! The reviewed list, compiled in.

/// What the filter says to a system call; the words are those of `data/syscalls.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Refuse,
    Absent,
    Nested,
    Namespaces,
    Families,
    Terminal,
    Personality,
    Init,
    Setuid,
    Nodes,
    Queues,
    Owner,
    Leases,
    Moves,
    Renames,
    Empty,
    Options,
    Attributes,
    /// Succeeds without effect; no row says so itself.
    Pretend,
}

/// One system call.
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
}

include!(concat!(env!("OUT_DIR"), "/syscalls.rs"));
