//! `pinfold task add`.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_attempt::first_prompt;
use pinfold_host::Host;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::limits::WallTime;
use pinfold_specs::{Home as _, IssueHome, TrustedAuthors, Vouched};
use pinfold_tasks::{Draft, QueueError, StoreError, Task, TaskId, TaskSpec, load_task, read_task};
use pinfold_tasks_postgres::AnyStore;
use pinfold_terminal::notify;

use super::find::find;
use super::options::{WorkOptions, settle};
use crate::exit::Failure;
use crate::print::say;
use crate::spec_loop::gh;
use crate::task_queue::TaskQueue;

const EXAMPLES: &str = "\
Examples:
  pinfold task add --agent claude --brief \"fix the failing tests\" --verify \"cargo test\"
  pinfold task add task.md             front matter between --- or +++ lines, then the brief";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// A file with the task, or - for standard input; options win over what it says
    #[arg(required_unless_present_any = ["brief", "issue"])]
    file: Option<PathBuf>,
    /// An issue on GitHub with the task, read by this machine's gh
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["file", "brief"], value_parser = clap::value_parser!(u64).range(1..))]
    issue: Option<u64>,
    /// With --issue: also count words of these people, who may not write to the repository: logins, with commas
    /// between them
    #[arg(long, value_name = "LIST", requires = "issue")]
    trust_authors: Option<TrustedAuthors>,
    /// What the agent is to do
    #[arg(long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    brief: Option<String>,
    /// A line for lists; the first line of the brief by default
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    work: WorkOptions,
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
    /// How long the task waits for a worker
    #[arg(long, value_name = "TIME")]
    expires: Option<WallTime>,
}

pub(super) fn add(args: AddArgs, queue: &TaskQueue, host: Host<'_>) -> Result<(), Failure> {
    let mut spec = match args.issue {
        Some(number) => of_issue(number, args.trust_authors.clone().unwrap_or_default(), host)?,
        None => spec(&args)?,
    };
    let expires_after = args.expires.map(WallTime::duration);
    let depends: Vec<TaskId> = args
        .depends
        .iter()
        .map(|begin| Ok(find(queue, begin)?.id))
        .collect::<Result<_, Failure>>()?;
    spec.depends.extend(depends);
    if !args.touches.is_empty() {
        spec.touches = args.touches;
    }
    spec.title = args.title.unwrap_or(spec.title);
    spec.priority = args.priority.unwrap_or(spec.priority);
    spec.attempts = args.attempts.unwrap_or(spec.attempts);
    args.work.override_in(&mut spec)?;
    if spec.brief.trim().is_empty() {
        let hint = "say what the agent is to do".to_owned();
        return Err(Failure::new("the task has no brief").hint(Some(hint)));
    }
    settle(&mut spec, host.places)?;
    first_prompt(&spec).map_err(Failure::new)?;
    let id = TaskId::generate().map_err(Failure::new)?;
    let task = add_once(queue, &Draft { id, spec, expires_after })?;
    say!("{id}");
    let at = match queue.store() {
        AnyStore::Local(_) => String::new(),
        AnyStore::Shared(store, _) => format!(" in the database {}", store.address()),
    };
    notify!("pinfold: {}{at}: {} (`pinfold work` works on it)", task.status, task.title);
    Ok(())
}

/// Adds a task. If the connection is lost before the answer comes, it asks again with the same id, which adds nothing twice.
pub(super) fn add_once(queue: &TaskQueue, draft: &Draft) -> Result<Task, QueueError> {
    let undecided = match queue.add(draft) {
        Err(error @ QueueError::Store(StoreError::Undecided(_))) => error,
        added => return added,
    };
    match queue.add(draft) {
        Err(QueueError::Store(StoreError::Exists)) => queue.task(draft.id),
        // It is still not known.
        Err(error) if error.is_transient() => Err(undecided),
        again => again,
    }
}

/// Returns what an issue says: its body, and the comments that count.
///
/// # Errors
/// Returns an error if it cannot be read, or if what it depends on is not done.
fn of_issue(number: u64, trusted: TrustedAuthors, host: Host<'_>) -> Result<TaskSpec, Failure> {
    let mut home = IssueHome::new(gh(host)?, number, trusted, Vouched::ByUser);
    let document = home.read()?;
    let unmet = home.unmet(&document.spec().depends)?;
    if !unmet.is_empty() {
        let what = format!("{} depends on what is not done: {}", home.name(), unmet.join(", "));
        return Err(Failure::new(what));
    }
    let mut task = document.spec().task.clone();
    for comment in home.comments() {
        let _ = write!(task.brief, "\n\nComment of {}:\n\n{}", comment.author, comment.body);
    }
    if home.ignored() > 0 {
        let count = home.ignored();
        notify!(
            "pinfold: note: {count} comments are left out, whose authors may not write to the repository"
        );
    }
    Ok(task)
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
