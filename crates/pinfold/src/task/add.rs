//! `pinfold task add`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pinfold_attempt::first_prompt;
use pinfold_host::directories::Places;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::limits::{ByteSize, MilliCpus, WallTime};
use pinfold_policy::settings::{BranchName, Usd};
use pinfold_session::prepare;
use pinfold_tasks::{
    Draft, Queue, SqliteStore, TaskId, TaskSpec, VerifyStep, load_task, read_task,
};
use pinfold_terminal::notify;

use super::find::find;
use crate::cli::cpus;
use crate::exit::Failure;
use crate::print::say;

const EXAMPLES: &str = "\
Examples:
  pinfold task add --agent claude --brief \"fix the failing tests\" --verify \"cargo test\"
  pinfold task add task.md             front matter between --- or +++ lines, then the brief";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// A file with the task, or - for standard input; options win over what it says
    #[arg(required_unless_present = "brief")]
    file: Option<PathBuf>,
    /// What the agent is to do
    #[arg(long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    brief: Option<String>,
    /// A line for lists; the first line of the brief by default
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model, as the agent names it
    #[arg(long)]
    model: Option<String>,
    /// The model's provider
    #[arg(long)]
    provider: Option<String>,
    /// Work as this identity
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// The branch that the work begins at; by default what is checked out when an attempt begins
    #[arg(long, value_name = "BRANCH")]
    base: Option<BranchName>,
    /// The branch that the result is put on; task/ID by default
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
    iterations: Option<u32>,
    /// A task that has to be completed before; may be repeated
    #[arg(long, value_name = "ID")]
    depends: Vec<String>,
    /// Files that it changes; two tasks that may change the same file do not run at once; may be repeated
    #[arg(long, value_name = "GLOB")]
    touches: Vec<String>,
    /// Tasks with a higher number are claimed first
    #[arg(long, value_name = "NUMBER")]
    priority: Option<i32>,
    /// How many attempts there may be
    #[arg(long, value_name = "COUNT")]
    attempts: Option<u32>,
    /// How long an attempt may take
    #[arg(long, value_name = "TIME")]
    timeout: Option<WallTime>,
    /// How long the task waits for a worker
    #[arg(long, value_name = "TIME")]
    expires: Option<WallTime>,
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

pub(super) fn add(
    args: AddArgs,
    queue: &Queue<SqliteStore>,
    places: &Places,
) -> Result<(), Failure> {
    let mut spec = spec(&args)?;
    let expires_after = args.expires.map(WallTime::duration);
    let depends = args.depends.iter().map(|begin| Ok(find(queue, begin)?.id));
    let depends: Vec<TaskId> = depends.collect::<Result<_, Failure>>()?;
    spec.depends.extend(depends);
    override_with(&mut spec, args)?;
    settle(&mut spec, places)?;
    let id = TaskId::generate().map_err(Failure::new)?;
    let task = queue.add(&Draft { id, spec, expires_after })?;
    say!("{id}");
    notify!("pinfold: {}: {} (`pinfold work` works on it)", task.status, task.title);
    Ok(())
}

/// Returns what the file or the brief says.
fn spec(args: &AddArgs) -> Result<TaskSpec, Failure> {
    // Longer than any task's file.
    const LONGEST: u64 = 4 << 20;
    let bytes = match (&args.brief, &args.file) {
        (Some(brief), _) => brief.clone().into_bytes(),
        (None, Some(path)) if path.as_os_str() != "-" => {
            return load_task(path).map_err(|refusal| {
                let hint = refusal.hint().map(str::to_owned);
                Failure::new(refusal).hint(hint)
            });
        }
        (None, _) => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(LONGEST).read_to_end(&mut bytes);
            read.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
            bytes
        }
    };
    let path = Path::new(if args.brief.is_some() { "--brief" } else { "-" });
    read_task(SettingsFile { path, bytes: &bytes }).map_err(Failure::new)
}

/// Has the options win over what the file says.
fn override_with(spec: &mut TaskSpec, args: AddArgs) -> Result<(), Failure> {
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
    set(&mut spec.title, args.title);
    replace(&mut spec.agent, args.agent);
    replace(&mut spec.model, args.model);
    replace(&mut spec.provider, args.provider);
    replace(&mut spec.identity, args.identity);
    replace(&mut spec.base, args.base);
    replace(&mut spec.branch, args.branch);
    if !args.verify.is_empty() {
        spec.verify = args.verify.into_iter().map(VerifyStep).collect();
    }
    if !args.restore.is_empty() {
        spec.restore = args.restore;
    }
    if !args.touches.is_empty() {
        spec.touches = args.touches;
    }
    let sealed = args.sealed.as_deref().map(|path| {
        let named = |error| Failure::new(format!("--sealed {}: {error}", path.display()));
        std::fs::canonicalize(path).map_err(named)
    });
    replace(&mut spec.sealed, sealed.transpose()?);
    set(&mut spec.iterations, args.iterations);
    set(&mut spec.priority, args.priority);
    set(&mut spec.attempts, args.attempts);
    set(&mut spec.timeouts.running, args.timeout.map(WallTime::duration));
    replace(&mut spec.limits.cpus, args.cpus);
    replace(&mut spec.limits.memory, args.memory);
    replace(&mut spec.budget.usd, args.budget_usd);
    replace(&mut spec.budget.tokens, args.budget_tokens);
    replace(&mut spec.budget.requests, args.budget_requests);
    Ok(())
}

/// Fills in what depends on where the task is added, and refuses what no attempt could do.
pub(crate) fn settle(spec: &mut TaskSpec, places: &Places) -> Result<(), Failure> {
    let refused = |what: &str, hint: &str| Failure::new(what).hint(Some(hint.to_owned()));
    if spec.brief.trim().is_empty() {
        return Err(refused("the task has no brief", "say what the agent is to do"));
    }
    let known = prepare::agents(places)?;
    match &spec.agent {
        Some(agent) if known.contains(agent) => {}
        Some(agent) => {
            let what = format!("unknown agent {agent:?}");
            return Err(refused(&what, &format!("known: {}", known.join(", "))));
        }
        None => return Err(refused("the task names no agent", "say --agent NAME")),
    }
    if spec.workspace.is_some_and(|mode| mode.word() != "dedicated_worktree") {
        let what = "a task works on a branch of its own, in a worktree";
        return Err(refused(what, "leave `workspace` out, or say dedicated_worktree"));
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
    first_prompt(spec).map_err(Failure::new)?;
    if spec.timeouts.running < Duration::from_secs(1) {
        return Err(refused("--timeout is too short", "say 1s or more"));
    }
    Ok(())
}
