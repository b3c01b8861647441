//! What was found, in the order of names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{BYTES, Part, lines};
use crate::error::ToolError;
use crate::operation::GrepDone;
use crate::walk::no_rules;
use parking_lot::{Mutex, MutexGuard};

/// What a place has to say.
pub(super) enum Item {
    /// A file that has a match, or a line that is too long.
    Part(Part),
    /// A directory whose rules cannot be read, and the file that holds them: the search ends there.
    Unreadable(PathBuf),
}

/// What was found so far by all threads: as much as the answer can hold, and one item more, which
/// shows that there is more and where it begins.
pub(super) struct Found {
    limit: u64,
    kept: Mutex<Kept>,
    has_enough: AtomicBool,
}

#[derive(Default)]
struct Kept {
    /// Paths are compared part by part, which is the order of a walk by names.
    items: BTreeMap<PathBuf, Item>,
    weight: Weight,
    /// Nothing beyond this is of interest any more.
    end: Option<PathBuf>,
}

/// How much of an answer something takes.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// More than 64 bits hold where no limit is given and the search ends.
    matches: u128,
    bytes: usize,
}

impl Found {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, kept: Mutex::default(), has_enough: AtomicBool::new(false) }
    }

    /// Returns whether the answer is full of what comes before this.
    pub(super) fn has_enough_before(&self, path: &Path) -> bool {
        self.has_enough.load(Ordering::Relaxed)
            && self.kept().end.as_deref().is_some_and(|end| path > end)
    }

    /// Takes what was found at a path, if that is anything.
    pub(super) fn add(&self, path: PathBuf, item: Item) {
        if matches!(&item, Item::Part(part) if part.matches == 0 && !part.is_too_long) {
            return;
        }
        let mut kept = self.kept();
        kept.weight = kept.weight.with(self.weight(&item));
        kept.items.insert(path, item);
        while let Some((_, last)) = kept.items.last_key_value() {
            let without = kept.weight.without(self.weight(last));
            if !self.is_full(without) {
                return;
            }
            let end = kept.items.last_key_value().map(|(path, _)| path.clone());
            let mut before = kept.items.values().rev().skip(1);
            let is_first = before.next().is_none_or(|item| {
                let without = without.without(self.weight(item));
                !self.is_full(without)
            });
            if is_first {
                kept.end = end;
                self.has_enough.store(true, Ordering::Relaxed);
                return;
            }
            kept.items.pop_last();
            kept.weight = without;
        }
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// Returns an error for rules that cannot be read, unless the answer is full before.
    pub(super) fn in_order(&self) -> Result<GrepDone, ToolError> {
        let mut done = GrepDone { lines: Vec::new(), matches: 0, truncated: false, binary: false };
        let mut weight = Weight::default();
        for (_, item) in std::mem::take(&mut self.kept().items) {
            if self.is_full(weight) {
                done.truncated = true;
                break;
            }
            weight = weight.with(self.weight(&item));
            let mut part = match item {
                Item::Part(part) => part,
                Item::Unreadable(rules) => return Err(no_rules(&rules)),
            };
            let room = self.limit - done.matches;
            done.truncated |= part.is_too_long || part.truncated || part.matches > room;
            done.matches += lines::first(&mut part, room);
            done.lines.append(&mut part.lines);
        }
        Ok(done)
    }

    /// Returns a match that does not fit whole is the last of an answer.
    fn weight(&self, item: &Item) -> Weight {
        let (matches, bytes) = match item {
            Item::Part(part) if part.truncated => (self.limit, part.bytes),
            Item::Part(part) => (part.matches, part.bytes),
            Item::Unreadable(_) => (self.limit, 0),
        };
        Weight { matches: matches.into(), bytes }
    }

    fn is_full(&self, weight: Weight) -> bool {
        weight.matches >= self.limit.into() || weight.bytes >= BYTES
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }
}

impl Weight {
    fn with(self, other: Self) -> Self {
        Self { matches: self.matches + other.matches, bytes: self.bytes + other.bytes }
    }

    fn without(self, other: Self) -> Self {
        Self { matches: self.matches - other.matches, bytes: self.bytes - other.bytes }
    }
}
