//! Landing an accepted result on its base: merge, verify, and only then move the branch.
//!
//! ```text
//! tip of the base ─▶ merge in a sandbox ─▶ verify in a fresh checkout ─passes─▶ the branch moves, if it is still at the tip
//! ```
//! The merge is a commit with two parents, the tip and the commit that the queue accepted; whatever the branch of the task
//! is by now. No program of the result runs until the merge is made. A branch that is checked out moves in a sandbox with
//! that working tree, as git itself moves one forward.

use std::ffi::OsString;
use std::path::Path;

use data_encoding::HEXLOWER;
use pinfold_git::refs::is_object;
use pinfold_host::{Host, Refusal};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::BranchName;
use pinfold_worktree::dedicated::Unsaved;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::failed::Failed;
use crate::options;
use crate::repository::Repository;
use crate::sandbox::{Ended, Sandboxes};
use crate::verify::Verified;
use crate::work::{Branches, Work};

pub use order::{LandOrder, Landed, Moves, NotLanded, Obstacle};

mod order;

/// Makes the merge.
const MERGE: &str = include_str!("../data/merge.sh");
/// Moves a branch that is checked out.
const FORWARD: &str = include_str!("../data/forward.sh");
/// Prints which commits conflict.
const CONFLICTS: &str = include_str!("../data/conflicts.sh");
/// What a script ends with if a conflict, or something of the user's, is in the way.
const IN_THE_WAY: u8 = 10;
/// What a script ends with if the branch has moved.
const HAS_MOVED: u8 = 11;
/// How many commits are looked at for conflicts at once: their names fit into the end of an output.
const AT_ONCE: usize = 100;
/// How many files of a conflict are named.
const SHOWN: usize = 8;
/// What scripts print in front of what conflicts.
const CONFLICT: &str = "conflict: ";

/// Lands a result. `say` takes lines for people.
///
/// # Errors
/// Returns why it did not land; then its base is where it was.
pub fn land(
    order: &LandOrder<'_>,
    host: Host<'_>,
    say: &mut dyn FnMut(String),
) -> Result<Landed, NotLanded> {
    let directory = order
        .spec
        .repository
        .as_deref()
        .ok_or_else(|| NotLanded::setup("it has no repository".to_owned()))?;
    let repository = Repository::of(directory, host).map_err(NotLanded::setup)?;
    if let Some(other) = repository.alias(&order.onto) {
        // The files of a checkout of that one would stay behind.
        let other = other.strip_prefix("refs/heads/").unwrap_or(&other);
        let what = format!("branch {} is another name for {other}: say --onto {other}", order.onto);
        return Err(NotLanded::setup(what));
    }
    let at = repository
        .branch(&order.onto)
        .ok_or_else(|| NotLanded::setup(format!("there is no branch {}", order.onto)))?;
    let tip = order.tip.clone().unwrap_or_else(|| at.clone());
    let result = &order.output.commit;
    if !is_object(result) || repository.commit(result).ok().as_ref() != Some(result) {
        let what = "the commit of the result is not in this repository; fetch its branch first";
        return Err(NotLanded::setup(what));
    }
    if repository.has(&tip, result) {
        let notes = finish_killed(order, &repository, host)?;
        clean_up(&repository, &order.task, host).map_err(NotLanded::setup)?;
        return Ok(Landed { commit: tip, is_old: true, conflicting: Vec::new(), notes });
    }
    let mut landing = Landing::begin(order, at, repository, &tip, host)?;
    let mut landed = landing.run(say).map_err(|not| NotLanded { tip: Some(tip), ..not });
    // The first sandbox may have finished what a landing began that was killed.
    let now = landing.work.repository.branch(&order.onto).filter(|_| landed.is_err());
    if let Some(commit) = now.filter(|now| landing.work.repository.has(now, result)) {
        landed = Ok(Landed { commit, is_old: true, conflicting: Vec::new(), notes: Vec::new() });
    }
    // What earlier landings left that were killed was settled when the first sandbox of this one started.
    if let Err(error) = clean_up(&landing.work.repository, &order.task, host) {
        say(format!("of the merge there is something left: {error}"));
    }
    landed
}

