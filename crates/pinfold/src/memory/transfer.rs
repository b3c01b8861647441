//! `pinfold memory export`, `import` and `backup`.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::PathBuf;

use clap::Args;
use pinfold_mcp::Purpose;
use pinfold_memory::{
    Entry, Filter, ImportError, MOST_IMPORTED, NewEntry, entries_from_lines, entries_from_markdown,
    entry_to_json, entry_to_markdown,
};
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;

use super::diary::{DiaryArgs, Scene};
use crate::exit::Failure;
use crate::print::{plain, plain_text, put, say};

/// Entries that are read at once.
const PAGE: u32 = 100;
/// Bytes of a file at most.
const LARGEST: u64 = 256 << 20;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write Markdown for a reader
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file; without it or with `-`, standard input
    file: Option<PathBuf>,
    /// Read Markdown: a heading of the first level begins an entry
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file, which must not be there
    file: PathBuf,
    #[command(flatten)]
    diary: DiaryArgs,
}

pub(super) fn export(args: &ExportArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let Some(diary) = args.diary.existing(scene)? else {
        notify!("pinfold: no entries");
        return Ok(());
    };
    let mut offset = 0;
    loop {
        let page = diary.list(&Filter::default(), PAGE, offset)?;
        for entry in &page {
            if args.markdown {
                markdown(entry);
            } else {
                say!("{}", plain(&entry_to_json(entry, diary.id()).to_string()));
            }
        }
        if page.is_empty() {
            if offset == 0 {
                notify!("pinfold: no entries");
            }
            return Ok(());
        }
        offset += PAGE;
    }
}

fn markdown(entry: &Entry) {
    let text = entry_to_markdown(entry);
    if io::stdout().is_terminal() {
        put(format_args!("{}", plain_text(&text)));
    } else {
        put(format_args!("{text}"));
    }
}

pub(super) fn import(args: &ImportArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    let name = file.map_or_else(|| "standard input".to_owned(), |path| Escaped(path).to_string());
    let text = match file {
        Some(path) => File::open(path).and_then(bounded),
        None => bounded(io::stdin()),
    };
    let text = text.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    let at = |line: usize, error: &dyn std::fmt::Display| {
        Failure::new(format!("{name}, line {line}: {error}"))
            .hint(Some("nothing was added".to_owned()))
    };
    let read = if args.markdown { entries_from_markdown(&text) } else { entries_from_lines(&text) };
    let (lines, entries): (Vec<usize>, Vec<NewEntry>) =
        read.map_err(|(line, error)| at(line, &error))?.into_iter().unzip();
    if let Some(line) = lines.get(MOST_IMPORTED) {
        return Err(at(*line, &"there are more than 500000 entries; import them in parts"));
    }
    let secrets = scene.secrets()?;
    let diary = args.diary.open(scene, Purpose::Write)?;
    let added =
        diary.import(&entries, &secrets).map_err(|ImportError { number, added, is_unknown, error }| {
            let line = lines.get(number.saturating_sub(1)).copied().unwrap_or_default();
            let state = match (added, is_unknown) {
                (0, false) => "nothing was added".to_owned(),
                (_, false) => format!("{added} were added before; import all again for the rest"),
                (_, true) => format!(
                    "{added} were added before, and it is not known whether this one was; import all again for the rest"
                ),
            };
            let hint =
                error.hint().map_or_else(|| state.clone(), |hint| format!("{hint}; {state}"));
            Failure::new(format!("{name}, line {line}: {error}")).hint(Some(hint))
        })?;
    let there = (entries.len() as u64).saturating_sub(added);
    match there {
        0 => say!("{added} of {} entries were added", entries.len()),
        _ => say!("{added} of {} entries were added; {there} were there already", entries.len()),
    }
    Ok(())
}

fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let count = from.take(LARGEST + 1).read_to_string(&mut text)?;
    if count as u64 > LARGEST {
        let what = "it is too large: 256 MiB at most are imported at once; import it in parts";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

pub(super) fn back_up(args: &BackupArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let diary = args.diary.required_here(scene)?;
    diary.back_up(&args.file)?;
    notify!("pinfold: the copy is {}", Escaped(&args.file));
    Ok(())
}
