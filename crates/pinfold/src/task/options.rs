//! The options that tasks and loops have in common.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pinfold_agents::AgentError;
use pinfold_host::directories::Places;
use pinfold_policy::limits::{ByteSize, MilliCpus, WallTime};
use pinfold_policy::settings::{BranchName, Usd, WorkspaceMode};
use pinfold_session::prepare;
use pinfold_tasks::{TaskSpec, VerifyStep};

use crate::cli::cpus;
use crate::exit::Failure;

// What a task or a specification asks for, which wins over its file. A doc comment would become the help of the command.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkOptions {
    /// The agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model, as the agent names it
    #[arg(long)]
    model: Option<String>,
    /// The model's provider
    #[arg(long)]
    provider: Option<String>,
    /// Work as this identity
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Work for this group, with its directories, budget and trust; of a group one task is worked on at a time
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The branch that the work begins at; by default what is checked out when an attempt begins
    #[arg(long, value_name = "BRANCH")]
    base: Option<BranchName>,
    /// The branch that the result is put on; task/ID or spec/NAME by default
    #[arg(long, value_name = "BRANCH")]
    branch: Option<BranchName>,
    /// A command that the result has to pass, in a sandbox of its own; may be repeated
    #[arg(long, value_name = "COMMAND")]
    verify: Vec<String>,
    /// A path whose files are as in the base while the result is verified; may be repeated
    #[arg(long, value_name = "PATH")]
    restore: Vec<String>,
    /// A directory whose files are put over the result while it is verified; the agent never sees it
    #[arg(long, value_name = "DIRECTORY")]
    sealed: Option<PathBuf>,
    /// How often the agent may work on it
    #[arg(long, value_name = "COUNT")]
    pub(crate) iterations: Option<u32>,
    /// How long an attempt may take
    #[arg(long, value_name = "TIME")]
    timeout: Option<WallTime>,
    /// CPUs, such as 1.5
    #[arg(long, value_parser = cpus)]
    cpus: Option<MilliCpus>,
    /// Memory of all processes together, such as 4G
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// The most that an attempt may spend on models, such as 2.50
    #[arg(long, value_name = "USD")]
    budget_usd: Option<Usd>,
    /// The most model tokens of an attempt
    #[arg(long, value_name = "COUNT")]
    budget_tokens: Option<u64>,
    /// The most model requests of an attempt
    #[arg(long, value_name = "COUNT")]
    budget_requests: Option<u64>,
}

impl WorkOptions {
    /// Has the options win over what the file says.
    ///
    /// # Errors
    /// Returns an error for a directory of sealed files that cannot be found.
    pub(crate) fn override_in(self, spec: &mut TaskSpec) -> Result<(), Failure> {
        fn set<T>(value: &mut T, given: Option<T>) {
            if let Some(given) = given {
                *value = given;
            }
        }
        fn replace<T>(value: &mut Option<T>, given: Option<T>) {
            if given.is_some() {
                *value = given;
            }
        }
        replace(&mut spec.agent, self.agent);
        replace(&mut spec.model, self.model);
        replace(&mut spec.provider, self.provider);
        replace(&mut spec.identity, self.identity);
        replace(&mut spec.group, self.group);
        replace(&mut spec.base, self.base);
        replace(&mut spec.branch, self.branch);
        if !self.verify.is_empty() {
            spec.verify = self.verify.into_iter().map(VerifyStep).collect();
        }
        if !self.restore.is_empty() {
            spec.restore = self.restore;
        }
        let sealed = self.sealed.as_deref().map(|path| {
            let named = |error| Failure::new(format!("--sealed {}: {error}", path.display()));
            std::fs::canonicalize(path).map_err(named)
        });
        replace(&mut spec.sealed, sealed.transpose()?);
        set(&mut spec.iterations, self.iterations);
        set(&mut spec.timeouts.running, self.timeout.map(WallTime::duration));
        replace(&mut spec.limits.cpus, self.cpus);
        replace(&mut spec.limits.memory, self.memory);
        replace(&mut spec.budget.usd, self.budget_usd);
        replace(&mut spec.budget.tokens, self.budget_tokens);
        replace(&mut spec.budget.requests, self.budget_requests);
        Ok(())
    }
}

/// Fills in what depends on where this is, and refuses what no attempt could do.
///
/// # Errors
/// Returns what no attempt could do, with a hint.
pub(crate) fn settle(spec: &mut TaskSpec, places: &Places) -> Result<(), Failure> {
    let refused = |what: &str, hint: &str| Failure::new(what).hint(Some(hint.to_owned()));
    let known = prepare::agents(places)?;
    match &spec.agent {
        Some(agent) if known.contains(agent) => {}
        Some(agent) => {
            return Err(Failure::new(AgentError::Unknown { name: agent.clone(), known }));
        }
        None => return Err(refused("the task names no agent", "say --agent NAME")),
    }
    match spec.workspace {
        None | Some(WorkspaceMode::DedicatedWorktree) => {}
        Some(WorkspaceMode::ScratchMount) if spec.verify.is_empty() => {}
        Some(WorkspaceMode::ScratchMount) => {
            let what = "a task in a scratch directory has no result that could be verified";
            return Err(refused(what, "leave `verify` out, or `workspace`"));
        }
        Some(mode @ (WorkspaceMode::SharedMount | WorkspaceMode::Overlay)) => {
            let what = format!(
                "a task cannot work in a {mode}, which nothing keeps apart from your checkout"
            );
            let hint = "leave `workspace` out for a branch of its own, or say scratch_mount for no repository";
            return Err(refused(&what, hint));
        }
    }
    if spec.repository.is_none() {
        spec.repository = Some(prepare::workspace(places)?.root.into_path_buf());
    }
    let directory = spec.repository.as_deref().unwrap_or(Path::new("/"));
    if std::fs::symlink_metadata(directory.join(".git")).is_err() {
        let what = format!("{} is no git repository", directory.display());
        return Err(refused(&what, "change into a repository, or name one as `repository`"));
    }
    let directory = std::fs::canonicalize(directory).map_err(Failure::new)?;
    if let Some(sealed) = &mut spec.sealed {
        let named = |error| Failure::new(format!("sealed: {}: {error}", sealed.display()));
        *sealed = std::fs::canonicalize(&*sealed).map_err(named)?;
    }
    if let Some(sealed) = spec.sealed.as_deref().filter(|sealed| !sealed.is_dir()) {
        return Err(Failure::new(format!("sealed: {} is no directory", sealed.display())));
    }
    if spec.sealed.as_deref().is_some_and(|sealed| sealed.starts_with(&directory)) {
        let hint = "move it out of the repository, where the agent does not see it";
        return Err(refused("the sealed directory is in the repository", hint));
    }
    if spec.timeouts.running < Duration::from_secs(1) {
        return Err(refused("--timeout is too short", "say 1s or more"));
    }
    Ok(())
}
