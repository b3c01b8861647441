//! Whether a session or the host moved anything in a repository: if not, git need not be asked.

use std::path::Path;

use pinfold_git::baseline::Start;
use pinfold_git::index::Index;
use pinfold_git::stamp::Stamps;
use pinfold_git::worktrees;

use crate::git::private::Copied;

impl Copied {
    /// Returns whether each HEAD, every reference, the list of stashes and what each index holds are in
    /// the private directory as they were at the start. An index in which only times of files differ
    /// (`git status` writes such a one) holds the same.
    pub(crate) fn is_unchanged(&self) -> bool {
        let host = self.host.path();
        !host.join("reftable").exists()
            && Start::read(&self.private).names_the_same(&self.start)
            && worktrees::made(&self.private, host).is_empty()
            && self.hold_the_same()
    }

    /// Returns whether the same is true of the host's git directory. Worktrees that it has besides do not matter.
    pub(super) fn is_host_unchanged(&self) -> bool {
        let host = self.host.path();
        !host.join("reftable").exists()
            && Start::read(host).has_all_of(&self.start)
            && Stamps::of(host) == self.stamps
    }

    fn hold_the_same(&self) -> bool {
        let now = Stamps::of(&self.private);
        let nothing_known = Stamps::default();
        let mut changed = now.differences(self.own_stamps.as_ref().unwrap_or(&nothing_known));
        changed.all(|name| {
            name.ends_with("index")
                && self.is_as_copied(name)
                && holds_the_same(&self.private, self.host.path(), name).unwrap_or_default()
        })
    }
}

/// Returns whether an index holds the same in two git directories; `None` where one cannot be read, or
/// some of it is in another file.
fn holds_the_same(one: &Path, other: &Path, name: &str) -> Option<bool> {
    let open = |git: &Path| Index::open(git.join(name).parent()?);
    let (one, other) = (open(one)?, open(other)?);
    // Another number of entries is not worth a digest of them, which a session could make as long as it likes.
    Some(one.count()? == other.count()? && one.entries()? == other.entries()?)
}
