//! From the base of an attempt to its result.

use pinfold_host::Host;
use pinfold_policy::settings::InvalidBranch;
use pinfold_tasks::{TaskSpec, Usage, from_stored};
use pinfold_worktree::dedicated::Unsaved;

use crate::failed::Failed;
use crate::job::{Job, Line, Output};
use crate::prompt;
use crate::repository::Repository;
use crate::verify::Verified;
use crate::work::{Branches, Work};

/// Carries out an attempt in this process, which does nothing else, and returns its last line. `say` takes the others.
#[must_use]
pub fn carry_out(job: &Job, host: Host<'_>, say: &mut dyn FnMut(&Line)) -> Line {
    match Attempt::begin(job, host).and_then(|mut attempt| attempt.run(say)) {
        Ok((output, usage)) => Line::Completed { output: Box::new(output), usage },
        Err(Failed::Stopped) => Line::Stopped,
        Err(Failed::With(failure)) => Line::Failed(failure),
    }
}

/// An attempt.
struct Attempt<'a> {
    work: Work<'a>,
    /// Those of the attempts before.
    earlier: Vec<Branches>,
    /// The diary and tags of entries.
    memory: String,
}

impl Branches {
    /// Returns the branches of an attempt at a task with this id.
    ///
    /// # Errors
    /// Returns an error for an id that no branch can be called after.
    pub(crate) fn of(task: &str, attempt: u32, spec: &TaskSpec) -> Result<Self, InvalidBranch> {
        let own = format!("task/{}", task.split('-').next().unwrap_or_default());
        Ok(Self {
            // Of the task even if it names a branch: others may name the same.
            work: format!("{own}.attempt-{attempt}").parse()?,
            verify: format!("{own}.verify-{attempt}").parse()?,
            result: spec.branch.clone().map_or_else(|| own.parse(), Ok)?,
        })
    }
}

impl<'a> Attempt<'a> {
    /// Finds the repository and makes the branch of the attempt.
    fn begin(job: &Job, host: Host<'a>) -> Result<Self, Failed> {
        let spec = from_stored(&job.spec).map_err(|error| Failed::setup("the task", error))?;
        let directory = spec
            .repository
            .clone()
            .ok_or_else(|| Failed::setup("the task", "it has no repository"))?;
        let of_git = |error| Failed::setup("the repository", error);
        let repository = Repository::of(&directory, host).map_err(of_git)?;
        let named = |attempt| {
            Branches::of(&job.task, attempt, &spec)
                .map_err(|error| Failed::setup("the branch of the attempt", error))
        };
        let names = named(job.attempt)?;
        let earlier = (1..job.attempt).rev().take(TaskSpec::MOST_STEPS);
        let earlier = earlier.map(named).collect::<Result<_, _>>()?;
        // Only a branch that the task names is gone on from. One that is called as the task is, is there if a server offers
        // the task again. What an agent made of the tests there is not what they are restored from.
        let base = repository.begin_at(spec.base.as_ref(), spec.branch.as_ref()).map_err(of_git)?;
        repository.create(&names.work, &base).map_err(of_git)?;
        let base_branch = repository.base_branch(spec.base.as_ref(), spec.branch.as_ref());
        let mut work = Work::new(spec, repository, host, names, base, &job.log)?;
        work.base_branch = base_branch;
        Ok(Self { work, earlier, memory: job.memory.clone() })
    }

    /// Has the agent work until its result is accepted, or until it is not worth another iteration.
    fn run(&mut self, say: &mut dyn FnMut(&Line)) -> Result<(Output, Usage), Failed> {
        let result = self.iterate(say);
        // All is committed that has a result; what ended early has nobody else who saves its work.
        let unsaved = if result.is_ok() { Unsaved::DiscardFiles } else { Unsaved::Keep };
        self.clean_up_earlier(say);
        let cleaned = self.work.clean_up(unsaved, &mut |text| say(&Line::Progress(text)));
        let output = result?;
        cleaned?;
        Ok((output, self.work.usage.clone()))
    }

    fn iterate(&mut self, say: &mut dyn FnMut(&Line)) -> Result<Output, Failed> {
        let mut progress = |text: String| say(&Line::Progress(text));
        let first =
            prompt::first(&self.work.spec).map_err(|why| Failed::setup("the prompt", why))?;
        let (mut ask, mut before) = (first.clone(), self.work.base.clone());
        for iteration in 1..=self.work.spec.iterations {
            progress(format!(
                "iteration {iteration} of {}: the agent works",
                self.work.spec.iterations
            ));
            let memory = format!("--memory-task={}", self.memory).into();
            let agent = self.work.agent(iteration, &ask, vec![memory])?;
            let commit = self.work.commit_rest()?;
            if self.work.spec.verify.is_empty() {
                return match agent.status {
                    0 => Ok(self.work.output(commit, iteration, Vec::new())),
                    status => Err(Failed::judged(
                        "agent_failed",
                        format!("the agent ended with {status}: {}", agent.tail.reason()),
                    )),
                };
            }
            progress("verifying the result".to_owned());
            match self.work.verify(&commit)? {
                Verified::Passed(steps) => return Ok(self.work.output(commit, iteration, steps)),
                Verified::Failed(step, ended) => {
                    progress(format!("`{}` failed with {}", step.command, step.status));
                    let why = || {
                        format!(
                            "`{}` failed with {}: {}",
                            step.command,
                            step.status,
                            self.work.shown(&ended.tail.reason())
                        )
                    };
                    if commit == before {
                        let what = format!("iteration {iteration} changed nothing; {}", why());
                        return Err(Failed::lasting("no_progress", what));
                    }
                    if iteration == self.work.spec.iterations {
                        return Err(Failed::unverified(why()));
                    }
                    if let Some(budget) = self.work.spent.exhausts(&self.work.spec) {
                        let what = format!("the budget of {budget} is used up; {}", why());
                        return Err(Failed::lasting("budget_exceeded", what));
                    }
                    let output = self.work.shown(&ended.tail.output());
                    ask = prompt::again(&first, &step, &output);
                    before = commit;
                }
            }
        }
        Err(Failed::unverified("the task allows no iteration"))
    }

    /// Removes what attempts left that were killed. What they did not commit stays, and is named. Their sessions were
    /// settled when the agent of this attempt started.
    fn clean_up_earlier(&self, say: &mut dyn FnMut(&Line)) {
        for Branches { work, verify, .. } in &self.earlier {
            let kept = self.work.repository.discard_worktree(work, Unsaved::Keep, self.work.host);
            let failed = self.work.repository.discard(verify, self.work.host).err();
            let kept = kept.unwrap_or_else(|why| Some(why.to_string()));
            let named = kept.into_iter().chain(failed.map(|why| why.to_string()));
            named.for_each(|what| say(&Line::Progress(format!("of an earlier attempt: {what}"))));
        }
    }
}
