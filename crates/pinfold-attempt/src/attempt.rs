//! From the base of an attempt to its result.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use pinfold_host::Host;
use pinfold_policy::settings::BranchName;
use pinfold_tasks::{TaskSpec, Usage, from_stored};
use pinfold_workspace::dedicated::Unsaved;

use crate::failed::Failed;
use crate::job::{Job, Line, Output, Step};
use crate::options::{self, Spent};
use crate::prompt;
use crate::repository::Repository;
use crate::sandbox::{Ended, RunUsage, Sandboxes};
use crate::verify::{Verification, Verified};

/// Commits what the agent left without a commit.
const COMMIT: &str = include_str!("../data/commit.sh");
/// How long that may take.
const COMMITTING: Duration = Duration::from_secs(300);

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
    spec: TaskSpec,
    host: Host<'a>,
    repository: Repository,
    sandboxes: Sandboxes,
    names: Names,
    /// Those of the attempts before.
    earlier: Vec<Names>,
    /// The commit that the work begins at.
    base: String,
    /// When it has to have ended.
    end: Instant,
    usage: Usage,
    spent: Spent,
}

/// The branches of an attempt.
struct Names {
    /// Where the result goes when it is accepted.
    result: BranchName,
    /// Where the agent works.
    work: BranchName,
    /// What is verified.
    verify: BranchName,
}

impl Names {
    fn of(job: &Job, attempt: u32, spec: &TaskSpec) -> Result<Self, Failed> {
        let own = || format!("task/{}", job.task.split('-').next().unwrap_or_default());
        let result = spec.branch.as_ref().map_or_else(&own, ToString::to_string);
        let named = |text: String| {
            text.parse().map_err(|error| Failed::setup("the branch of the attempt", error))
        };
        Ok(Self {
            // Of the task even if it names a branch: others may name the same.
            work: named(format!("{}.attempt-{}", own(), attempt))?,
            verify: named(format!("{}.verify-{}", own(), attempt))?,
            result: named(result)?,
        })
    }
}

impl<'a> Attempt<'a> {
    /// Finds the repository and makes the branch of the attempt.
    fn begin(job: &Job, host: Host<'a>) -> Result<Self, Failed> {
        let spec = from_stored(&job.spec).map_err(|error| Failed::setup("the task", error))?;
        let directory = spec.repository.clone();
        let directory =
            directory.ok_or_else(|| Failed::setup("the task", "it has no repository"))?;
        let of_git = |error| Failed::setup("the repository", error);
        let repository = Repository::of(&directory, host).map_err(of_git)?;
        let names = Names::of(job, job.attempt, &spec)?;
        let earlier = (1..job.attempt).map(|attempt| Names::of(job, attempt, &spec));
        let earlier = earlier.collect::<Result<_, _>>()?;
        let base = match (&spec.base, repository.branch(&names.result)) {
            (Some(base), _) => repository.commit(&base.reference()),
            (None, Some(commit)) => Ok(commit),
            (None, None) => repository.commit("HEAD"),
        };
        let base = base.map_err(of_git)?;
        repository.create(&names.work, &base).map_err(of_git)?;
        let log = |error| Failed::setup("the log of the attempt", error);
        let sandboxes = Sandboxes::new(repository.top(), &job.log).map_err(log)?;
        let end = Instant::now() + spec.timeouts.running;
        let (usage, spent) = (Usage::default(), Spent::default());
        Ok(Self { spec, host, repository, sandboxes, names, earlier, base, end, usage, spent })
    }

    /// Has the agent work until its result is accepted, or until it is not worth another iteration.
    fn run(&mut self, say: &mut dyn FnMut(&Line)) -> Result<(Output, Usage), Failed> {
        let result = self.iterate(say);
        // All is committed that has a result; what ended early has nobody else who saves its work.
        let unsaved = if result.is_ok() { Unsaved::Discard } else { Unsaved::Keep };
        self.clean_up_earlier(say);
        let cleaned = self.clean_up(unsaved, say);
        let output = result?;
        cleaned?;
        Ok((output, self.usage.clone()))
    }