/// A landing.
struct Landing<'a> {
    work: Work<'a>,
    order: &'a LandOrder<'a>,
    /// The commit that the branch is at.
    at: String,
}

impl<'a> Landing<'a> {
    fn begin(
        order: &'a LandOrder<'a>,
        at: String,
        repository: Repository,
        tip: &str,
        host: Host<'a>,
    ) -> Result<Self, NotLanded> {
        // No name is used twice: what a sandbox did that was killed is settled when the next one starts, by names.
        let mut once = [0; 4];
        getrandom(&mut once, GetRandomFlags::empty())
            .map_err(|errno| NotLanded::setup(errno.to_string()))?;
        let own = format!("{}{}", begin_of(&order.task), HEXLOWER.encode(&once));
        let named = |name: String| {
            let name = name.parse();
            name.map_err(|error| NotLanded::setup(format!("the branch of the merge: {error}")))
        };
        let branches = Branches {
            result: order.onto.clone(),
            work: named(own.clone())?,
            verify: named(format!("{own}-verify"))?,
        };
        let spec = order.spec.clone();
        let mut work = Work::new(spec, repository, host, branches, tip.to_owned(), order.log)?;
        work.sandboxes.hidden = order.hidden;
        Ok(Self { work, order, at })
    }

    fn run(&mut self, say: &mut dyn FnMut(String)) -> Result<Landed, NotLanded> {
        let Branches { work, result: onto, .. } = &self.work.branches;
        let (work, onto) = (work.clone(), onto.clone());
        let created = self.work.repository.create(&work, &self.work.base);
        created.map_err(NotLanded::setup)?;
        say(format!("merging into {onto}"));
        let merged = self.merge()?;
        let checkout = self.work.repository.checkout(&onto);
        if let Some(top) = &checkout {
            self.forward(top, &merged, "try")?;
        }
        say("verifying the merge".to_owned());
        if let Verified::Failed(step, ended) = self.work.verify(&merged)? {
            let (command, status, reason) = (step.command, step.status, ended.tail.reason());
            let why = format!("merged, `{command}` fails with {status}: {reason}");
            return Err(NotLanded::new(Obstacle::Verification, why));
        }
        let mut notes = match self.order.moves {
            Moves::Branch => self.advance(&merged)?,
            Moves::Nothing => Vec::new(),
        };
        let (conflicting, unknown) = self.conflicting(&merged);
        notes.extend(unknown.map(|why| format!("which results conflict now is unknown: {why}")));
        Ok(Landed { commit: merged, is_old: false, conflicting, notes })
    }

    /// Makes the merge and returns it.
    fn merge(&mut self) -> Result<String, NotLanded> {
        let (spec, result) = (&self.work.spec, &self.order.output.commit);
        let mut options = self.options()?;
        options.extend(spec.identity.iter().map(|name| format!("--identity={name}").into()));
        let message = format!("Merge task {}\n\n{}", self.order.task, spec.title);
        let ended = self.script("merge", options, MERGE, &[result, &message])?;
        if ended.status == IN_THE_WAY {
            let names = conflicts(&ended);
            let more = names.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = names[..names.len().min(SHOWN)].join(", ");
            let why = format!("it conflicts with {} in {names}{more}", self.order.onto);
            return Err(NotLanded::new(Obstacle::Conflict, why));
        }
        if ended.status != 0 {
            return Err(NotLanded::setup(format!("it cannot be merged: {}", ended.tail.reason())));
        }
        let (repository, branch) = (&self.work.repository, &self.work.branches.work);
        if let [session, ..] = repository.waiting(branch).map_err(NotLanded::setup)?.as_slice() {
            let what = "the merge changes files that tools on this machine run by themselves";
            let hint = format!("look at them, and take them with `pinfold accept {session}`");
            return Err(NotLanded::new(Obstacle::Waits, format!("{what}; {hint}")));
        }
        let merged = repository
            .branch(branch)
            .ok_or_else(|| NotLanded::setup("the branch of the merge is gone".to_owned()))?;
        // Of a sandbox only this is believed.
        let parents = repository.parents(&merged).map_err(NotLanded::setup)?;
        if parents != [self.work.base.as_str(), result.as_str()] {
            let what = format!("commit {merged} is no merge of the result with its base");
            return Err(NotLanded::setup(what));
        }
        // Its worktree goes, its branch stays until the end.
        let kept = repository.discard_worktree(branch, Unsaved::Discard, self.work.host);
        kept.map_err(NotLanded::setup)?;
        Ok(merged)
    }

