//! Lists that a sandbox can make long.

use serde::Serialize;

/// Items of a list at most.
const MOST: usize = 100;

/// The first items of a list, and how many more there were.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// How many others there were. One that came twice counts twice.
    pub more: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), more: 0 }
    }
}

impl<T> Listed<T> {
    /// Adds an item, or counts it if the list is long.
    pub(crate) fn push(&mut self, item: T) {
        if self.items.len() < MOST {
            self.items.push(item);
        } else {
            self.more += 1;
        }
    }

    /// Returns the item that is meant, which is added if it is missing; none if the list is long.
    pub(crate) fn find_or_add(
        &mut self,
        is_meant: impl Fn(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> Option<&mut T> {
        let place = self.items.iter().position(is_meant);
        if place.is_none() && self.items.len() == MOST {
            self.more += 1;
            return None;
        }
        if place.is_none() {
            self.items.push(new());
        }
        let last = self.items.len() - 1;
        self.items.get_mut(place.unwrap_or(last))
    }

    /// Returns whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.more == 0
    }
}
