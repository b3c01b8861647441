//! `pinfold loop`: agents work on a specification until it is done.

mod issues;
mod one;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use pinfold_attempt::Repository;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::{Host, Refusal, sys};
use pinfold_policy::limits::WallTime;
use pinfold_session::prepare;
use pinfold_specs::{FileHome, Gh, IssueHome, TrustedAuthors, Vouched};

use crate::exit::Failure;
use crate::policy;
use crate::task::WorkOptions;
use issues::Issues;
use one::{Key, work_on};

const EXAMPLES: &str = "\
Examples:
  pinfold loop --spec parser.md --agent claude --verify \"cargo test\"
  pinfold loop --issue 12                               an issue of the repository that origin names
  pinfold loop --all --poll                             each issue labelled spec and status:ready";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("what").required(true).args(["spec", "issue", "all"]))]
pub(crate) struct LoopArgs {
    /// A file with the specification: front matter between --- or +++ lines, then steps in Markdown
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// An issue on GitHub with the specification, read and edited by this machine's gh
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    issue: Option<u64>,
    /// Each open issue with the labels spec and status:ready, until no issue has them
    #[arg(long)]
    all: bool,
    /// With --all: wait for further issues, until the loop is ended
    #[arg(long, requires = "all")]
    poll: bool,
    /// With --poll: how long to wait before issues are listed again
    #[arg(long, value_name = "TIME", requires = "poll", default_value = "30s")]
    interval: WallTime,
    /// Also count words of these people, who may not write to the repository: logins, with commas between them
    #[arg(long, value_name = "LIST", conflicts_with = "spec")]
    trust_authors: Option<TrustedAuthors>,
    /// End after so many iterations in a row that change neither files nor steps
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    patience: u32,
    #[command(flatten)]
    work: WorkOptions,
}

/// What every loop of this process needs.
struct Context<'a> {
    places: Places,
    launcher: &'a Launcher,
    work: WorkOptions,
    patience: u32,
    /// The user's own agent, if one is set.
    agent: Option<String>,
    /// What asks this process to end. From the beginning on, so that nothing is left half done.
    signals: OwnedFd,
}

impl Context<'_> {
    fn host(&self) -> Host<'_> {
        Host { places: &self.places, launcher: self.launcher }
    }

    /// Returns gh for the repository that `origin` of the current one names.
    ///
    /// # Errors
    /// Returns an error if there is no gh, no origin, or none on GitHub.
    fn gh(&self) -> Result<Gh, Failure> {
        gh(self.host())
    }
}

/// Returns gh for the repository that `origin` of the current one names.
///
/// # Errors
/// Returns an error if there is no gh, no origin, or none on GitHub.
pub(crate) fn gh(host: Host<'_>) -> Result<Gh, Failure> {
    let directory = prepare::workspace(host.places)?.root.into_path_buf();
    let repository = Repository::of(&directory, host)?;
    let origin = repository
        .host()
        .line(&["config", "--get", "remote.origin.url"])
        .ok_or_else(|| Failure::new("the repository has no remote named origin"))?;
    Ok(Gh::find(&origin, &[repository.top().to_owned()], host.launcher)?)
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let hint = refusal.hint().map(str::to_owned);
        Self::new(refusal).hint(hint)
    }
}

pub(crate) fn run(args: LoopArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let signals = sys::stop_events().map_err(Failure::new)?;
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let agent = policy::own().map_err(Failure::plain)?.scalars.agent.map(|agent| agent.value);
    let LoopArgs { work, patience, trust_authors, .. } = args;
    let context = Context { places, launcher, work, patience, agent, signals };
    let trusted = trust_authors.unwrap_or_default();
    if let Some(path) = &args.spec {
        let top =
            prepare::workspace(&context.places).map_err(|error| Failure::from(error).plain())?;
        let mut home = FileHome::open(path)?.in_repository(top.root.as_path());
        let key = Key::of_file(home.path());
        return Ok(work_on(&mut home, &key, &context)?.code());
    }
    let gh = context.gh()?;
    if let Some(number) = args.issue {
        let key = Key::of_issue(gh.repository(), number);
        let mut home = IssueHome::new(gh, number, trusted, Vouched::ByUser);
        return Ok(work_on(&mut home, &key, &context)?.code());
    }
    let interval = args.poll.then_some(args.interval.duration());
    Ok(Issues::new(gh, trusted, &context).work(interval)?.code())
}

/// Waits, at most so long. Returns whether this process is asked to end.
pub(crate) fn is_asked_to_end(signals: &OwnedFd, longest: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut wanted = [PollFd::new(signals, PollFlags::IN)];
    // An interruption by anything else only ends the wait.
    let _ = poll(&mut wanted, Some(&pinfold_host::io::timespec(longest)));
    sys::next_signal(signals).is_some()
}
