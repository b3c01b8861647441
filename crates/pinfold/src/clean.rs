//! `pinfold clean`: what pinfold keeps on disk, and removing it.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::Escaped;
use pinfold_storage::{Kind, StoredEntry, Usage, entries, measure, measure_all, remove};
use pinfold_terminal::notify;
use serde_json::json;

use crate::cli::{Output, choice};
use crate::exit::Failure;
use crate::print::{self, Ago, Size, say};

/// The names of the kinds, for help and completions.
const KINDS: [&str; 10] = [
    "agents",
    "systems",
    "scans",
    "machines",
    "logs",
    "views",
    "set-aside",
    "agent-state",
    "gone-state",
    "kept-git",
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pinfold clean --dry-run      show what is on disk and what would be removed
  pinfold clean                remove what can be made again, after a question
  pinfold clean --yes logs     remove one kind, without a question
  pinfold clean views          discard changes that nobody has applied
  pinfold clean gone-state     remove what agents kept for workspaces that are gone")]
pub(crate) struct CleanArgs {
    /// What to remove. By default everything that can be made again: agents, systems, scans, machines and logs.
    /// The others cannot be made again, and are removed only when they are named
    #[arg(value_name = "KIND", value_parser = choice::<Named>(&KINDS))]
    kinds: Vec<Named>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove without asking
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    output: Output,
}

/// A kind that the command line names.
#[derive(Debug, Clone, Copy)]
struct Named(Kind);

impl FromStr for Named {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).map(Self).ok_or(())
    }
}

/// Shows what is on disk, and removes what is chosen.
///
/// # Errors
/// Returns an error for a directory that cannot be read or removed, or if nobody can be asked.
pub(crate) fn clean(args: &CleanArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let host = Host { places: &places, launcher };
    let usage = measure(host).map_err(Failure::new)?;
    let is_chosen = |kind: Kind| {
        if args.kinds.is_empty() {
            !kind.must_be_named()
        } else {
            args.kinds.iter().any(|named| named.0 == kind)
        }
    };
    let chosen: Vec<Usage> =
        usage.iter().copied().filter(|one| is_chosen(one.kind) && one.removable > 0).collect();
    if args.output.json {
        let rows: Vec<_> = usage
            .iter()
            .map(|one| {
                let entries = entries(host, one.kind)?;
                Ok(json!({
                    "kind": one.kind.name(),
                    "bytes": one.bytes,
                    "removable": one.removable,
                    "oldest": one.oldest.and_then(seconds),
                    "chosen": is_chosen(one.kind),
                    "entries": entries.iter().map(as_json).collect::<Vec<_>>(),
                }))
            })
            .collect::<io::Result<_>>()
            .map_err(Failure::new)?;
        print::json(&rows)?;
    } else {
        table(&usage, &is_chosen, measure_all(&places));
        for one in usage.iter().filter(|one| one.bytes > 0) {
            list(&entries(host, one.kind).map_err(Failure::new)?);
        }
    }
    if chosen.is_empty() {
        notify!("pinfold: nothing to remove");
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run || !args.yes && !agrees(&chosen)? {
        return Ok(ExitCode::SUCCESS);
    }
    for one in chosen {
        let name = one.kind.name();
        remove(host, one.kind)
            .map_err(|error| Failure::new(format!("cannot remove {name}: {error}")))?;
        notify!("pinfold: removed {name}");
    }
    Ok(ExitCode::SUCCESS)
}

fn table(usage: &[Usage], is_chosen: &dyn Fn(Kind) -> bool, all: u64) {
    let now = SystemTime::now();
    say!("{:<12} {:>10}  {:>10}  {:<12} CONTENT", "KIND", "SIZE", "REMOVABLE", "OLDEST");
    for one in usage {
        let kind = one.kind;
        let note = if one.removable > 0 && is_chosen(kind) {
            " (chosen)"
        } else if kind.must_be_named() {
            " (removed only when named)"
        } else {
            ""
        };
        say!(
            "{:<12} {:>10}  {:>10}  {:<12} {}{note}",
            kind.name(),
            Size(one.bytes).to_string(),
            Size(one.removable).to_string(),
            one.oldest.map_or("-".to_owned(), |oldest| Ago(oldest, now).to_string()),
            kind.description()
        );
    }
    let kinds = usage.iter().filter(|one| one.kind.part_of().is_none());
    let rest = all.saturating_sub(kinds.map(|one| one.bytes).sum());
    say!(
        "{:<12} {:>10}  {:>10}  {:<12} settings, secrets, trust, diaries, the audit log, sessions",
        "other",
        Size(rest).to_string(),
        "-",
        "-"
    );
}

/// Shows single things, which no other command lists.
fn list(entries: &[StoredEntry]) {
    let now = SystemTime::now();
    for entry in entries {
        let place = Escaped(entry.of.as_ref().unwrap_or(&entry.path));
        let what = match &entry.of {
            Some(_) => format!("state of {place}, which is gone"),
            None => place.to_string(),
        };
        let note = if entry.is_removable { "" } else { " (in use)" };
        let (size, age) = (Size(entry.bytes).to_string(), Ago(entry.changed, now).to_string());
        say!("{:<12} {size:>10}  {:>10}  {age:<12} {what}{note}", "", "");
    }
}

fn as_json(entry: &StoredEntry) -> serde_json::Value {
    json!({
        "path": entry.path.to_string_lossy(),
        "workspace": entry.of.as_ref().map(|path| path.to_string_lossy()),
        "bytes": entry.bytes,
        "changed": seconds(entry.changed),
        "removable": entry.is_removable,
    })
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Asks the user whether to remove what is chosen.
///
/// # Errors
/// Returns an error if there is no terminal to ask on.
fn agrees(chosen: &[Usage]) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::new("nothing was removed: there is no terminal to ask on")
            .hint(Some("`--yes` removes without asking, `--dry-run` only shows".to_owned())));
    }
    let names: Vec<&str> = chosen.iter().map(|one| one.kind.name()).collect();
    let bytes = Size(chosen.iter().map(|one| one.removable).sum());
    notify::put(format_args!("pinfold: remove {} ({bytes})? [y/N] ", names.join(", ")));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::new)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_named() {
        assert_eq!(KINDS.map(|name| name.parse::<Named>().map(|named| named.0)), Kind::ALL.map(Ok));
    }
}
