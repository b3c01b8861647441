//! The spec loop: one agent after the other works on a specification, until it is done or not worth another one.
//!
//! ```text
//! specification ─▶ agent ─▶ commit the rest ─▶ take the body back ─all steps done─▶ verify ─passes─▶ branch of the result
//!       ▲                                             │                               │
//!       └───────────── a step is open ◀───────────────┴───────── what failed ◀────────┘
//! ```
//!
//! The branch that agents work on stays when a loop ends early, and the next one goes on there. What the work began at
//! is written down outside: what the agents committed must not become what tests are restored from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_host::{Host, Refusal};
use pinfold_policy::count::counted;
use pinfold_policy::path::is_plain;
use pinfold_policy::settings::BranchName;
use pinfold_specs::{Keeper, Steps};
use pinfold_tasks::{Failure, TaskSpec};
use pinfold_worktree::dedicated::Unsaved;
use serde::{Deserialize, Serialize};

use crate::failed::{Failed, RESULT_WAITS, TIME_IS_OVER};
use crate::job::{Output, Step};
use crate::prompt;
use crate::repository::{Existing, Published, Repository};
use crate::sandbox::{Ended, RunSpec};
use crate::verify::Verified;
use crate::work::{Branches, Work};

/// A loop that is to be run.
#[derive(Debug)]
pub struct SpecLoop {
    /// What its branches are called by: letters, digits and dashes, different for each specification.
    pub key: String,
    /// What is asked for; the repository and the agent are set.
    pub task: TaskSpec,
    /// How many iterations there may be.
    pub iterations: u32,
    /// After how many without progress it ends.
    pub patience: u32,
    /// The directory of its own, which exists and is the user's alone.
    pub directory: PathBuf,
}

/// How a loop ended.
#[derive(Debug)]
pub enum LoopEnd {
    /// The specification is done. With what the user has to know of the branch.
    Done(Box<Output>, Option<String>),
    /// These steps are blocked.
    Blocked(Vec<String>),
    /// A user has to look at it, for this reason.
    Attention(String),
    /// The budget or the time is used up.
    Exhausted(String),
    /// This process was asked to end.
    Interrupted,
    /// It cannot go on.
    Failed(Failure),
}

/// What is written down of the work of earlier loops.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The commit that it began at.
    base: String,
    /// The branch that the result goes to.
    branch: String,
}

/// How far the work is.
struct Standing {
    /// The files, by the id of their tree.
    tree: Option<String>,
    /// Whether there were steps at any time, and the most of them that were done. What is marked and unmarked again, or
    /// only worded in another way, is no progress.
    most: (bool, usize),
}

/// Runs a loop in this process, which does nothing else. `say` takes lines for people.
#[must_use]
pub fn run_spec_loop(
    order: &SpecLoop,
    keeper: &mut Keeper<'_>,
    host: Host<'_>,
    say: &mut dyn FnMut(String),
) -> LoopEnd {
    let ended = begin(order, host).and_then(|(mut work, commit)| {
        let running = Running { order, work: &mut work, keeper, say, failed: None, commit };
        let ended = { running }.iterate();
        end(&work, ended, say)
    });
    ended.unwrap_or_else(|failed| match failed {
        Failed::Stopped => LoopEnd::Interrupted,
        Failed::With(failure) if failure.code == TIME_IS_OVER => {
            LoopEnd::Exhausted(failure.message)
        }
        Failed::With(failure) if failure.code == RESULT_WAITS => {
            LoopEnd::Attention(failure.message)
        }
        Failed::With(failure) => LoopEnd::Failed(failure),
    })
}

