//! The host's HEAD and index follow a working tree that the inside moved.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, unlinkat};

use super::super::host::HostGit;
use super::super::index::{self, Index};
use super::super::read::{Content, kind_at, open_directory, read_beneath, read_bounded};
use super::super::refs::Head;
use super::super::settle::Settled;
use super::super::worktrees::Worktree;
use super::Collect;
use crate::anchor::Anchor;

/// What says that a command was stopped, and what else it leaves (`remove_branch_state` in git's
/// branch.c).
const STOPPED: [&str; 3] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"];
const OF_STOPPED: [&str; 5] = ["MERGE_RR", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "AUTO_MERGE"];

impl Collect<'_> {
    pub(super) fn head_of(&self, worktree: &Worktree) -> Head {
        let git = HostGit { program: self.git, directory: &worktree.git };
        Head {
            branch: git.line(&["symbolic-ref", "-q", "HEAD"]),
            commit: git.line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]),
        }
    }

    /// Brings the host's HEAD and index of a working tree to what it is at.
    pub(super) fn follow(
        &self,
        number: usize,
        worktree: &Worktree,
        before: &Head,
        head: &Head,
        settled: &mut Settled,
    ) -> Result<(), String> {
        let Some(commit) = &head.commit else { return Ok(()) };
        let git = HostGit { program: self.git, directory: &worktree.git };
        let directory = worktree.git.open().map_err(|error| error.to_string())?;
        let now = read_beneath(&directory, Path::new("HEAD")).ok().flatten();
        let is_there = self.before.is_some() && self.head_of(worktree) == *head;
        let had = |now: Content| self.copied.start.had_head(&worktree.head, &now.bytes);
        if !is_there && !now.is_some_and(had) {
            let kept = format!("refs/pinfold/{}/{}", self.session, worktree.head);
            self.host().run(&["update-ref", &kept, commit], None)?;
            let what = format!("HEAD of {}, kept as {kept}", worktree.top.display());
            self.keep(settled, what, "the host's was moved meanwhile".to_owned());
            return Ok(());
        }
        match &head.branch {
            None => {
                git.run(&["update-ref", "--no-deref", "HEAD", commit], None)?;
            }
            Some(branch) => {
                // Only where the host's branch is the same: HEAD must not skip what the host has.
                if git.line(&["rev-parse", "-q", "--verify", branch]).as_ref() != Some(commit) {
                    return Ok(());
                }
                if before.branch.as_ref() != Some(branch) {
                    git.run(&["symbolic-ref", "HEAD", branch], None)?;
                }
            }
        }
        self.take_index(number, &worktree.git)
    }

    /// Takes the index that git wrote for the new commit. There is none where the commit is the
    /// one that the host had checked out. What a sparse checkout leaves out stays out.
    fn take_index(&self, number: usize, git: &Anchor) -> Result<(), String> {
        let said = |error: std::io::Error| format!("cannot write the index: {error}");
        let opened = git.open().map_err(said)?;
        let private = open_directory(&self.out).map_err(|errno| errno.to_string())?;
        let name = format!("index-{number}");
        let index = read_bounded(private, Path::new(&name), index::LARGEST);
        let Some(index) = index.map_err(|unread| format!("{name} {unread}"))? else {
            return Ok(());
        };
        let skipped = Index::open(git.path()).map(|old| old.skipped()).unwrap_or_default();
        let mut bytes = index.bytes;
        if !skipped.is_empty()
            && let Some(new) = Index::of(git.path(), bytes.clone())
        {
            let skipped = skipped.iter().map(PathBuf::as_path);
            bytes = new.without(skipped).unwrap_or(bytes);
        }
        index::install(&opened, &bytes, self.session).map_err(said)?;
        self.finish_merge(git.path(), &opened);
        Ok(())
    }

    /// A merge, cherry-pick or revert that was stopped on the host and that the inside finished is
    /// finished here too.
    fn finish_merge(&self, git: &Path, opened: &OwnedFd) {
        let Ok(relative) = git.strip_prefix(self.copied.host.path()) else { return };
        let Ok(copy) = open_directory(&self.copied.private.join(relative)) else { return };
        if STOPPED.iter().any(|name| kind_at(&copy, name).is_some()) {
            return;
        }
        for name in STOPPED.iter().chain(&OF_STOPPED) {
            let _ = unlinkat(opened, *name, AtFlags::empty());
        }
    }
}
