//! Rebuilding the repositories that a session made, or setting them aside.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_host::Refusal;
use pinfold_host::shares::{Share, Shares};

use super::After;
use crate::git::rebuild::Rebuilt;
use crate::guard::Walked;

/// New repositories that are rebuilt: git is asked some ten times for each.
const MOST: usize = 256;
/// The new repositories that a look has come to, and the time that git has for them.
#[derive(Debug, Default)]
pub(super) struct Repositories {
    /// How many were begun.
    begun: usize,
    shares: Shares,
    /// Those that the time was too short for, each with the reason.
    late: Vec<(PathBuf, Refusal)>,
}

/// Why a repository was not rebuilt.
struct Unfinished {
    why: Refusal,
    /// Whether its share of the time is over.
    is_late: bool,
}

impl Repositories {
    /// Takes down how many come, and the time for all.
    pub(super) fn expect(&mut self, count: usize, time: Duration) {
        self.shares = Shares::new(count.min(MOST), time);
    }

    /// Begins one; returns its share of the time, if it is not one of too many.
    fn begin(&mut self) -> Option<Share> {
        self.begun += 1;
        (self.begun <= MOST).then(|| self.shares.begin())
    }
}

impl After<'_> {
    /// Rebuilds a new repository in its place, or sets it aside. One that the time was too short for is tried once more
    /// when the others are done.
    pub(super) fn repository(&mut self, path: &Path) {
        let Some(share) = self.repositories.begin() else {
            return self.set_aside(path, "it is one of very many repositories that are new");
        };
        let began = Instant::now();
        let rebuilt = self.rebuild(path, share.time());
        self.repositories.shares.used(share, began.elapsed());
        if let Err(Unfinished { why, is_late }) = rebuilt {
            if is_late {
                self.repositories.late.push((path.to_owned(), why));
            } else {
                self.set_aside_for(path, why.to_string().into(), None);
            }
        }
    }

    /// Tries those again that the time was too short for, and sets aside what is still not rebuilt.
    pub(super) fn rebuild_late(&mut self) {
        let late = std::mem::take(&mut self.repositories.late);
        let count = late.len();
        for (number, (path, why)) in late.into_iter().enumerate() {
            if self.is_over() {
                return;
            }
            if self.is_gone(&path) {
                continue;
            }
            let has_time = !self.rebuild.is_out_of_time();
            let tried = if has_time {
                let share = self.rebuild.time_left() / (count - number) as u32;
                self.rebuild(&path, share).map_err(|it| it.why)
            } else {
                Err(why)
            };
            if let Err(why) = tried {
                self.set_aside_for(&path, why.to_string().into(), None);
            }
        }
    }

    /// Rebuilds a repository in its place within this time.
    fn rebuild(&mut self, path: &Path, time: Duration) -> Result<(), Unfinished> {
        let rebuild = self.rebuild.within(time);
        let Rebuilt { note, is_whole, files } = rebuild
            .at(path, self.settled)
            .map_err(|why| Unfinished { why, is_late: rebuild.is_out_of_time() })?;
        self.git_files.extend(files);
        if path.ends_with(".git") {
            self.note_tree(path);
        }
        self.settled.taken.push(note);
        self.settled.rebuilt.push(path.to_owned());
        if !is_whole {
            self.gone.insert(path.to_owned());
        }
        Ok(())
    }

    /// Notes the working tree of a repository that was rebuilt, if it is new as a whole.
    pub(super) fn note_tree(&mut self, git: &Path) {
        let is_new = |root: &Walked| {
            let below = git.parent().and_then(|top| top.strip_prefix(&root.path).ok());
            below.is_none_or(|top| !root.walk.has_seen(top))
        };
        if self.guard.roots.iter().all(is_new) {
            self.new_trees.extend(git.parent().map(Path::to_owned));
        }
    }

    /// Handles a directory that looks like a repository to git. One that is new is rebuilt like any other;
    /// one that the session only completed stops looking like one.
    pub(super) fn bare_repository(&mut self, path: &Path) {
        if self.is_known(&path.join(".git"))
            && self.guard.is_working_tree(path, self.guard.working_trees())
        {
            return;
        }
        let below =
            |root: &Walked| path.strip_prefix(&root.path).is_ok_and(|it| root.walk.has_seen(it));
        if self.guard.roots.iter().any(below) {
            self.set_aside(&path.join("HEAD"), "with it git takes the directory for a repository");
        } else {
            self.repository(path);
        }
    }
}
