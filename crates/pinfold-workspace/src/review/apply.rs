//! Taking changes over into the workspace: staged, written down, then done.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_git::settled::{Kept, Settled};
use pinfold_git::state::State;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::note::Note;
use pinfold_names::Protection;
use pinfold_policy::path::Escaped;
use pinfold_protect::commands::Commands;
use pinfold_terminal::notify;
use pinfold_trees::tree::{Node, Tree, attributes};

use super::changes::{Change, Changes, Left, What, is_within};
use super::ended::Review;
use super::error::ReviewError;
use super::journal::{Action, Journal, OWNER, Skipped, Step, identity, written};
use super::record::Judge;
use super::stage::{Places, Staging};
use crate::git::collect::{Collect, MayMove, Phase, Recorded, inner_first};
use crate::git::private::Copied;

/// What is to be taken over.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Paths relative to the workspace, with what lies below them; everything when there are none.
    pub paths: Vec<PathBuf>,
    /// Overwrite what was changed on the host since, too.
    pub overwrite: bool,
    /// Take what the host would execute, too.
    pub protected: bool,
    /// Leave these paths, with what lies below them.
    pub without: BTreeSet<PathBuf>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Applied {
    /// How many paths were taken over.
    pub done: usize,
    /// What could not be.
    pub skipped: Vec<Skipped>,
    /// What a user should know of commits, one line each.
    pub notes: Vec<Note>,
    /// Whether nothing is left to decide on: then the changes are gone.
    pub complete: bool,
}

impl Applied {
    /// Says what could not be taken over, and what came of commits.
    pub fn report(&self) {
        for skipped in &self.skipped {
            notify!("pinfold: not taken over: {}: {}", Escaped(&skipped.path), skipped.why);
        }
        for note in &self.notes {
            notify!("pinfold: {}", note.text);
        }
    }
}

impl Selection {
    /// Returns whether a change is asked for and may be taken.
    fn takes(&self, change: &Change) -> bool {
        let is_let = match &change.left {
            None => true,
            Some(Left::Protected(_)) => self.protected,
            Some(Left::Never(_)) => false,
        };
        let is_left = !self.without.is_empty()
            && change.path.ancestors().any(|path| self.without.contains(path));
        is_let && !is_left && is_within(&change.path, &self.paths)
    }
}

