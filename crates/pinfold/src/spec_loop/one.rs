//! The loop on one specification, from its status to its status.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pinfold_attempt::{LoopEnd, SpecLoop, run_spec_loop};
use pinfold_host::digest::name_of;
use pinfold_host::directories::Places;
use pinfold_policy::path::{Escaped, is_plain};
use pinfold_specs::{Home, Keeper};
use pinfold_tasks::{SpecStatus, TaskSpec};
use pinfold_terminal::notify;
use rustix::fs::FlockOperation;

use super::Context;
use crate::exit::{self, Failure};
use crate::task::settle;

/// How many iterations there may be if nothing says so.
const ITERATIONS: u32 = 64;

/// What a specification's directory and branches are called by.
pub(super) struct Key(String);

impl Key {
    /// Returns the key of a file: the beginning of its name, and a part of a hash of its path.
    pub(super) fn of_file(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let stem: String = stem.chars().map(letter).take(40).collect();
        Self::new(stem.trim_matches('-'), path.as_os_str().as_bytes())
    }

    /// Returns the key of an issue.
    pub(super) fn of_issue(repository: &str, number: u64) -> Self {
        let name = format!("{}#{number}", repository.to_ascii_lowercase());
        Self::new(&format!("issue-{number}"), name.as_bytes())
    }

    fn new(beginning: &str, of: &[u8]) -> Self {
        let hash = &name_of(of)[..8];
        let beginning = if beginning.is_empty() { "spec" } else { beginning };
        Self(format!("{beginning}-{hash}"))
    }
}

/// How the work on a specification ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worked {
    Done,
    /// A step, or what it depends on, is blocked.
    Blocked,
    /// A user has to look at it.
    Attention,
    /// The budget or the time is used up.
    Exhausted,
    /// It cannot go on.
    Failed,
    /// This process was asked to end.
    Interrupted,
}

impl Worked {
    pub(super) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Blocked => exit::BLOCKED,
            Self::Attention => exit::ATTENTION,
            Self::Exhausted => exit::EXHAUSTED,
            Self::Interrupted => exit::INTERRUPTED,
        })
    }
}

/// Works on a specification, and says at its home how far it is.
///
/// # Errors
/// Returns an error for a specification that cannot be read, that is done already, or that another loop works on.
pub(super) fn work_on(
    home: &mut dyn Home,
    key: &Key,
    context: &Context<'_>,
) -> Result<Worked, Failure> {
    let directory = context.places.state.join("loops").join(&key.0);
    Places::make_private(&directory).map_err(Failure::new)?;
    let _lock = lock(&directory, home)?;
    let mut keeper = Keeper::new(home, &directory)?;
    let before = keeper.home().status(keeper.known());
    let name = keeper.home().name();
    let say = |text: &str| notify!("pinfold: {name}: {}", plain(text));
    for left in keeper.home().leftovers() {
        say(&format!(
            "a loop that was killed left a version in {}; remove it when you have looked",
            Escaped(&left)
        ));
    }
    match before {
        Some(SpecStatus::Done) => {
            let hint = "set its status to ready, and leave a step open, to have it worked on again"
                .to_owned();
            return Err(Failure::new(format!("{name} is done")).hint(Some(hint)));
        }
        Some(SpecStatus::InProgress) => say("an earlier loop was lost; this one goes on"),
        Some(SpecStatus::Ready | SpecStatus::NeedsAttention | SpecStatus::Blocked) | None => {}
    }
    let unmet = keeper.home().unmet(&keeper.known().spec().depends)?;
    if !unmet.is_empty() {
        keeper.set_status(SpecStatus::Blocked)?;
        say(&format!("blocked: not done yet: {}", unmet.join(", ")));
        return Ok(Worked::Blocked);
    }
    let order = order(&keeper, key, directory.clone(), context)?;
    keeper.keep("before.md")?;
    keeper.set_status(SpecStatus::InProgress)?;
    say(&format!("begun; the log is {}", Escaped(&directory.join("log"))));
    let ended = run_spec_loop(&order, &mut keeper, context.host(), &mut |text| say(&text));
    let worked = report(&ended, &say);
    let status = match worked {
        Worked::Done => SpecStatus::Done,
        Worked::Interrupted => match before {
            Some(SpecStatus::InProgress) | None => SpecStatus::Ready,
            Some(before) => before,
        },
        Worked::Blocked | Worked::Attention | Worked::Exhausted | Worked::Failed => {
            SpecStatus::NeedsAttention
        }
    };
    keeper.set_status(status)?;
    say(&format!("status: {status}"));
    Ok(worked)
}

/// Returns what the loop is to do: what the specification asks for, with the options.
fn order(
    keeper: &Keeper<'_>,
    key: &Key,
    directory: PathBuf,
    context: &Context<'_>,
) -> Result<SpecLoop, Failure> {
    let spec = keeper.known().spec();
    let mut task =
        TaskSpec { agent: spec.task.agent.clone().or(context.agent.clone()), ..spec.task.clone() };
    context.work.clone().override_in(&mut task)?;
    let given = context.work.iterations.or(spec.iterations);
    settle(&mut task, &context.places)?;
    Ok(SpecLoop {
        key: key.0.clone(),
        task,
        iterations: given.unwrap_or(ITERATIONS),
        patience: context.patience,
        directory,
    })
}

/// Says how a loop ended.
fn report(ended: &LoopEnd, say: &dyn Fn(&str)) -> Worked {
    match ended {
        LoopEnd::Done(output, note) => {
            let verified =
                if output.is_verified() { "done and verified" } else { "done, not verified" };
            if output.is_changed() {
                say(&format!("{verified}: branch {} at {}", output.branch, output.commit))
            } else {
                say(&format!("{verified}; nothing had to be changed"))
            }
            note.iter().for_each(|note| say(&format!("note: {note}")));
            Worked::Done
        }
        LoopEnd::Blocked(steps) => {
            steps.iter().for_each(|step| say(&format!("blocked: {step}")));
            Worked::Blocked
        }
        LoopEnd::Attention(why) => {
            say(&format!("needs attention: {why}"));
            Worked::Attention
        }
        LoopEnd::Exhausted(why) => {
            say(&format!("ended: {why}"));
            Worked::Exhausted
        }
        LoopEnd::Interrupted => {
            say("ended by a signal; the specification is given back");
            Worked::Interrupted
        }
        LoopEnd::Failed(failure) => {
            say(&format!("failed: {}: {}", failure.code, failure.message));
            Worked::Failed
        }
    }
}

/// Locks a specification on this machine. The lock goes with the process.
fn lock(directory: &Path, home: &dyn Home) -> Result<File, Failure> {
    let path = directory.join("lock");
    let failed = |error| Failure::new(format!("cannot lock {}: {error}", Escaped(&path)));
    let file =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Failure::new(format!("another loop works on {}", home.name())))
        }
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Returns a text on one line that drives no terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_plain(letter) { letter } else { ' ' }).collect()
}
