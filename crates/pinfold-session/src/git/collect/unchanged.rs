//! Whether a session moved anything in its private directory: if not, git need not be asked.

use super::super::start::Start;
use super::super::worktrees;
use super::Collect;

impl Collect<'_> {
    /// Whether each HEAD, every reference, the list of stashes and each index are as they were at the
    /// start.
    pub(super) fn is_unchanged(&self) -> bool {
        let host = self.copied.host.path();
        self.copied.own_stamps.are_those_of(&self.copied.private)
            && !host.join("reftable").exists()
            && Start::read(&self.copied.private).names_the_same(&self.copied.start)
            && worktrees::made(&self.copied.private, host).is_empty()
    }
}
