//! `pinfold snapshot`: the systems that sessions run on instead of this machine's own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::{Brief, Escaped};
use pinfold_policy::settings::Settings;
use pinfold_provision::Pruned;
use pinfold_rootfs::system::{Doing, Stack};
use pinfold_session::prepare;
use pinfold_session::snapshot::step::Step;
use pinfold_session::snapshot::{
    Building, Event, KEPT, SnapshotError, Snapshots, Summary, base_of, build_hosts,
};
use pinfold_terminal::notify;
use pinfold_terminal::progress::{ProgressLine, Share};
use pinfold_worktree::workspace::Workspace;

use crate::cli::{Output, PolicyArgs};
use crate::exit::Failure;
use crate::policy;
use crate::print::{self, say};

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Build the system that this repository's settings ask for
    Build(Box<BuildArgs>),
    /// List snapshots
    Ls(Output),
    /// Show what a snapshot consists of, and which hosts its build may reach
    Inspect(InspectArgs),
    /// Remove old snapshots and unused bases; keeps the current and the previous snapshot of each
    /// repository, and those in use
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Look up the tag of an image again
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The snapshot, by the beginning of its hash; by default the one of this repository
    id: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Keep none
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    step: PathBuf,
}

pub(crate) fn snapshot(
    command: &SnapshotCommand,
    launcher: &Launcher,
) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let host = Host { places: &places, launcher };
    match command {
        SnapshotCommand::Build(args) => build(args, host),
        SnapshotCommand::Ls(output) => list(host, *output),
        SnapshotCommand::Inspect(args) => inspect(args, host),
        SnapshotCommand::Prune(args) => prune(args, host),
    }
}

/// Runs one set-up command, in a process that a build has started.
pub(crate) fn step(args: &StepArgs, launcher: Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    let outcome = Step::read(&args.step).map_err(Failure::own)?.run(places, launcher)?;
    for note in &outcome.notes {
        notify!("pinfold: {}", note.text);
    }
    // Where there is no room for it, who builds sees that by itself.
    let _ = Step::report(&args.step, outcome.limit);
    if let Some(limit) = outcome.limit {
        notify!("pinfold: the {} limit was reached", limit.name());
    }
    Ok(ExitCode::from(outcome.status))
}

/// What an image's tag means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tags {
    /// What it meant when it was looked up first.
    AsTheyWere,
    /// What it means now.
    LookedUpAgain,
}

fn make(
    settings: &Settings,
    host: Host<'_>,
    project: &Workspace,
    tags: Tags,
) -> Result<Option<Stack>, Failure> {
    let progress = ProgressLine::default();
    let report = |event: Event<'_>| report(&progress, &event);
    let snapshots = Snapshots::new(host, &report).refreshing(tags == Tags::LookedUpAgain);
    let made = snapshots.ensure(settings, project.root.as_path());
    progress.end();
    if let Some(signal) = made.as_ref().err().and_then(SnapshotError::interrupted) {
        pinfold_host::sys::die_of(signal);
    }
    made.map_err(failure)
}

fn failure(error: SnapshotError) -> Failure {
    let hint = error.hint();
    Failure::own(error).hint(hint)
}