/// Finds the repository, and the branch that earlier loops worked on or makes it. Returns the commit that it is at, too.
fn begin<'a>(order: &SpecLoop, host: Host<'a>) -> Result<(Work<'a>, String), Failed> {
    let of_git = |error| Failed::setup("the repository", error);
    let task = order.task.clone();
    let directory =
        task.repository.clone().ok_or_else(|| Failed::setup("the loop", "it has no repository"))?;
    let repository = Repository::of(&directory, host).map_err(of_git)?;
    let named =
        |text: String| text.parse().map_err(|error| Failed::setup("the branch of the loop", error));
    let own = format!("spec/{}", order.key);
    let branches = Branches {
        work: named(format!("{own}.work"))?,
        verify: named(format!("{own}.verify"))?,
        result: task.branch.clone().map_or_else(|| named(own), Ok)?,
    };
    let path = record_of(order);
    let (work, result) = (branches.work.reference(), branches.result.reference());
    let from = task.base.as_ref().map_or_else(|| "HEAD".to_owned(), BranchName::reference);
    let [commit, result, beginning] =
        repository.commits_of([&work, &result, &from]).map_err(of_git)?;
    let (base, at) = match commit.clone() {
        Some(commit) => {
            let record = read_record(&path).map_err(|error| {
                let what =
                    format!("branch {} exists, and it is not known where it began", branches.work);
                Failed::setup(&what, format!("{error}; rename or remove the branch"))
            })?;
            if !repository.has(&commit, &record.base) {
                let what = "it does not come from where it began";
                return Err(Failed::setup("the branch of the loop", what));
            }
            if record.branch != branches.result.to_string() {
                let what = format!("it was begun for branch {}", record.branch);
                return Err(Failed::setup("the branch of the loop", what));
            }
            (record.base, commit)
        }
        None => {
            let earlier = result.filter(|_| task.base.is_none());
            let base = match &earlier {
                Some(at) => first_base(order, &repository, &branches.result, at)?,
                None => None,
            };
            let at = match earlier.or(beginning) {
                Some(at) => at,
                None => repository.commit(&from).map_err(of_git)?,
            };
            let base = base.unwrap_or_else(|| at.clone());
            let record = Record { base: base.clone(), branch: branches.result.to_string() };
            write_record(&path, &record)
                .map_err(|error| Failed::setup("the record of the loop", error))?;
            repository.create(&branches.work, &at).map_err(of_git)?;
            (base, at)
        }
    };
    let log = order.directory.join("log");
    let is_continued = commit.is_some();
    let work = Work::new(task, repository, host, branches, base, &log)?;
    if is_continued {
        // What a loop left that was killed while it verified.
        let killed = |error| Failed::setup("the checkout of an earlier verification", error);
        work.repository.discard(&work.branches.verify, work.host).map_err(killed)?;
    }
    Ok((work, at))
}

/// Returns the commit that an earlier loop began at, if this one goes on from its result, which is `at` this commit: agents have
/// changed what is there, so tests are not restored from it.
fn first_base(
    order: &SpecLoop,
    repository: &Repository,
    result: &BranchName,
    at: &str,
) -> Result<Option<String>, Failed> {
    let record = match read_record(&record_of(order)) {
        Ok(record) => record,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failed::setup("the record of the earlier loop", error)),
    };
    if record.branch != result.to_string() {
        return Ok(None);
    }
    if !repository.has(at, &record.base) {
        let what = format!(
            "an earlier loop began it at {}, which is no longer in it; name where this one begins as `base`",
            record.base
        );
        return Err(Failed::setup(&format!("branch {result}"), what));
    }
    Ok(Some(record.base))
}

/// A loop that runs.
struct Running<'r, 'a, 'k> {
    order: &'r SpecLoop,
    work: &'r mut Work<'a>,
    keeper: &'r mut Keeper<'k>,
    say: &'r mut dyn FnMut(String),
    /// The command that did not pass after the last iteration, and what the next agent is shown of its output.
    failed: Option<(Step, String)>,
    commit: String,
}

/// What an agent left.
struct Left {
    ended: Ended,
    /// Whether it made no commit.
    is_still: bool,
}

