//! `pinfold completions`, and the answers to a shell that completes.
//!
//! The script that a shell loads asks the program itself each time, by a variable, so that it knows the
//! sessions that live.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use pinfold_host::directories::Places;
use pinfold_session::{control, detach};

use crate::exit::Failure;

/// Set where a shell asks for completions.
const ASKING: &str = "PINFOLD_COMPLETE";

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell: put `source <(pinfold completions bash)` into ~/.bashrc, the same with zsh into
    /// ~/.zshrc, or `pinfold completions fish | source` into fish's configuration
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Answers a shell that asks, and ends; otherwise does nothing.
pub(crate) fn answer(command: fn() -> Command) {
    // Looked for here, since the factory and its words are for shells alone.
    if std::env::var_os(ASKING).is_some() {
        CompleteEnv::with_factory(command).var(ASKING).complete();
    }
}

pub(crate) fn print(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(ASKING, "pinfold", "pinfold", "pinfold", &mut script)
        .and_then(|()| std::io::stdout().write_all(&script))
        .map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

/// Sessions that live.
pub(crate) fn live() -> ArgValueCandidates {
    ArgValueCandidates::new(|| Places::find().map_or(Vec::new(), |places| of_live(&places)))
}

/// Sessions that have a log.
pub(crate) fn logged() -> ArgValueCandidates {
    ArgValueCandidates::new(|| Places::find().map_or(Vec::new(), |places| of_logged(&places)))
}

/// Returns a session that a user gave a name is offered by it, and by its own name only to who begins to
/// type that.
fn of_live(places: &Places) -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    for (session, name) in control::reachable(places) {
        let is_named = name.is_some();
        found.extend(name.map(|name| candidate(&name).help(Some(session.clone().into()))));
        found.push(candidate(&session).hide(is_named));
    }
    found
}

fn of_logged(places: &Places) -> Vec<CompletionCandidate> {
    let logged = detach::logged(places);
    let mut found = of_live(places);
    found.retain(|live| {
        let help = live.get_help().map(ToString::to_string);
        let session = help.as_deref().map(OsStr::new).unwrap_or(live.get_value());
        logged.iter().any(|logged| session == logged.as_str())
    });
    let ended = logged.iter().map(|session| candidate(session.as_str()));
    let known: Vec<_> = found.iter().map(|live| live.get_value().to_owned()).collect();
    found.extend(ended.filter(|ended| !known.iter().any(|known| known == ended.get_value())));
    found
}

fn candidate(value: &str) -> CompletionCandidate {
    CompletionCandidate::new(value)
}