impl Review {
    /// Returns the changes of a selection that somebody else's changes stand against.
    pub fn conflicts<'c>(&self, changes: &'c Changes, selection: &Selection) -> Vec<&'c Change> {
        let taken = changes.list.iter().filter(|change| selection.takes(change));
        taken.filter(|change| change.conflict.is_some()).collect()
    }

    /// Takes changes over. With the whole selection the session's commits come, too.
    ///
    /// # Errors
    /// Returns an error for a session that runs, or what staging says: then nothing was changed. After
    /// that every change is made, now or by the next pinfold.
    pub fn apply(
        mut self,
        changes: &Changes,
        selection: &Selection,
    ) -> Result<Applied, ReviewError> {
        if self.is_live() {
            return Err(ReviewError::Live(self.session));
        }
        let (upper, lower) = (self.upper()?, self.lower()?);
        let failed = || ReviewError::system("nothing was taken over");
        let taken = with_directories(changes, selection);
        let places = Places::of(&lower, &self.session, &self.directory).map_err(failed())?;
        let mut staging = Staging::make(places, &upper, self.is_at_rest()).map_err(failed())?;
        let judge = Judge::new(&self.record).map_err(failed())?;
        let judge = (!self.is_at_rest()).then_some(&judge);
        let staged = stage(&mut staging, &upper, &taken, judge);
        let written_down = staged.and_then(|steps| {
            let steps = with_closed_directories(&lower, steps)?;
            // Before the first rename everything lies on the disk.
            rustix::fs::syncfs(staging.directory())?;
            let journal = Journal { steps, commits: selection.paths.is_empty() };
            journal.write(&self.journal())
        });
        if let Err(error) = written_down {
            // The next `apply` clears what cannot be removed now.
            let _ = staging.remove();
            return Err(failed()(error));
        }
        drop(staging);
        let mut applied = self.go_on()?;
        let is_all = taken.len() == changes.list.len() && applied.skipped.is_empty();
        applied.complete = is_all && !self.has_commits();
        if applied.complete {
            self.discard()?;
        }
        Ok(applied)
    }

    /// Does what the journal says, or what is left of it.
    ///
    /// # Errors
    /// Returns an error for a workspace that is gone, or the file system's error.
    pub(crate) fn go_on(&mut self) -> Result<Applied, ReviewError> {
        let Some(journal) = self.read_journal()? else { return Ok(Applied::default()) };
        let lower = self.lower()?;
        let failed =
            || ReviewError::system("the changes are not complete; the next pinfold goes on");
        let places = Places::of(&lower, &self.session, &self.directory).map_err(failed())?;
        let staging = places.find().map_err(failed())?;
        let skipped = journal.carry_out(&lower, staging.as_ref());
        rustix::fs::syncfs(lower.root()).map_err(|errno| failed()(errno.into()))?;
        let not_done: HashSet<&PathBuf> = skipped.iter().map(|skipped| &skipped.path).collect();
        let done: HashSet<PathBuf> = journal
            .steps
            .iter()
            .filter(|step| !step.action.is_aid())
            .map(|step| step.path.clone())
            .filter(|path| !not_done.contains(path))
            .collect();
        let count = done.len();
        self.mark_applied(done.into_iter()).map_err(failed())?;
        let notes = if journal.commits { self.collect() } else { Vec::new() };
        places.clear().map_err(failed())?;
        fs::remove_file(self.journal()).map_err(failed())?;
        Ok(Applied { done: count, skipped, notes, complete: false })
    }

    /// Returns whether the session made commits, branches, tags, notes or stashes that nobody has.
    pub fn has_commits(&self) -> bool {
        // One that cannot be opened has not been asked.
        let has_news = |copied: io::Result<Copied>| copied.map_or(true, |it| !it.is_unchanged());
        !self.is_collected() && self.copied().any(|(_, copied)| has_news(copied))
    }

    fn tops(&self) -> Vec<(PathBuf, PathBuf)> {
        self.record.tops.iter().map(|top| (top.top.clone(), top.git.clone())).collect()
    }

    /// Returns the repositories, by their places now, each with its copy.
    fn copied(&self) -> impl Iterator<Item = (&Path, io::Result<Copied>)> {
        self.record.repositories.iter().map(|it| {
            let copied = Anchor::of(&it.host).map(|host| Copied {
                host,
                private: it.private.clone(),
                base: it.base.clone(),
                start: it.start.clone(),
                number: it.number,
                stamps: it.stamps.clone(),
                own_stamps: None,
            });
            (it.host.as_path(), copied)
        })
    }

    /// Takes the commits over, as at the end of a run.
    fn collect(&self) -> Vec<Note> {
        let mut settled = Settled::default();
        if self.is_collected() {
            return Vec::new();
        }
        let git = self.launcher.find("git", std::slice::from_ref(&self.record.workspace));
        let tops = self.tops();
        let protection = Protection::default();
        let named = self.record.named.iter();
        let named: Vec<PathBuf> = named.map(|it| self.record.workspace.join(&it.path)).collect();
        let workspace = &self.record.workspace;
        let roots = [(workspace.clone(), self.record.site())];
        let commands = Commands::new(&self.record.ahead(), std::slice::from_ref(workspace));
        let mut failed = false;
        let found: Vec<(&Path, io::Result<Copied>)> = self.copied().collect();
        let all: Vec<Copied> =
            found.iter().filter_map(|(_, copied)| copied.as_ref().ok()).cloned().collect();
        for number in inner_first(found.iter().map(|(host, _)| *host)) {
            let (host, copied) = &found[number];
            let collected = match (&git, copied) {
                (Ok(git), Ok(copied)) => {
                    let collect = Collect {
                        copied,
                        all: &all,
                        rebuilt: &[],
                        git,
                        session: &self.session,
                        may_move: MayMove::All,
                        out: self.directory.join(format!("out-{}", copied.number)),
                        tops: &tops,
                        protection: &protection,
                        roots: &roots,
                        named: &named,
                        commands: &commands,
                        hidden: &[],
                        phase: Phase::End,
                        recorded: Recorded::default(),
                    };
                    collect.collect(&mut State::at(&copied.start), &mut settled)
                }
                (Ok(_), Err(error)) => Err(Refusal::new(error)),
                (Err(missing), _) => Err(format!("no git can be used: {missing}").into()),
            };
            if let Err(error) = collected {
                failed = true;
                let what = format!("commits in {} ({error})", host.display());
                settled.kept.push(Kept::new(what, "they could not be taken over"));
            }
        }
        if !failed && let Err(error) = self.mark_collected() {
            settled.kept.push(Kept::new(format!("a note of it ({error})"), "it may come again"));
        }
        settled.notes()
    }
}