impl Running<'_, '_, '_> {
    /// Has agents work until the specification is done, or until it is not worth another iteration.
    fn iterate(&mut self) -> Result<LoopEnd, Failed> {
        let (began_at, began_with) = (self.commit.clone(), Standing::steps(self.keeper));
        if let Some(end) = self.judge_earlier()? {
            return Ok(end);
        }
        let mut standing: Option<Standing> = None;
        let mut stalled = 0;
        for iteration in 1..=self.order.iterations {
            let left = match self.agent(iteration)? {
                Ok(left) => left,
                Err(conflict) => return Ok(LoopEnd::Attention(conflict)),
            };
            if let Some(end) = self.judge(iteration, &left)? {
                return Ok(end);
            }
            // Asked for now: the first agent begins earlier without it.
            let begun =
                || Standing { tree: Standing::tree(self.work, &began_at), most: began_with };
            let standing = standing.get_or_insert_with(begun);
            let is_further = standing.advance(self.work, &self.commit, self.keeper);
            stalled = if is_further { 0 } else { stalled + 1 };
            if let Some(budget) = self.work.spent.exhausts(&self.work.spec) {
                return Ok(LoopEnd::Exhausted(format!("the budget of {budget} is used up")));
            }
            if stalled >= self.order.patience {
                let why = self.why_stalled(&left.ended);
                let what =
                    format!("no progress in {}: {why}", counted(stalled.into(), "iteration"));
                return Ok(LoopEnd::Attention(what));
            }
        }
        let count = self.order.iterations;
        Ok(LoopEnd::Attention(format!("the specification is not done after {count} iterations")))
    }

    /// Verifies what an earlier loop left if all steps were done then: it ended before it knew, or what did not pass is
    /// mended by now. No agent has anything to do until that is known.
    fn judge_earlier(&mut self) -> Result<Option<LoopEnd>, Failed> {
        let are_done = Steps::of(self.keeper.known().body()).are_done();
        if !are_done || self.commit == self.work.base {
            return Ok(None);
        }
        // Of an agent that was killed in a later iteration.
        self.commit = self.work.recover()?;
        self.verify(0)
    }

    /// Has one agent work, and takes back what it made of the specification. Returns what is wrong if a user changed that
    /// at once.
    fn agent(&mut self, iteration: u32) -> Result<Result<Left, String>, Failed> {
        let Self { work, keeper, say, .. } = self;
        if keeper.refresh().map_err(of_spec)? {
            say("the specification was edited; the edit is taken".to_owned());
        }
        let (count, done) = Steps::of(keeper.known().body()).count();
        say(format!("iteration {iteration}: {done} of {count} steps are done; the agent works"));
        let prompt = prompt::of_spec(&work.spec, self.failed.as_ref(), keeper.home().comments())
            .map_err(|why| Failed::setup("the prompt", why))?;
        let given = keeper.keep("spec.md").map_err(of_spec)?;
        let ended = work.agent(iteration, &prompt, vec!["--spec".into(), given.into()])?;
        let before = std::mem::replace(&mut self.commit, work.commit_rest()?);
        let returned = ended.result.as_ref().and_then(|result| result.spec.as_ref());
        let taken = keeper.take_back(text_of(returned), &[], iteration).map_err(of_spec)?;
        taken.notices.into_iter().for_each(say);
        let is_still = self.commit == before;
        Ok(taken.conflict.map_or(Ok(Left { ended, is_still }), Err))
    }

    /// Returns how the loop ends if what an agent left is done or blocked.
    fn judge(&mut self, iteration: u32, left: &Left) -> Result<Option<LoopEnd>, Failed> {
        self.failed = None;
        let steps = Steps::of(self.keeper.known().body());
        // Without steps, Ralph's rule: an agent that finds nothing to do says that all is done.
        let finds_nothing =
            left.is_still && left.ended.status == 0 && self.commit != self.work.base;
        if steps.are_done() || steps.is_empty() && finds_nothing {
            return self.verify(iteration);
        }
        let is_blocked = steps.blocked().next().is_some();
        if is_blocked && (left.is_still || !steps.has_open()) {
            let words = |(title, why): (&str, &str)| plain(&format!("{title}: {why}"));
            return Ok(Some(LoopEnd::Blocked(steps.blocked().map(words).collect())));
        }
        Ok(None)
    }

    /// Verifies the result, and notes in the specification what does not pass.
    fn verify(&mut self, iteration: u32) -> Result<Option<LoopEnd>, Failed> {
        let Self { work, keeper, say, commit, .. } = self;
        let done = |work: &Work<'_>, steps| {
            let output = Box::new(work.output(commit.clone(), iteration, steps));
            Ok(Some(LoopEnd::Done(output, None)))
        };
        if work.spec.verify.is_empty() {
            return done(work, Vec::new());
        }
        say("all steps are done; verifying the result".to_owned());
        match work.verify(commit)? {
            Verified::Passed(steps) => done(work, steps),
            Verified::Failed(step, ended) => {
                let what = plain(&format!("`{}` failed with {}", step.command, step.status));
                say(what.clone());
                let when = match iteration {
                    0 => "Before".to_owned(),
                    iteration => format!("Iteration {iteration}"),
                };
                let note = format!("{when}: all steps were done; {what}");
                keeper.note(&note, iteration).map_err(of_spec)?;
                self.failed = Some((step, work.shown(&ended.tail.output())));
                Ok(None)
            }
        }
    }

    fn why_stalled(&self, ended: &Ended) -> String {
        match (ended.status, &self.failed) {
            (_, Some((step, _))) => plain(&format!("`{}` still fails", step.command)),
            (0, None) => "neither files nor steps changed".to_owned(),
            (status, None) => format!("the agent ended with {status}: {}", ended.tail.reason()),
        }
    }
}