    /// Moves the branch from the tip to the merge, if it is still there. Returns what a user should know.
    fn advance(&mut self, merged: &str) -> Result<Vec<String>, NotLanded> {
        let onto = &self.order.onto;
        // It may have been checked out in the meantime, or no longer.
        let mut notes = Vec::new();
        if let Some(top) = self.work.repository.checkout(onto) {
            notes = self.forward(&top, merged, "move")?;
        } else if let Err(said) = self.work.repository.advance(onto, &self.at, merged) {
            return Err(self.has_moved().unwrap_or_else(|| NotLanded::setup(said)));
        }
        match self.work.repository.branch(onto) {
            Some(at) if at == merged => Ok(notes),
            _ => Err(self.has_moved().unwrap_or_else(|| {
                NotLanded::setup(format!("branch {onto} did not move; see the log"))
            })),
        }
    }

    /// Moves the branch that is checked out at `top`, or looks whether it could be moved. Returns pinfold's own notes, such as
    /// on a file that it set aside.
    fn forward(&mut self, top: &Path, merged: &str, mode: &str) -> Result<Vec<String>, NotLanded> {
        check_checkout(top, &self.work.repository, self.work.host)?;
        let mut options = options::of_command(&self.work.spec, self.work.left()?);
        options.push("--workspace=shared_mount".into());
        let reference = self.order.onto.reference();
        let arguments = [reference.as_str(), &self.at, merged, mode];
        let what = command(FORWARD, &arguments);
        let heading = if mode == "try" { "look at the checkout" } else { "move the checkout" };
        let ended = self.work.sandboxes.run_in(top, heading, options, what)?;
        let onto = &self.order.onto;
        match ended.status {
            _ if ended.result.is_none() => Err(not_started(onto, top, &ended)),
            0 => Ok(ended.tail.notes()),
            HAS_MOVED => Err(self.has_moved().unwrap_or_else(|| {
                let why = format!("what is checked out in {} changed", Escaped(top));
                NotLanded::new(Obstacle::InTheWay, why)
            })),
            IN_THE_WAY => Err(NotLanded::new(
                Obstacle::InTheWay,
                format!(
                    "branch {onto} is checked out in {}, and what is there is in the way: {}",
                    Escaped(top),
                    ended.tail.lines(6)
                ),
            )),
            status => Err(NotLanded::setup(format!(
                "the checkout {} cannot be moved ({status}): {}",
                Escaped(top),
                ended.tail.reason()
            ))),
        }
    }

    /// Returns that the branch has moved, if it has.
    fn has_moved(&self) -> Option<NotLanded> {
        let onto = &self.order.onto;
        let at = self.work.repository.branch(onto);
        let why = match at {
            Some(at) if at == self.at => return None,
            Some(at) => format!("branch {onto} moved to {at} in the meantime"),
            None => format!("branch {onto} was removed in the meantime"),
        };
        Some(NotLanded::new(Obstacle::InTheWay, why))
    }

    /// Returns which of the other results conflict with the merge now, and what kept that from being found out.
    fn conflicting(&mut self, merged: &str) -> (Vec<String>, Option<String>) {
        let mut conflicting = Vec::new();
        let known = |commit: &&String| is_object(commit);
        let others: Vec<&String> = self.order.others.iter().filter(known).collect();
        for some in others.chunks(AT_ONCE) {
            let arguments: Vec<&str> =
                std::iter::once(merged).chain(some.iter().map(|it| it.as_str())).collect();
            let ended = self.options().map_err(NotLanded::from).and_then(|mut options| {
                options.push("--discard-commits".into());
                let what = command(CONFLICTS, &arguments);
                Ok(self.work.sandboxes.run("look for conflicts", options, what)?)
            });
            match ended {
                Ok(ended) if ended.status == 0 => conflicting.extend(conflicts(&ended)),
                Ok(ended) => return (conflicting, Some(ended.tail.reason())),
                Err(not) => return (conflicting, Some(not.why)),
            }
        }
        (conflicting, None)
    }

