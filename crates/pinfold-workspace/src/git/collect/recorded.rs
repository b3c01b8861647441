//! Commits that a repository records of its submodules.
//!
//! `git submodule update` on the host checks out what the repository around a submodule records, as long as the git
//! directory of the submodule has that commit; a commit of a session's is there also if its branch waits for the user.
//! Which path has which submodule is up to `.gitmodules`, which a session can write, so each submodule counts.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_git::baseline::Start;
use pinfold_git::host_git::HostGit;
use pinfold_git::stamp::Stamps;
use pinfold_git::state::State;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;

use super::Collect;
use crate::git::modules;
use crate::git::private::Copied;

impl Collect<'_> {
    /// Returns whether a commit that is recorded at a path would put something in place that tools run or trust. One that no
    /// submodule has counts as such: a later session can make it.
    pub(super) fn records_protected(&self, path: &Path, commit: &str) -> Result<bool, Refusal> {
        let start = |copied: &Copied| State::at(&copied.start);
        let there = self.submodules().map(|copied| (copied.clone(), start(copied)));
        // Of one that the session made only its HEAD is known: what its working tree had of that was looked through.
        let made = self.made().into_iter().map(|copied| (copied, State::default()));
        for (copied, state) in there.chain(made) {
            if !self.has(&copied, commit) {
                continue;
            }
            let collect = Collect { copied: &copied, out: self.out.clone(), ..*self };
            if collect.touches_protected(&state, commit)?.is_some() {
                return Ok(true);
            }
        }
        Ok(self.can_be_made(path, commit))
    }

    /// Returns whether submodules of the repository are there and none of them has the commit. A repository of its own in a
    /// working tree is judged by itself.
    pub(super) fn can_be_made(&self, path: &Path, commit: &str) -> bool {
        let has = |copied: &Copied| self.has(copied, commit);
        if self.submodules().next().is_none() || self.submodules().any(has) {
            return false;
        }
        let is_repository = |top: &Path| {
            fs::symlink_metadata(top.join(path).join(".git")).is_ok_and(|git| git.is_dir())
        };
        !self.made().iter().any(has) && !self.own_tops().any(is_repository)
    }

    /// Returns the repositories of the session other than this one.
    fn submodules(&self) -> impl Iterator<Item = &Copied> {
        self.all.iter().filter(|copied| copied.host != self.copied.host)
    }

    /// Returns the submodules that were made since the start: those that the session made were rebuilt before.
    fn made(&self) -> Vec<Copied> {
        let hosts = modules::directories(self.copied.host.path());
        let hosts = hosts.filter_map(|git| Anchor::of(&git).ok());
        let is_new = |host: &Anchor| !self.all.iter().any(|copied| copied.host == *host);
        let copied = |host: Anchor| Copied {
            start: Start::read(host.path()),
            host,
            private: PathBuf::new(),
            base: PathBuf::new(),
            number: 0,
            stamps: Stamps::default(),
            own_stamps: None,
        };
        hosts.filter(is_new).map(copied).collect()
    }

    fn has(&self, copied: &Copied, commit: &str) -> bool {
        let git = HostGit { program: self.git, directory: &copied.host };
        git.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")], None).is_ok()
    }
}

/// Returns the numbers of repositories, a submodule before the repository around it: what a commit of that one records is
/// judged by what the submodule holds by then.
pub(crate) fn inner_first<'p>(hosts: impl Iterator<Item = &'p Path>) -> Vec<usize> {
    let mut all: Vec<(usize, usize)> =
        hosts.map(|host| host.components().count()).enumerate().collect();
    all.sort_by_key(|(_, depth)| std::cmp::Reverse(*depth));
    all.into_iter().map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_come_before_the_repository_around_them() {
        let hosts = ["/w/.git/modules/a", "/w/.git", "/w/b/.git", "/w/.git/modules/a/modules/c"];
        assert_eq!(inner_first(hosts.map(Path::new).into_iter()), [3, 0, 2, 1]);
    }
}
