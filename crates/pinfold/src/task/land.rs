//! `pinfold task land`: the merge queue.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;

use clap::Args;
use pinfold_attempt::{
    Admission, LandOrder, Moves, NotLanded, Obstacle, Output as Outcome, Repository, landing_log_of,
};
use pinfold_host::directories::Places;
use pinfold_host::{Host, sys};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::BranchName;
use pinfold_session::prepare;
use pinfold_tasks::{Landing, LandingState, Listing, QueueError, Status, Task, TaskId, TaskSpec};
use pinfold_terminal::notify;
use rustix::fs::FlockOperation;

use super::find::{all, find, short, spec_of};
use super::list::shown;
use crate::exit::{self, Failure};
use crate::print::say;
use crate::task_queue::{self, TaskQueue};

mod candidate;

#[derive(Debug, Args)]
pub(crate) struct LandArgs {
    /// The tasks to land, in this order; by default all of this repository that are accepted, in the order of acceptance
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// The branch to land on; by default the one that the work began at
    #[arg(long, value_name = "BRANCH")]
    onto: Option<BranchName>,
    /// Merge and verify, and move no branch
    #[arg(long)]
    dry_run: bool,
}

/// A task whose result may land.
struct Candidate {
    task: Task,
    spec: TaskSpec,
    outcome: Outcome,
    landing: Option<Landing>,
    onto: BranchName,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outlook {
    Landed,
    /// Something else has to happen first.
    Blocked,
    /// A user has to look at it.
    Attention,
    Failed,
    Interrupted,
}

impl Outlook {
    fn code(self) -> u8 {
        match self {
            Self::Landed => 0,
            Self::Blocked => exit::BLOCKED,
            Self::Attention => exit::ATTENTION,
            Self::Failed => 1,
            Self::Interrupted => exit::INTERRUPTED,
        }
    }
}

/// Why a task is no candidate.
struct Unfit {
    outlook: Outlook,
    why: String,
}

/// A run of the merge queue.
struct Run<'a> {
    args: &'a LandArgs,
    queue: &'a TaskQueue,
    host: Host<'a>,
    repository: Repository,
    /// What the tasks may ask for, if others may have written them.
    admission: Option<Admission>,
    /// Where branches would be, if this moves nothing.
    tips: HashMap<BranchName, String>,
    /// What would have landed, if this moves nothing.
    passed: Vec<TaskId>,
}

pub(super) fn land(
    args: &LandArgs,
    queue: &TaskQueue,
    host: Host<'_>,
) -> Result<ExitCode, Failure> {
    // From here on signals wait: no branch is left half moved.
    let signals = sys::stop_events().map_err(Failure::new)?;
    let top = prepare::workspace(host.places).map_err(|error| Failure::from(error).plain())?.root;
    let repository = Repository::of(top.as_path(), host)?;
    let _lock = lock(host.places)?;
    let (tips, passed) = (HashMap::new(), Vec::new());
    let admission = task_queue::admission(queue, host.places, Some(top.as_path()))?;
    let mut run = Run { args, queue, host, repository, admission, tips, passed };
    let tasks = run.tasks()?;
    if tasks.is_empty() {
        notify!("pinfold: no accepted result of this repository waits to land");
    }
    let mut worst = Outlook::Landed;
    for task in tasks {
        if sys::next_signal(&signals).is_some() {
            worst = Outlook::Interrupted;
        }
        if worst == Outlook::Interrupted {
            break;
        }
        worst = worst.max(run.land(task)?);
    }
    Ok(ExitCode::from(worst.code()))
}