    fn iterate(&mut self, say: &mut dyn FnMut(&Line)) -> Result<Output, Failed> {
        let mut progress = |text: String| say(&Line::Progress(text));
        let first = prompt::first(&self.spec).map_err(|why| Failed::setup("the prompt", why))?;
        let (mut ask, mut before) = (first.clone(), self.base.clone());
        for iteration in 1..=self.spec.iterations {
            progress(format!("iteration {iteration} of {}: the agent works", self.spec.iterations));
            let agent = self.agent(iteration, &ask)?;
            let commit = self.commit_rest()?;
            if self.spec.verify.is_empty() {
                return match agent.status {
                    0 => Ok(self.output(commit, iteration, Vec::new())),
                    status => Err(Failed::judged(
                        "agent_failed",
                        format!("the agent ended with {status}: {}", agent.tail.reason()),
                    )),
                };
            }
            progress("verifying the result".to_owned());
            match self.verify(&commit)? {
                Verified::Passed(steps) => return Ok(self.output(commit, iteration, steps)),
                Verified::Failed(step, ended) => {
                    progress(format!("`{}` failed with {}", step.command, step.status));
                    let why = || {
                        format!(
                            "`{}` failed with {}: {}",
                            step.command,
                            step.status,
                            ended.tail.reason()
                        )
                    };
                    if commit == before {
                        let what = format!("iteration {iteration} changed nothing; {}", why());
                        return Err(Failed::lasting("no_progress", what));
                    }
                    if iteration == self.spec.iterations {
                        return Err(Failed::unverified(why()));
                    }
                    if let Some(budget) = self.spent.exhausts(&self.spec) {
                        let what = format!("the budget of {budget} is used up; {}", why());
                        return Err(Failed::lasting("budget_exceeded", what));
                    }
                    // What is tested can print the sealed files.
                    let output = match self.spec.sealed {
                        Some(_) => "(not shown, as the tests are sealed)".to_owned(),
                        None => ended.tail.output(),
                    };
                    ask = prompt::again(&first, &step, &output);
                    before = commit;
                }
            }
        }
        Err(Failed::unverified("the task allows no iteration"))
    }

    /// Has the agent work once.
    fn agent(&mut self, iteration: u32, ask: &str) -> Result<Ended, Failed> {
        let mut options = options::of_sandbox(&self.spec, &self.names.work, self.left()?);
        options.extend(options::of_agent(&self.spec, &self.spent));
        // In one word: a prompt may begin with a dash.
        options.push(format!("--prompt={ask}").into());
        let name = self.spec.agent.clone();
        let name = name.ok_or_else(|| Failed::setup("the task", "it names no agent"))?;
        let heading = format!("agent {name}, iteration {iteration}");
        let ended = self.sandboxes.run(&heading, options, vec![name.into()])?;
        let Some(result) = &ended.result else {
            return Err(Failed::lasting("run_refused", ended.tail.reason()));
        };
        self.count(&result.usage);
        match result.limit.as_deref() {
            Some("timeout") if self.left().is_err() => {
                Err(Failed::lasting("running_total_exceeded", "the time of the attempt is over"))
            }
            _ => Ok(ended),
        }
    }

    /// Commits what the agent left, and returns the commit.
    fn commit_rest(&mut self) -> Result<String, Failed> {
        let mut options =
            options::of_sandbox(&self.spec, &self.names.work, self.left()?.min(COMMITTING));
        options.extend(self.spec.identity.iter().map(|name| format!("--identity={name}").into()));
        let message = format!("{}\n\nLeft without a commit by the agent.", self.spec.title);
        let what: Vec<OsString> =
            ["--", "/bin/sh", "-c", COMMIT, "commit", &message].map(Into::into).into();
        let ended = self.sandboxes.run("commit what is left", options, what)?;
        if ended.status != 0 {
            return Err(Failed::lasting("commit_failed", ended.tail.reason()));
        }
        let waiting = self.repository.waiting(&self.names.work);
        let waiting = waiting.map_err(|error| Failed::setup("the branch of the attempt", error))?;
        if let [session, ..] = waiting.as_slice() {
            let hint = format!("`pinfold accept {session}` takes it");
            let what = "the result changes files that tools on this machine run by themselves";
            return Err(Failed::lasting("result_waits", format!("{what}; {hint}")));
        }
        let commit = self.repository.branch(&self.names.work);
        commit.ok_or_else(|| Failed::setup("the branch of the attempt", "it is gone"))
    }