fn build(args: &BuildArgs, host: Host<'_>) -> Result<ExitCode, Failure> {
    let start = policy::prepare(&args.policy, None, policy::presence(&args.policy), host)?;
    let (settings, workspace) = (start.settings(), start.workspace());
    for widening in settings.waiting() {
        notify!("pinfold: note: waits for `pinfold trust`: {widening}");
    }
    let tags = if args.refresh { Tags::LookedUpAgain } else { Tags::AsTheyWere };
    match make(settings, host, workspace, tags)? {
        None => notify!("pinfold: sessions here run on this machine's own system"),
        Some(stack) => {
            for tree in &stack.trees {
                say!("{}", Escaped(tree));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn all(host: Host<'_>) -> Result<Vec<Summary>, Failure> {
    Snapshots::new(host, &|_| {}).all().map_err(failure)
}

fn list(host: Host<'_>, output: Output) -> Result<ExitCode, Failure> {
    let all = all(host)?;
    if output.json {
        print::json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        notify!(
            "pinfold: no snapshots; `pinfold snapshot build` builds the one of this repository"
        );
    }
    for one in all {
        let (from, repository) = (Escaped(one.from.as_ref()), Escaped(one.repository.as_ref()));
        say!("{}  {}  {from}  {} commands  {repository}", &one.id[..12], one.made, one.setup.len());
    }
    Ok(ExitCode::SUCCESS)
}

fn inspect(args: &InspectArgs, host: Host<'_>) -> Result<ExitCode, Failure> {
    let registries: Vec<String> =
        build_hosts().map_err(failure)?.iter().map(|rule| rule.value.to_string()).collect();
    let Some(prefix) = &args.id else { return inspect_here(args, host.places, &registries) };
    let found: Vec<Summary> =
        all(host)?.into_iter().filter(|one| one.id.starts_with(prefix.as_str())).collect();
    let [one] = found.as_slice() else {
        let what = if found.is_empty() { "no snapshot" } else { "more than one snapshot" };
        return Err(Failure::new(format!("{what} whose hash begins with {prefix}"))
            .hint(Some("`pinfold snapshot ls` lists them".to_owned())));
    };
    if args.output.json {
        print::json(one)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("hash        {}", one.id);
    say!("base        {} ({})", Escaped(one.from.as_ref()), Escaped(one.base.as_ref()));
    say!("made        {}", one.made);
    say!("repository  {}", Escaped(one.repository.as_ref()));
    let log = Snapshots::new(host, &|_| {}).log(&one.id);
    say!("log         {}", Escaped(&log));
    recipe(&one.setup, &one.hosts, &registries);
    Ok(ExitCode::SUCCESS)
}

fn inspect_here(
    args: &InspectArgs,
    places: &Places,
    registries: &[String],
) -> Result<ExitCode, Failure> {
    let workspace = prepare::workspace(places)?;
    let settings = prepare::plain_settings(places, &workspace)?;
    let snapshot = &settings.snapshot;
    let setup: Vec<String> = snapshot.setup.iter().map(|one| one.value.clone()).collect();
    let hosts: Vec<String> = snapshot.hosts.iter().map(|one| one.value.to_string()).collect();
    let base = base_of(snapshot).to_string();
    if args.output.json {
        let shown = serde_json::json!({
            "base": base, "setup": setup, "hosts": hosts, "registries": registries,
        });
        print::json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("base        {}", Escaped(base.as_ref()));
    recipe(&setup, &hosts, registries);
    Ok(ExitCode::SUCCESS)
}

fn recipe(setup: &[String], hosts: &[String], registries: &[String]) {
    for command in setup {
        say!("command     {}", Brief(command.as_ref()));
    }
    for host in hosts {
        say!("host        {host}");
    }
    for host in registries {
        say!("registry    {host}");
    }
}

fn prune(args: &PruneArgs, host: Host<'_>) -> Result<ExitCode, Failure> {
    let snapshots = Snapshots::new(host, &|_| {});
    let keep = if args.all { 0 } else { KEPT };
    let pruned = [
        ("snapshot", snapshots.prune(keep, |_| true).map_err(failure)?),
        ("base", snapshots.prune_bases().map_err(failure)?),
    ];
    for (what, Pruned { removed, in_use }) in pruned {
        for id in removed {
            say!("{what} {id}");
        }
        for id in in_use {
            notify!("pinfold: {what} {id} is in use and stays");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a user who waits what is being done.
pub(crate) fn report(progress: &ProgressLine, event: &Event<'_>) {
    match event {
        Event::Alpine => notify!(
            "pinfold: note: set-up commands call apk and snapshot.base is not named, so the base is \
             alpine"
        ),
        Event::Smaller { asked, limit } => notify!(
            "pinfold: note: snapshot.overlaySize is {}, not {} ({}): {} sets resources.disk",
            limit.value,
            asked.value,
            asked.origin,
            limit.origin
        ),
        Event::Base(Doing::Waiting) | Event::Building(Building::Waiting) => {
            progress.step("another process makes this system; waiting");
        }
        Event::Base(Doing::Fetching(fetched)) => {
            let (done, of) = (fetched.done, fetched.files);
            let detail = format!("{done} of {of}, {} MB", fetched.bytes >> 20);
            let share = Share { done: done as u64, of: of as u64 };
            progress.share("downloading layers", &detail, share);
        }
        Event::Base(Doing::Saving) => progress.step("getting the image from its engine"),
        Event::Base(Doing::Unpacking) => {
            progress.step("unpacking the system inside a boundary without network");
        }
        Event::Base(Doing::Reading) => progress.step("reading this machine's own system"),
        Event::Building(Building::Command { index, of, command }) => {
            progress.end();
            notify!("pinfold: set-up {} of {of}: {}", index + 1, Brief(command.as_ref()));
        }
        // It has been written down; a terminal shows it without what would drive it.
        Event::Building(Building::Output(said)) => notify::output(said),
    }
}