impl Run<'_> {
    /// Returns the tasks to land, in their order.
    fn tasks(&self) -> Result<Vec<Task>, Failure> {
        if !self.args.ids.is_empty() {
            return self.args.ids.iter().map(|id| find(self.queue, id)).collect();
        }
        let landings = self.queue.landings()?;
        let is_due = |task: &Task| {
            landings.get(&task.id).is_none_or(|landing| landing.state != LandingState::Landed)
        };
        let mut tasks = Vec::new();
        for task in self.completed()?.into_iter().filter(is_due) {
            let Ok(spec) = spec_of(self.queue, task.id)? else { continue };
            let changes = self.result(&task)?.is_some_and(|it| it.is_changed());
            if changes && self.is_here(&spec) {
                tasks.push(task);
            }
        }
        tasks.sort_by_key(|task| (task.ended_at, task.id));
        Ok(tasks)
    }

    /// Returns the tasks that have a result.
    fn completed(&self) -> Result<Vec<Task>, Failure> {
        let statuses = vec![Status::Completed];
        let mut tasks = Vec::new();
        all(self.queue, Listing { statuses, limit: 200, ..Listing::default() }, |task| {
            tasks.push(task);
            true
        })?;
        Ok(tasks)
    }

    /// Returns whether a task is for this repository.
    fn is_here(&self, spec: &TaskSpec) -> bool {
        let repository = spec
            .repository
            .as_deref()
            .and_then(|directory| Repository::of(directory, self.host).ok());
        repository.is_some_and(|repository| repository.is_same(&self.repository))
    }

    /// Lands a task, and says what became of it.
    fn land(&mut self, task: Task) -> Result<Outlook, Failure> {
        let id = short(task.id);
        let candidate = match self.candidate(task)? {
            Ok(candidate) => candidate,
            Err(Unfit { outlook, why }) => {
                notify!("pinfold: {id}: {}", shown(&why));
                return Ok(outlook);
            }
        };
        notify!("pinfold: {id}: {}", shown(&candidate.task.title));
        let others = self.others(&candidate)?;
        let log = landing_log_of(self.host.places, candidate.task.id);
        log.parent().map_or(Ok(()), Places::make_private).map_err(Failure::new)?;
        let order = LandOrder {
            task: candidate.task.id.to_string(),
            spec: candidate.spec.clone(),
            output: candidate.outcome.clone(),
            onto: candidate.onto.clone(),
            tip: self.tips.get(&candidate.onto).cloned(),
            moves: if self.args.dry_run { Moves::Nothing } else { Moves::Branch },
            others: others.iter().map(|other| other.outcome.commit.clone()).collect(),
            log: &log,
            hidden: self.queue.store().variables(),
        };
        let mut say = |text: String| notify!("pinfold: {id}: {}", shown(&text));
        match pinfold_attempt::land(&order, self.host, &mut say) {
            Ok(landed) if self.args.dry_run => {
                let onto = &candidate.onto;
                notify!("pinfold: {id}: would land on {onto}");
                self.passed.push(candidate.task.id);
                self.tips.insert(candidate.onto, landed.commit);
                Ok(Outlook::Landed)
            }
            Ok(landed) => {
                let onto = &candidate.onto;
                self.note(&candidate, LandingState::Landed, &landed.commit, None)?;
                say!("{id}  {onto}  {}", landed.commit);
                if landed.is_old {
                    notify!("pinfold: {id}: {onto} has it already");
                } else {
                    notify!("pinfold: {id}: landed on {onto}");
                    self.mark(&candidate, &landed.commit, &others, &landed.conflicting)?;
                }
                for note in &landed.notes {
                    notify!("pinfold: {id}: note: {}", shown(note));
                }
                Ok(Outlook::Landed)
            }
            Err(not) => self.not_landed(&candidate, not),
        }
    }

    /// Says and notes why a result did not land.
    fn not_landed(&self, candidate: &Candidate, not: NotLanded) -> Result<Outlook, Failure> {
        let id = short(candidate.task.id);
        let NotLanded { obstacle, tip, why } = not;
        notify!("pinfold: {id}: did not land: {}", shown(&why));
        let (state, hint) = match obstacle {
            Obstacle::Conflict => {
                let branch = &candidate.outcome.branch;
                let hint = format!("rebase {branch} or merge it by hand, and land it again");
                (LandingState::Conflicting, hint)
            }
            Obstacle::Verification => {
                let hint = format!("`pinfold task logs --landing {id}` shows the output");
                (LandingState::Failing, hint)
            }
            Obstacle::Waits => (LandingState::Waiting, format!("then land {id} again")),
            Obstacle::InTheWay => {
                notify!("hint: nothing was changed; land it again when that is done");
                return Ok(Outlook::Blocked);
            }
            Obstacle::Stopped => return Ok(Outlook::Interrupted),
            Obstacle::Failed => {
                notify!("hint: `pinfold task logs --landing {id}` may say more");
                return Ok(Outlook::Failed);
            }
        };
        notify!("hint: {hint}");
        if let Some(tip) = tip.filter(|_| !self.args.dry_run) {
            self.note(candidate, state, &tip, Some(why))?;
        }
        Ok(Outlook::Attention)
    }

    /// Marks results that this landing concerns.
    fn mark(
        &self,
        landed: &Candidate,
        at: &str,
        others: &[Candidate],
        conflicting: &[String],
    ) -> Result<(), Failure> {
        let id = short(landed.task.id);
        for other in others {
            let was_conflicting = other
                .landing
                .as_ref()
                .is_some_and(|landing| landing.state == LandingState::Conflicting);
            let (state, reason) = if conflicting.contains(&other.outcome.commit) {
                (LandingState::Conflicting, format!("it conflicts with {id}, which landed"))
            } else if other.spec.may_overlap(&landed.spec) {
                let reason = format!("{id}, which landed, may change the same files");
                (LandingState::Outdated, reason)
            } else if was_conflicting {
                (LandingState::Mergeable, format!("it can be merged since {id} landed"))
            } else {
                continue;
            };
            notify!("pinfold: {}: {state}: {}", short(other.task.id), shown(&reason));
            self.note(other, state, at, Some(reason))?;
        }
        Ok(())
    }

    fn note(
        &self,
        candidate: &Candidate,
        state: LandingState,
        at: &str,
        reason: Option<String>,
    ) -> Result<(), Failure> {
        let (onto, at) = (candidate.onto.to_string(), at.to_owned());
        let landing = Landing { state, onto, at, reason };
        match self.queue.set_landing(candidate.task.id, &landing) {
            // A user who removes a task wants no more messages about it.
            Err(QueueError::NotFound(_)) => Ok(()),
            noted => Ok(noted?),
        }
    }
}

/// Excludes other landings on this machine. The lock goes with the process.
fn lock(places: &Places) -> Result<File, Failure> {
    let directory = places.state.join("tasks");
    Places::make_private(&directory).map_err(Failure::new)?;
    let path = directory.join("landing.lock");
    let failed = |error| Failure::new(format!("cannot lock {}: {error}", Escaped(&path)));
    let file =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Failure::new("another `pinfold task land` is at work"))
        }
        Err(errno) => Err(failed(errno.into())),
    }
}
