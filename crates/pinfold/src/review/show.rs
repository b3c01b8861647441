//! `pinfold diff`.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pinfold_host::launcher::Launcher;
use pinfold_patch::{Printer, Texts, quoted};
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;
use pinfold_workspace::review::{Change, Changes, Content, Left, Review, What};
use serde_json::json;

use super::{Chosen, choose};
use crate::cli::Output;
use crate::exit::{Failure, takes_colours};
use crate::print;

#[derive(Debug, Args)]
#[command(override_usage = "pinfold diff [OPTIONS] [SESSION] [PATH…]")]
pub(crate) struct DiffArgs {
    /// The session, by the beginning of its id (by default the newest here), and the paths to show
    /// (by default all)
    #[arg(value_name = "SESSION|PATH")]
    words: Vec<OsString>,
    /// Show how many lines changed per file
    #[arg(long, conflicts_with_all = ["name_only", "json"])]
    stat: bool,
    /// Show only paths
    #[arg(long, conflicts_with = "json")]
    name_only: bool,
    /// Do not use a pager
    #[arg(long)]
    no_pager: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn diff(args: &DiffArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let Chosen { review, paths, .. } = choose(&args.words, launcher)?;
    let changes = review.changes()?;
    let chosen: Vec<&Change> = changes.of(&paths).collect();
    if args.output.json {
        let rows: Vec<_> = chosen.iter().map(|change| row(change)).collect();
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_terminal = io::stdout().is_terminal();
    let notes = notes(&review, &changes, &paths);
    let renamed: HashSet<&Path> =
        chosen.iter().filter_map(|change| change.renamed_from.as_deref()).collect();
    let written = with_output(is_terminal && !args.no_pager, launcher, |out| {
        let mut printer = Printer { out, is_terminal, colours: is_terminal && takes_colours() };
        if is_terminal {
            notes.iter().try_for_each(|note| printer.note(note))?;
        }
        if args.name_only {
            return shown(&changes, &paths)
                .iter()
                .try_for_each(|change| writeln!(printer.out, "{}", quoted("", &change.path)));
        }
        if args.stat {
            let shown = shown(&changes, &paths);
            let shown: Vec<&Change> = shown
                .into_iter()
                .filter(|change| !renamed.contains(change.path.as_path()))
                .collect();
            return stat(&review, &shown, &mut printer);
        }
        let is_file = |change: &&&Change| !change.is_directory() && !change.is_never_taken();
        let files = chosen.iter().filter(is_file);
        for change in files.filter(|change| !renamed.contains(change.path.as_path())) {
            printer.change(change, &texts(&review, change)?)?;
        }
        Ok(())
    });
    match written {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.map_err(Failure::new)?,
    }
    if !is_terminal {
        for note in notes {
            notify!("pinfold: {note}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to standard output, or to the user's pager.
fn with_output(
    paged: bool,
    launcher: &Launcher,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let set = ["GIT_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
    let line = set.as_deref().unwrap_or(OsStr::new("less -FRX"));
    // As git has it: these show nothing page by page.
    if !paged || line.is_empty() || line == "cat" {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        return out.flush();
    }
    let mut pager = launcher.pager(line)?;
    let written = match pager.stdin.take() {
        Some(input) => {
            let mut out = BufWriter::new(input);
            write(&mut out).and_then(|()| out.flush())
        }
        None => Ok(()),
    };
    pager.wait()?;
    written
}

/// Returns what both sides hold.
fn texts(review: &Review, change: &Change) -> io::Result<Texts> {
    let content = |after| review.content(change, after).map_err(io::Error::other);
    let side = |after| -> io::Result<Option<Vec<u8>>> {
        Ok(match content(after)? {
            Some(Content::Bytes(bytes)) => Some(bytes),
            Some(Content::TooLarge) | None => None,
        })
    };
    let is_whole = |after| Ok::<_, io::Error>(content(after)? != Some(Content::TooLarge));
    Ok(Texts {
        before: side(false)?,
        after: side(true)?,
        whole: is_whole(false)? && is_whole(true)?,
    })
}

/// Returns the changes to list: a directory that is new or gone speaks through what lies in it.
fn shown<'c>(changes: &'c Changes, paths: &'c [PathBuf]) -> Vec<&'c Change> {
    let mut shown: Vec<&Change> = Vec::new();
    for change in changes.of(paths) {
        if let Some(last) = shown.last()
            && last.is_directory()
            && last.what != What::Mode
            && change.path.starts_with(&last.path)
        {
            shown.pop();
        }
        shown.push(change);
    }
    shown
}

fn stat(review: &Review, shown: &[&Change], printer: &mut Printer<'_>) -> io::Result<()> {
    let (mut added, mut removed, mut files) = (0, 0, 0);
    let name = |change: &&Change| {
        let from = change.renamed_from.as_deref().map(|from| quoted("", from) + " => ");
        from.unwrap_or_default() + &quoted("", &change.path)
    };
    let names: Vec<String> = shown.iter().map(name).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(60);
    for (change, name) in shown.iter().zip(&names) {
        if change.is_directory() {
            writeln!(printer.out, " {name:<width$} | directory {}", change.what.word())?;
            continue;
        }
        if change.is_never_taken() {
            writeln!(printer.out, " {name:<width$} | left")?;
            continue;
        }
        if change.renamed_from.is_some() {
            // Only what holds the same is taken for renamed.
            writeln!(printer.out, " {name:<width$} |     0")?;
            files += 1;
            continue;
        }
        let (more, less) = printer.count(name, width, &texts(review, change)?)?;
        (added, removed, files) = (added + more, removed + less, files + 1);
    }
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    writeln!(printer.out, " {files} changed, {added} lines added, {removed} lines removed")
}

/// Returns what a patch does not say.
fn notes(review: &Review, changes: &Changes, paths: &[PathBuf]) -> Vec<String> {
    let mut notes = Vec::new();
    for change in changes.of(paths) {
        let path = Escaped(&change.path);
        if let Some(conflict) = change.conflict {
            notes.push(format!("{path}: also {} outside of the session", conflict.words()));
        }
        if change.is_of_attributes() {
            notes.push(format!("{path}: its extended attributes are others"));
        }
        if change.loses_bits() {
            notes.push(format!("{path}: `apply` takes no set-user-id or set-group-id bit"));
        }
    }
    for change in changes.left(paths) {
        let path = Escaped(&change.path);
        match &change.left {
            Some(Left::Protected(protected)) => {
                notes.push(format!("{path}: `apply` leaves it: {}", protected.reason));
            }
            Some(Left::Never(why)) => notes.push(format!("{path}: `apply` leaves it: {why}")),
            None => {}
        }
    }
    if review.has_commits() {
        notes.push("the session also made commits or references; `apply` takes them over".into());
    }
    notes
}

fn row(change: &Change) -> serde_json::Value {
    let octal = |mode: Option<u32>| mode.map(|mode| format!("{mode:06o}"));
    let (before, after) = change.modes();
    let (left, reason) = match &change.left {
        None => (None, None),
        Some(Left::Protected(protected)) => (Some("protected"), Some(protected.reason.as_str())),
        Some(Left::Never(why)) => (Some("never"), Some(*why)),
    };
    json!({
        "path": Escaped(&change.path).to_string(),
        "change": change.what.word(),
        "mode_before": octal(before),
        "mode_after": octal(after),
        "renamed_from": change.renamed_from.as_ref().map(|from| Escaped(from).to_string()),
        "conflict": change.conflict.map(|conflict| conflict.words()),
        "left": left,
        "reason": reason,
    })
}