/// Removes the worktree, and moves the branch of the result if there is one.
fn end(
    work: &Work<'_>,
    ended: Result<LoopEnd, Failed>,
    say: &mut dyn FnMut(String),
) -> Result<LoopEnd, Failed> {
    let is_done = matches!(ended, Ok(LoopEnd::Done(..)));
    // All is committed of what is done; what ended early has nobody else who saves its work.
    let unsaved = if is_done { Unsaved::DiscardFiles } else { Unsaved::Keep };
    let cleaned = work.clean_up(unsaved, say);
    let Branches { result, work: own, .. } = &work.branches;
    if !is_done && work.repository.branch(own).is_some() {
        say(format!("what was committed is on branch {own}; the next loop goes on there"));
    }
    let ended = ended?;
    cleaned?;
    let LoopEnd::Done(output, _) = ended else { return Ok(ended) };
    let note = if output.is_changed() {
        match work.repository.publish(&work.branches, &output.commit, Existing::Advances) {
            Ok(Published::Moved) => None,
            Ok(Published::Kept(why)) => Some(why),
            Err(error) => Some(format!("branch {result} stays where it is: {error}")),
        }
    } else {
        None
    };
    // The record stays: a later loop goes on from the result, and restores tests from where this one began.
    Ok(LoopEnd::Done(output, note))
}

impl Standing {
    fn tree(work: &Work<'_>, commit: &str) -> Option<String> {
        let name = format!("{commit}^{{tree}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        work.repository.host().line(&words)
    }

    fn steps(keeper: &Keeper<'_>) -> (bool, usize) {
        let (count, done) = Steps::of(keeper.known().body()).count();
        (count > 0, done)
    }

    /// Notes how far the work is now. Returns whether that is further than before.
    fn advance(&mut self, work: &Work<'_>, commit: &str, keeper: &Keeper<'_>) -> bool {
        let tree = Self::tree(work, commit);
        let most = self.most.max(Self::steps(keeper));
        let is_further = tree != self.tree || most != self.most;
        (self.tree, self.most) = (tree, most);
        is_further
    }
}

/// Returns what came back, or what is wrong with it.
fn text_of(returned: Option<&RunSpec>) -> Result<&str, &str> {
    let Some(returned) = returned else {
        return Err("did not come back, as the sandbox was ended");
    };
    let problem = returned.problem.as_deref();
    returned.text.as_deref().ok_or(problem.unwrap_or("did not come back"))
}

fn of_spec(refusal: Refusal) -> Failed {
    let hint = refusal.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    Failed::setup("the specification", format!("{refusal}{hint}"))
}

/// Returns text on one line, of a length that people read.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_plain(letter) { letter } else { ' ' }).take(300).collect()
}

fn record_of(order: &SpecLoop) -> PathBuf {
    order.directory.join("begun.json")
}

fn read_record(path: &Path) -> io::Result<Record> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn write_record(path: &Path, record: &Record) -> io::Result<()> {
    let next = path.with_extension("new");
    Places::write_private(&next, &serde_json::to_vec(record)?)?;
    fs::rename(next, path)
}
