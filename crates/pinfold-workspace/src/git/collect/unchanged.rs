//! Whether a session or the host moved anything in a repository: if not, git need not be asked.

use std::path::Path;

use pinfold_git::baseline::Start;
use pinfold_git::index::Index;
use pinfold_git::stamp::Stamps;
use pinfold_git::worktrees;

use super::Collect;

impl Collect<'_> {
    /// Whether each HEAD, every reference, the list of stashes and what each index holds are in the
    /// private directory as they were at the start. An index in which only times of files differ
    /// (`git status` writes such a one) holds the same.
    pub(super) fn is_unchanged(&self) -> bool {
        let host = self.copied.host.path();
        !host.join("reftable").exists()
            && Start::read(&self.copied.private).names_the_same(&self.copied.start)
            && worktrees::made(&self.copied.private, host).is_empty()
            && self.hold_the_same()
    }

    /// Whether the same is true of the host's git directory. Worktrees that it has besides do not
    /// matter.
    pub(super) fn is_host_unchanged(&self) -> bool {
        let host = self.copied.host.path();
        !host.join("reftable").exists()
            && Start::read(host).has_all_of(&self.copied.start)
            && Stamps::of(host) == self.copied.stamps
    }

    fn hold_the_same(&self) -> bool {
        let now = Stamps::of(&self.copied.private);
        let mut changed = now.differences(&self.copied.own_stamps);
        changed.all(|name| {
            name.ends_with("index")
                && self.copied.is_as_copied(name)
                && holds_the_same(&self.copied.private, self.copied.host.path(), name)
                    .unwrap_or_default()
        })
    }
}

/// Whether an index holds the same in two git directories; `None` where one cannot be read, or some
/// of it is in another file.
fn holds_the_same(one: &Path, other: &Path, name: &str) -> Option<bool> {
    let open = |git: &Path| Index::open(git.join(name).parent()?);
    let (one, other) = (open(one)?, open(other)?);
    // Another number of entries is not worth a digest of them, which a session could make as long
    // as it likes.
    Some(one.count()? == other.count()? && one.entries()? == other.entries()?)
}
