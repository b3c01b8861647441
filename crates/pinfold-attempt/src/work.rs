//! Work on a branch: the agent's sandbox, the commit of what it left, and the verification of the result.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_host::Host;
use pinfold_policy::settings::{BranchName, WorkspaceMode};
use pinfold_tasks::{TaskSpec, Usage};
use pinfold_worktree::dedicated::Unsaved;

use crate::failed::{Failed, RESULT_WAITS, TIME_IS_OVER};
use crate::job::{Output, Step};
use crate::options::{self, Spent};
use crate::repository::Repository;
use crate::sandbox::{Ended, RunUsage, Sandboxes};
use crate::verify::{Verification, Verified};

/// Commits what the agent left without a commit.
const COMMIT: &str = include_str!("../data/commit.sh");
/// How long that may take.
const COMMITTING: Duration = Duration::from_secs(300);

/// The branches of some work.
pub(crate) struct Branches {
    /// Where the result goes when it is accepted.
    pub(crate) result: BranchName,
    /// Where the agent works.
    pub(crate) work: BranchName,
    /// What is verified.
    pub(crate) verify: BranchName,
}

/// Work on a branch that exists.
pub(crate) struct Work<'a> {
    pub(crate) spec: TaskSpec,
    pub(crate) host: Host<'a>,
    pub(crate) repository: Repository,
    pub(crate) branches: Branches,
    /// The commit that the work began at.
    pub(crate) base: String,
    /// The branch that it was on, if the result could be merged into one.
    pub(crate) base_branch: Option<BranchName>,
    pub(crate) sandboxes: Sandboxes,
    /// When it has to have ended.
    end: Instant,
    pub(crate) usage: Usage,
    pub(crate) spent: Spent,
}

impl<'a> Work<'a> {
    /// Returns work that begins now, and is logged in this file.
    ///
    /// # Errors
    /// Returns a failure if the log cannot be made.
    pub(crate) fn new(
        spec: TaskSpec,
        repository: Repository,
        host: Host<'a>,
        branches: Branches,
        base: String,
        log: &Path,
    ) -> Result<Self, Failed> {
        let failed = |error| Failed::setup("the log of the attempt", error);
        let sandboxes = Sandboxes::new(repository.top(), log).map_err(failed)?;
        let end = Instant::now() + spec.timeouts.running;
        let (usage, spent) = (Usage::default(), Spent::default());
        Ok(Self {
            spec,
            host,
            repository,
            branches,
            base,
            base_branch: None,
            sandboxes,
            end,
            usage,
            spent,
        })
    }

    /// Has the agent work once, with these further options.
    ///
    /// # Errors
    /// Returns that this process was asked to end, that the time is over, or why the agent could not be started.
    pub(crate) fn agent(
        &mut self,
        iteration: u32,
        ask: &str,
        more: Vec<OsString>,
    ) -> Result<Ended, Failed> {
        let mut options = options::of_work(&self.spec, &self.branches.work, self.left()?);
        options.extend(options::of_agent(&self.spec, &self.spent));
        options.extend(more);
        // In one word: a prompt may begin with a dash.
        options.push(format!("--prompt={ask}").into());
        let name = self
            .spec
            .agent
            .clone()
            .ok_or_else(|| Failed::setup("the task", "it names no agent"))?;
        let heading = format!("agent {name}, iteration {iteration}");
        let ended = self.sandboxes.run(&heading, options, vec![name.into()])?;
        let Some(result) = &ended.result else {
            return Err(Failed::lasting("run_refused", ended.tail.reason()));
        };
        self.count(&result.usage);
        match result.limit.as_deref() {
            Some("timeout") if self.left().is_err() => {
                Err(Failed::lasting(TIME_IS_OVER, "the time of the attempt is over"))
            }
            _ => Ok(ended),
        }
    }

    /// Commits what an agent left whose run has ended, and returns the commit. A look whether there is anything takes less than
    /// the session that commits it.
    pub(crate) fn commit_rest(&mut self) -> Result<String, Failed> {
        let left = self.left()?;
        // What cannot be looked at, the session names that cannot commit it.
        match self.repository.is_committed(&self.branches.work, self.host) {
            Ok(true) => self.committed(),
            Ok(false) | Err(_) => self.settle_and_commit(left),
        }
    }

    /// Settles what an agent left that was killed, commits what is left, and returns the commit.
    pub(crate) fn recover(&mut self) -> Result<String, Failed> {
        let left = self.left()?;
        self.settle_and_commit(left)
    }

