//! `pinfold run`.

mod result;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use pinfold_boundary::LaunchError;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::sys;
use pinfold_policy::network::Preset;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{ApplyMode, Settings};
use pinfold_provision::Event;
use pinfold_rootfs::userland;
use pinfold_session::detach::{self, Front, Side, Started};
use pinfold_session::prepare::{Progress, Wanted};
use pinfold_session::{Outcome, RunError, Timeline, Who};
use pinfold_terminal::notify;
use pinfold_terminal::progress::{ProgressLine, Share};

use crate::cli::RunArgs;
use crate::exit::Failure;
use crate::{hindsight, image, network, policy, review, snapshot};
use result::ResultFile;

/// Runs an agent or a command; `learn` lets it reach every public host and says which it did.
///
/// # Errors
/// Returns what kept it from being run.
pub(crate) fn run(
    mut args: RunArgs,
    learn: bool,
    launcher: &Launcher,
) -> Result<ExitCode, Failure> {
    let mut timeline = Timeline::default();
    timeline.done("starts");
    check_outside()?;
    let places = Places::find().map_err(Failure::places)?;
    // Of this process's terminal, which the other one does not have.
    let window = args.tty.then(detach::window);
    let background = if args.detach {
        match detach::detach(&places).map_err(Failure::own)? {
            Side::Front(front) => return wait(front),
            Side::Background(background) => Some(background),
        }
    } else {
        None
    };
    let prompt = prompt(&mut args)?;
    let spec = args.spec.take().map(|path| spec(&path)).transpose()?;
    let result = args.result.as_deref().map(ResultFile::open).transpose()?;
    let task = args.memory_task.take();
    let RunArgs { agent, rest, idle, policy: flags, agent_image, timings, name, remember, .. } =
        args;
    let prompt = prompt.map(|prompt| if remember { hindsight::prompt(&prompt) } else { prompt });
    let mut wanted = Wanted {
        agent,
        rest,
        prompt,
        spec,
        notes: None,
        task,
        idle,
        is_unattended: flags.unattended,
        discards_commits: args.discard_commits,
        name,
        background,
        window,
    };
    let host = Host { places: &places, launcher };
    let mut start = policy::prepare(&flags, wanted.agent.as_deref(), wanted.presence(), host)?;
    if remember {
        wanted.notes = Some(hindsight::notes(&places, start.workspace())?);
    }
    if agent_image {
        start.begin_with_image(&Shown::default())?;
    }
    say_what_waits(start.settings());
    say_what_has_no_effect(start.settings());
    if learn {
        start.allow_every_name("pinfold learn")?;
        notify!("pinfold: learning: every public host can be reached in this run");
    }
    let dedicated = start.dedicated()?;
    for note in dedicated.iter().flat_map(|dedicated| &dedicated.notes) {
        notify!("pinfold: note: {note}");
    }
    let asks = start.settings().scalars.apply.value == ApplyMode::Ask;
    let request = start.request(wanted, &Shown::default(), timeline);
    let outcome = request.and_then(pinfold_session::run);
    if let Ok(outcome) = &outcome {
        report(outcome, timings);
        result.map_or(Ok(()), |result| result.write(outcome))?;
    }
    match dedicated.map_or(Ok(None), |dedicated| dedicated.end()) {
        Ok(ended) => ended.iter().for_each(|ended| notify!("pinfold: {ended}")),
        Err(error) => notify!("pinfold: the worktree stays: {error}"),
    }
    if let Err(RunError::Launch(LaunchError::Interrupted)) = &outcome
        && let Some(signal) = sys::waiting_interrupt()
    {
        notify!("pinfold: the start was interrupted");
        sys::die_of(signal);
    }
    let outcome = outcome?;
    if asks {
        ask_to_apply(launcher)?;
    }
    if learn {
        network::propose(&outcome.reached);
    }
    if outcome.interrupted && std::io::stdin().is_terminal() {
        // The shell treats a job that an interrupt ended differently from one that returns.
        sys::die_of_interrupt();
    }
    Ok(ExitCode::from(outcome.status))
}

/// Refuses to start a sandbox in a sandbox of pinfold's.
pub(crate) fn check_outside() -> Result<(), Failure> {
    if !userland::is_inside() {
        return Ok(());
    }
    let hint = "start it on the host; `pinfold exec` there runs another command in this sandbox";
    let what = "pinfold cannot start a sandbox inside its own sandbox";
    Err(Failure::own(what).hint(Some(hint.to_owned())))
}

/// Returns the prompt that the agent is given.
///
/// # Errors
/// Returns an error for a file that cannot be read, is too long, or is not text.
fn prompt(args: &mut RunArgs) -> Result<Option<String>, Failure> {
    // Longer than any prompt that an argument can be.
    const LONGEST: u64 = 256 << 10;
    let Some(path) = args.prompt_file.take() else { return Ok(args.prompt.take()) };
    let failed = |error: std::io::Error| {
        Failure::own(format!("cannot read the prompt {}: {error}", Escaped(&path)))
    };
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(LONGEST).read_to_string(&mut text)
    } else {
        std::fs::File::open(&path).and_then(|file| file.take(LONGEST).read_to_string(&mut text))
    };
    read.map_err(failed)?;
    Ok(Some(text))
}