    /// Runs the commands that verify a commit, each on a checkout of its own, up to the first that fails.
    fn verify(&mut self, commit: &str) -> Result<Verified, Failed> {
        let setup = |error| Failed::setup("the checkout to verify", error);
        let (repository, branch) = (&self.repository, &self.names.verify);
        let verification = Verification { spec: &self.spec, base: &self.base, branch };
        let mut steps = Vec::new();
        for command in &self.spec.verify {
            repository.create(branch, commit).map_err(setup)?;
            let verified = left(self.end)
                .and_then(|left| verification.run(command, &mut self.sandboxes, left));
            self.discard_verified(branch).map_err(setup)?;
            let (step, ended) = verified?;
            if step.status != 0 {
                return Ok(Verified::Failed(step, ended));
            }
            steps.push(step);
        }
        Ok(Verified::Passed(steps))
    }

    /// Removes the checkout that was verified.
    fn discard_verified(&self, branch: &BranchName) -> Result<(), String> {
        self.repository.discard_worktree(branch, Unsaved::Discard, self.host)?;
        self.repository.branch(branch).map_or(Ok(()), |at| self.repository.remove(branch, &at))
    }

    /// Removes what attempts left that were killed. What they did not commit stays, and is named. Their sessions were
    /// settled when the agent of this attempt started.
    fn clean_up_earlier(&self, say: &mut dyn FnMut(&Line)) {
        for Names { work, verify, .. } in &self.earlier {
            let kept = self.repository.discard_worktree(work, Unsaved::Keep, self.host);
            let failed = self.discard_verified(verify).err();
            let named = kept.unwrap_or_else(Some).into_iter().chain(failed);
            named.for_each(|what| say(&Line::Progress(format!("of an earlier attempt: {what}"))));
        }
    }

    /// Removes the worktree, and the branch if nothing is on it.
    fn clean_up(&self, unsaved: Unsaved, say: &mut dyn FnMut(&Line)) -> Result<(), Failed> {
        let setup = |error| Failed::setup("removing the worktree of the attempt", error);
        let work = &self.names.work;
        let kept = self.repository.discard_worktree(work, unsaved, self.host).map_err(setup)?;
        if let Some(kept) = kept {
            say(&Line::Progress(kept));
            return Ok(());
        }
        if self.repository.branch(work).as_ref() == Some(&self.base) {
            self.repository.remove(work, &self.base).map_err(setup)?;
        }
        Ok(())
    }

    fn output(&self, commit: String, iterations: u32, steps: Vec<Step>) -> Output {
        Output {
            branch: self.names.result.to_string(),
            attempt_branch: self.names.work.to_string(),
            base: self.base.clone(),
            commit,
            iterations,
            steps,
            nano_usd: self.spent.nano_usd,
        }
    }

    fn count(&mut self, usage: &RunUsage) {
        let more = |sum: &mut Option<u64>, more| *sum = Some(sum.unwrap_or(0).saturating_add(more));
        let sent = usage.input_tokens;
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(sent);
        self.usage.output_tokens = self.usage.output_tokens.saturating_add(usage.output_tokens);
        more(&mut self.usage.cache_read_tokens, usage.cache_read_tokens);
        more(&mut self.usage.cache_write_tokens, usage.cache_write_tokens);
        self.usage.model.clone_from(&self.spec.model);
        self.usage.provider.clone_from(&self.spec.provider);
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let tokens = sent.saturating_add(usage.output_tokens).saturating_add(cached);
        self.spent.tokens = self.spent.tokens.saturating_add(tokens);
        self.spent.requests = self.spent.requests.saturating_add(usage.requests);
        self.spent.nano_usd = self.spent.nano_usd.saturating_add((usage.usd * 1e9) as u64);
    }

    fn left(&self) -> Result<Duration, Failed> {
        left(self.end)
    }
}

/// Returns how long an attempt may still take.
fn left(end: Instant) -> Result<Duration, Failed> {
    let left = end.saturating_duration_since(Instant::now());
    if left < Duration::from_secs(1) {
        Err(Failed::lasting("running_total_exceeded", "the time of the attempt is over"))
    } else {
        Ok(left)
    }
}