    /// Runs a session that commits what is left. It settles what an earlier one left, as each does at its start.
    fn settle_and_commit(&mut self, left: Duration) -> Result<String, Failed> {
        if self.spec.workspace == Some(WorkspaceMode::ScratchMount) {
            return Ok(self.base.clone());
        }
        let mut options =
            options::of_sandbox(&self.spec, &self.branches.work, left.min(COMMITTING));
        options.extend(self.spec.identity.iter().map(|name| format!("--identity={name}").into()));
        let message = format!("{}\n\nLeft without a commit by the agent.", self.spec.title);
        let what: Vec<OsString> =
            ["--", "/bin/sh", "-c", COMMIT, "commit", &message].map(Into::into).into();
        let ended = self.sandboxes.run("commit what is left", options, what)?;
        if ended.status != 0 {
            return Err(Failed::lasting("commit_failed", ended.tail.reason()));
        }
        self.committed()
    }

    /// Returns the commit that the branch is at, if none of it waits for the user.
    fn committed(&self) -> Result<String, Failed> {
        let waiting = self
            .repository
            .waiting(&self.branches.work)
            .map_err(|error| Failed::setup("the branch of the attempt", error))?;
        if let [session, ..] = waiting.as_slice() {
            let hint = format!("`pinfold accept {session}` takes it");
            let what = "the result changes files that tools on this machine run by themselves";
            return Err(Failed::lasting(RESULT_WAITS, format!("{what}; {hint}")));
        }
        let commit = self.repository.branch(&self.branches.work);
        commit.ok_or_else(|| Failed::setup("the branch of the attempt", "it is gone"))
    }

    /// Runs the commands that verify a commit, each on a checkout of its own, up to the first that fails.
    pub(crate) fn verify(&mut self, commit: &str) -> Result<Verified, Failed> {
        let setup = |error| Failed::setup("the checkout to verify", error);
        let (repository, branch) = (&self.repository, &self.branches.verify);
        let verification = Verification { spec: &self.spec, base: &self.base, commit, branch };
        let mut steps = Vec::new();
        for command in &self.spec.verify {
            repository.create(branch, commit).map_err(setup)?;
            let verified = left(self.end)
                .and_then(|left| verification.run(command, &mut self.sandboxes, left));
            self.repository.discard(branch, self.host).map_err(setup)?;
            let (step, ended) = verified?;
            if step.status != 0 {
                return Ok(Verified::Failed(step, ended));
            }
            steps.push(step);
        }
        Ok(Verified::Passed(steps))
    }

    /// Removes the worktree, and the branch if nothing is on it.
    pub(crate) fn clean_up(
        &self,
        unsaved: Unsaved,
        say: &mut dyn FnMut(String),
    ) -> Result<(), Failed> {
        let setup = |error| Failed::setup("removing the worktree of the attempt", error);
        let work = &self.branches.work;
        let kept = self.repository.discard_worktree(work, unsaved, self.host).map_err(setup)?;
        if let Some(kept) = kept {
            say(kept);
            return Ok(());
        }
        if self.repository.branch(work).as_ref() == Some(&self.base) {
            self.repository.remove(work, &self.base).map_err(setup)?;
        }
        Ok(())
    }

    /// Returns what an agent, and those who see the queue, are shown of the output of a command that failed.
    pub(crate) fn shown(&self, output: &str) -> String {
        // What is tested can print the sealed files.
        match self.spec.sealed {
            Some(_) => "(not shown, as the tests are sealed)".to_owned(),
            None => output.to_owned(),
        }
    }

    pub(crate) fn output(&self, commit: String, iterations: u32, steps: Vec<Step>) -> Output {
        Output {
            branch: self.branches.result.to_string(),
            attempt_branch: self.branches.work.to_string(),
            base: self.base.clone(),
            base_branch: self.base_branch.as_ref().map(ToString::to_string),
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

    /// Returns how long the work may still take.
    ///
    /// # Errors
    /// Returns a failure if its time is over.
    pub(crate) fn left(&self) -> Result<Duration, Failed> {
        left(self.end)
    }
}

/// Returns how long an attempt may still take.
fn left(end: Instant) -> Result<Duration, Failed> {
    let left = end.saturating_duration_since(Instant::now());
    if left < Duration::from_secs(1) {
        Err(Failed::lasting(TIME_IS_OVER, "the time of the attempt is over"))
    } else {
        Ok(left)
    }
}