    /// Returns the options of a sandbox on the branch of the merge.
    fn options(&self) -> Result<Vec<OsString>, Failed> {
        let branch = &self.work.branches.work;
        Ok(options::of_sandbox(&self.work.spec, branch, self.work.left()?))
    }

    /// Runs a script on the branch of the merge. Its first argument is the tip.
    fn script(
        &mut self,
        heading: &str,
        options: Vec<OsString>,
        script: &str,
        arguments: &[&str],
    ) -> Result<Ended, Failed> {
        let all: Vec<&str> =
            std::iter::once(self.work.base.as_str()).chain(arguments.iter().copied()).collect();
        let what = command(script, &all);
        self.work.sandboxes.run(heading, options, what)
    }
}

/// Finishes what landings of a task left that were killed, if the branch is checked out: the lock of its index, for example,
/// with which nobody commits there. The start of a sandbox settles what killed ones left. Returns what a user should know.
fn finish_killed(
    order: &LandOrder<'_>,
    repository: &Repository,
    host: Host<'_>,
) -> Result<Vec<String>, NotLanded> {
    let left = repository.beginning_with(&begin_of(&order.task)).map_err(NotLanded::setup)?;
    let Some(top) = repository.checkout(&order.onto).filter(|_| !left.is_empty()) else {
        return Ok(Vec::new());
    };
    check_checkout(&top, repository, host)?;
    let unlogged = |error| Failed::setup("the log of the landing", error);
    let mut sandboxes = Sandboxes::new(&top, order.log).map_err(unlogged)?;
    sandboxes.hidden = order.hidden;
    let mut options = options::of_command(&order.spec, order.spec.timeouts.running);
    options.push("--workspace=shared_mount".into());
    let ended = sandboxes.run("finish an earlier landing", options, command(":", &[]))?;
    match ended.result {
        Some(_) => Ok(ended.tail.notes()),
        None => Err(not_started(&order.onto, &top, &ended)),
    }
}

/// Checks that what is checked out at `top` belongs to the repository.
fn check_checkout(top: &Path, repository: &Repository, host: Host<'_>) -> Result<(), NotLanded> {
    let found = Repository::of(top, host).map_err(NotLanded::setup)?;
    if found.is_same(repository) && found.top() == top {
        return Ok(());
    }
    let what = format!("{} is a working tree of another repository", Escaped(top));
    Err(NotLanded::setup(what))
}

fn not_started(onto: &BranchName, top: &Path, ended: &Ended) -> NotLanded {
    NotLanded::setup(format!(
        "branch {onto} is checked out in {}, and no sandbox starts there: {}",
        Escaped(top),
        ended.tail.reason()
    ))
}

/// Returns what the names of branches begin with that landings of a task make.
fn begin_of(task: &str) -> String {
    format!("task/{}.merge-", task.split('-').next().unwrap_or_default())
}

/// Removes the branches and worktrees of landings of a task.
fn clean_up(repository: &Repository, task: &str, host: Host<'_>) -> Result<(), Refusal> {
    for branch in repository.beginning_with(&begin_of(task))? {
        repository.discard(&branch, host)?;
    }
    Ok(())
}

/// Returns what a script says conflicts.
fn conflicts(ended: &Ended) -> Vec<String> {
    let said = ended.tail.text();
    said.lines().filter_map(|line| line.strip_prefix(CONFLICT)).map(str::to_owned).collect()
}

/// Returns the words that run a script.
fn command(script: &str, arguments: &[&str]) -> Vec<OsString> {
    let words = ["--", "/bin/sh", "-c", script, "land"].into_iter();
    words.chain(arguments.iter().copied()).map(OsString::from).collect()
}