/// Returns the specification that the command is given.
///
/// # Errors
/// Returns an error for a file that cannot be read or is too long.
fn spec(path: &Path) -> Result<Vec<u8>, Failure> {
    // Longer than any specification.
    const LONGEST: u64 = 2 << 20;
    let failed = |why: &dyn std::fmt::Display| {
        Failure::own(format!("cannot read the specification {}: {why}", Escaped(path)))
    };
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    match read {
        Ok(count) if count as u64 > LONGEST => Err(failed(&"it is too long")),
        Ok(_) => Ok(bytes),
        Err(error) => Err(failed(&error)),
    }
}

/// Asks whether what the session changed in a view is to be applied, if somebody can answer and
/// there is anything.
///
/// # Errors
/// Returns the errors of `pinfold apply`.
fn ask_to_apply(launcher: &Launcher) -> Result<(), Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_terminal || review::choose(&[], launcher).is_err() {
        return Ok(());
    }
    notify::put(format_args!("pinfold: apply these changes? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::own)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        review::apply(&review::ApplyArgs::default(), launcher)?;
    }
    Ok(())
}

/// Says which session runs, or shows why none does.
fn wait(front: Front) -> Result<ExitCode, Failure> {
    match front.wait(&mut std::io::stderr()).map_err(Failure::own)? {
        Started::Session(session) => {
            let written = writeln!(std::io::stdout(), "{session}");
            written
                .map_err(|error| Failure::own(format!("the session {session} runs: {error}")))?;
            Ok(ExitCode::SUCCESS)
        }
        Started::Failed(status) => Ok(ExitCode::from(status)),
    }
}

/// Says that the repository asks for more than it gets.
fn say_what_waits(settings: &Settings) {
    let mut waiting = settings.waiting();
    if let Some(first) = waiting.next() {
        let more = match waiting.count() {
            0 => String::new(),
            more => format!(" ({more} more)"),
        };
        notify!("pinfold: note: waits for `pinfold trust`: {first}{more}");
    }
    let skipped = settings.waiting().filter(|waits| waits.key == "resumeCommands");
    for command in skipped {
        notify!("pinfold: note: skipped at this start until you trust it: {}", command.asks);
    }
}

/// Says which options of the command line do nothing here.
fn say_what_has_no_effect(settings: &Settings) {
    let is_flag = |origin: &Origin| matches!(origin, Origin::Flag { .. });
    let is_unset = |name: &str| std::env::var_os(name).is_none();
    for name in settings.forward_env.iter().filter(|name| is_flag(&name.origin)) {
        if is_unset(name.value.as_str()) {
            notify!("pinfold: note: {} is not set here ({})", name.value, name.origin);
        }
    }
    let rules = settings.network.allow.iter();
    for preset in rules.filter_map(|rule| Preset::meant_by(&rule.value)) {
        notify!(
            "pinfold: note: the rule {preset} allows a host of this name; the preset is --allow {preset}"
        );
    }
    if let Some(rule) = settings.network.closed_loopback_rule() {
        let rule = &rule.value;
        notify!(
            "pinfold: note: the rule {rule} opens nothing: services of this machine need \
             --allow-internal-host {rule}"
        );
    }
}

/// Shows how the preparation of a run goes on.
#[derive(Default)]
struct Shown {
    line: ProgressLine,
}

impl Progress for Shown {
    fn agent(&self, event: Event) {
        match event {
            Event::Waiting => {
                self.line.step("another start is preparing this agent; waiting");
            }
            Event::Fetching { done, packages, bytes } => {
                let of = bytes.map_or(String::new(), |bytes| format!(" of {} MB", bytes >> 20));
                let detail =
                    format!("{} of {packages}, {} MB{of}", done.packages, done.bytes >> 20);
                let share = match bytes {
                    Some(bytes) => Share { done: done.bytes, of: bytes },
                    None => Share { done: done.packages as u64, of: packages as u64 },
                };
                self.line.share("downloading packages", &detail, share);
            }
            Event::Verifying => self.line.step("verifying packages"),
            Event::Unpacking => self.line.step("unpacking inside a boundary without network"),
            Event::Sealing => {
                self.line.step("sealing");
                self.line.end();
            }
        }
    }

    fn system(&self, event: &pinfold_session::snapshot::Event<'_>) {
        snapshot::report(&self.line, event);
    }

    fn system_ended(&self) {
        self.line.end();
    }

    fn image(&self, event: &pinfold_engines::image::Event<'_>) {
        image::report(event);
    }

    fn interrupted(&self, signal: i32) {
        sys::die_of(signal);
    }
}

fn report(outcome: &Outcome, timings: bool) {
    if let Some(limit) = outcome.limit {
        let what = if limit.ended_the_run() { "ended the run" } else { "was reached" };
        notify!("pinfold: the {} limit {what}", limit.name());
    }
    notify::notes(&outcome.notes, outcome.session.as_ref());
    if timings {
        show(&outcome.timeline);
    }
}

/// Shows each step with when it ended and how long it took its own process.
fn show(timeline: &Timeline) {
    let marks = timeline.marks();
    let first = marks.first().map_or(0, |mark| mark.at);
    let mut last = [first; 2];
    for mark in marks {
        let (own, who) = match mark.who {
            Who::Supervisor => (&mut last[0], "pinfold"),
            Who::Init => (&mut last[1], "init   "),
        };
        let took = mark.at.saturating_sub(*own) as f64 / 1e6;
        *own = mark.at;
        notify!("{:>8.3} ms {took:>+8.3}  {who}  {}", (mark.at - first) as f64 / 1e6, mark.what);
    }
}
