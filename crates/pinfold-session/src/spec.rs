//! Files of a run that the command finds at fixed paths: a specification, which the caller gets back as the command
//! left it, and notes about earlier sessions.

use pinfold_agents::SPEC;
use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::InsidePath;
use pinfold_wire::{NotReturned, Order};

/// Where the notes about earlier sessions are in a sandbox that has some.
pub const NOTES: &str = "/run/pinfold/earlier-sessions.md";

/// The most bytes that are taken back.
const MOST: usize = 2 << 20;

/// What came back: the bytes that a sandbox wrote, or why there are none.
pub type ReturnedSpec = Result<Vec<u8>, NotReturned>;

/// Returns the file for the sandbox.
pub(crate) fn entry(content: Vec<u8>) -> Entry {
    let place = Place::File { content, mode: 0o644, keep: false };
    Entry { path: InsidePath::from_static(SPEC), place }
}

/// Returns the file with notes about earlier sessions, which nobody in the sandbox may change.
pub(crate) fn notes(content: Vec<u8>) -> Entry {
    let place = Place::File { content, mode: 0o444, keep: false };
    Entry { path: InsidePath::from_static(NOTES), place }
}

/// Returns the order to report the file when the command has ended.
pub(crate) fn order() -> Order {
    Order::Return { path: SPEC.into(), most: MOST as u64 }
}

/// A specification on its way back.
#[derive(Debug, Default)]
pub(crate) enum Return {
    /// None is wanted.
    #[default]
    NotWanted,
    /// These bytes have come so far.
    Coming(Vec<u8>),
    /// It has come.
    Come(ReturnedSpec),
}

impl Return {
    pub(crate) fn of(wanted: bool) -> Self {
        if wanted { Self::Coming(Vec::new()) } else { Self::NotWanted }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self, Self::Coming(_))
    }

    /// Takes a part. Returns false for one that pinfold-init never sends, which means that something else speaks.
    pub(crate) fn add(&mut self, part: &[u8]) -> bool {
        match self {
            Self::Coming(bytes) if part.len() <= MOST - bytes.len() => {
                bytes.extend_from_slice(part);
                true
            }
            _ => false,
        }
    }

    /// Notes that all has come. Returns false if pinfold-init would not say so here.
    pub(crate) fn end(&mut self, why: Option<NotReturned>) -> bool {
        let Self::Coming(bytes) = self else { return false };
        *self = Self::Come(why.map_or_else(|| Ok(std::mem::take(bytes)), Err));
        true
    }

    /// Returns what came back; none if it was not wanted, or if the sandbox ended before.
    pub(crate) fn take(&mut self) -> Option<ReturnedSpec> {
        match std::mem::take(self) {
            Self::Come(returned) => Some(returned),
            Self::NotWanted | Self::Coming(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Return};

    #[test]
    fn parts_beyond_the_bound_and_parts_that_nobody_wants_are_refused() {
        let mut returned = Return::of(true);
        assert!(returned.add(&vec![0; MOST]) && !returned.add(b"x"));
        assert!(returned.end(None) && !returned.end(None) && !returned.add(b"x"));
        assert_eq!(returned.take().unwrap().unwrap().len(), MOST);
        let mut unwanted = Return::of(false);
        assert!(!unwanted.add(b"x") && !unwanted.end(None));
        assert!(unwanted.take().is_none());
    }
}