/// Returns the changes of a selection, with the new directories that they lie in.
fn with_directories<'c>(changes: &'c Changes, selection: &Selection) -> Vec<&'c Change> {
    let chosen: Vec<&Change> =
        changes.list.iter().filter(|change| selection.takes(change)).collect();
    let above: HashSet<&Path> =
        chosen.iter().flat_map(|change| change.path.ancestors().skip(1)).collect();
    let is_needed = |change: &Change| {
        selection.takes(change)
            || (change.becomes_directory()
                && change.what != What::Mode
                && above.contains(change.path.as_path()))
    };
    changes.list.iter().filter(|change| is_needed(change)).collect()
}

/// Opens directories that their owner closed to everybody, in which steps change something, before all
/// of these, and closes them after.
fn with_closed_directories(lower: &Tree, steps: Vec<Step>) -> io::Result<Vec<Step>> {
    if rustix::process::geteuid().is_root() {
        return Ok(steps);
    }
    let above: BTreeSet<PathBuf> = steps
        .iter()
        .filter(|step| !matches!(step.action, Action::Finish { .. }))
        .filter_map(|step| step.path.parent())
        // What cannot be changed at the top was noticed when files were staged there.
        .filter(|path| path.file_name().is_some())
        .map(Path::to_owned)
        .collect();
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    for path in above {
        let Ok(Some(node)) = lower.node(&path) else { continue };
        if node.is_directory() && node.mode & OWNER != OWNER {
            opened.push(Step { path: path.clone(), action: Action::Open });
            closed.push(Step { path, action: Action::Close { mode: node.mode } });
        }
    }
    let finished = |path: &Path| {
        let is = |step: &Step| step.path == path && matches!(step.action, Action::Finish { .. });
        steps.iter().any(is)
    };
    closed.retain(|step| !finished(&step.path));
    closed.reverse();
    Ok([opened, steps, closed].into_iter().flatten().collect())
}

/// Stages what is put in place and returns the steps: removals from the innermost out, then
/// directories, then files, then what directories are to be like, from the innermost out. `judge` judges again what a program
/// that still runs may have changed since.
///
/// # Errors
/// Returns the error of reading and writing, and that something became what nobody has agreed to.
fn stage(
    staging: &mut Staging<'_>,
    upper: &Tree,
    taken: &[&Change],
    judge: Option<&Judge>,
) -> io::Result<Vec<Step>> {
    let step = |change: &Change, action| Step { path: change.path.clone(), action };
    let is_directory = |node: &Option<Node>| node.as_ref().is_some_and(Node::is_directory);
    let (mut removals, mut made, mut put, mut finished) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for change in taken {
        let was_directory = is_directory(&change.before);
        let goes = change.what == What::Deleted
            || (change.what == What::Replaced && was_directory != is_directory(&change.after));
        if goes {
            removals.push(step(
                change,
                if was_directory {
                    Action::RemoveDirectory
                } else {
                    Action::Remove { expected: identity(change.before.as_ref()) }
                },
            ));
        }
        let Some(after) = &change.after else { continue };
        if after.is_directory() {
            if change.what != What::Mode {
                made.push(step(change, Action::MakeDirectory));
            }
            let attributes = written(attributes(upper.directory(&change.path)?)?);
            let (mode, owner) = (after.mode & 0o777, after.owner);
            finished.push(step(change, Action::Finish { mode, attributes, owner }));
        } else {
            let expected = identity(change.before.as_ref().filter(|_| !goes));
            let staged = staging.add(upper, change, after)?;
            let (place, name) = (staging.directory(), staged.to_string());
            if let Some(judge) = judge
                && judge.is_worse(place, OsStr::new(&name), change, after)
            {
                let path = Escaped(&change.path);
                return Err(io::Error::other(format!("{path} was changed at the same time")));
            }
            put.push(step(change, Action::Put { staged, expected }));
        }
    }
    removals.reverse();
    finished.reverse();
    Ok([removals, made, put, finished].into_iter().flatten().collect())
}
