//! `pinfold memory add`.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use pinfold_mcp::Purpose;
use pinfold_memory::{EntryType, NewEntry, entry_to_json};
use pinfold_policy::path::Escaped;

use super::diary::{DiaryArgs, Scene};
use super::find::{entry, short};
use super::show;
use crate::cli::{Output, choice};
use crate::exit::Failure;
use crate::print::say;

/// Bytes of a text at most: more than the characters that an entry may have.
const LONGEST: u64 = 400_001;

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The text, in Markdown; without it or with `-`, standard input
    text: Option<String>,
    /// Read the text from this file
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// A line that says what it is about
    #[arg(long)]
    title: Option<String>,
    /// A word by which it is found; several may be given
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// How important it is, from 1 to 10
    #[arg(long, value_name = "NUMBER", default_value_t = NewEntry::IMPORTANCE)]
    importance: u8,
    /// What it is about: what happened, is known, is to be done, or follows
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = EntryType::Semantic.word(),
        value_parser = choice::<EntryType>(super::list::TYPES)
    )]
    entry_type: EntryType,
    /// An entry that this one takes the place of; several may be given
    #[arg(long, value_name = "ID")]
    supersedes: Vec<String>,
    /// Sign it with the key of --identity, which this repository has
    #[arg(long, requires = "identity")]
    sign: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

pub(super) fn add(args: AddArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let content = content(args.text, args.file)?;
    let secrets = scene.secrets()?;
    let purpose = if args.sign { Purpose::Sign } else { Purpose::Write };
    let diary = &*args.diary.open(scene, purpose)?;
    let supersedes: Result<_, _> =
        args.supersedes.iter().map(|begin| entry(diary, begin)).collect();
    let new = NewEntry {
        title: args.title,
        content,
        tags: args.tags,
        importance: args.importance,
        entry_type: args.entry_type,
        supersedes: supersedes?,
        created_at: None,
    };
    let added = diary.create(&new, &secrets)?;
    if args.output.json {
        return show::json(&entry_to_json(&added, diary.id()));
    }
    say!("{}", short(added.id));
    show::warn_of(&added);
    Ok(())
}

fn content(text: Option<String>, file: Option<PathBuf>) -> Result<String, Failure> {
    if let Some(text) = text.filter(|text| text != "-") {
        return Ok(text);
    }
    match file {
        Some(path) => {
            let read = std::fs::File::open(&path).and_then(bounded);
            read.map_err(|error| Failure::new(format!("cannot read {}: {error}", Escaped(&path))))
        }
        None => bounded(io::stdin())
            .map_err(|error| Failure::new(format!("cannot read standard input: {error}"))),
    }
}

/// Reads a text. The end of one that is too long is not read.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(LONGEST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == LONGEST {
        let what = "it is too large: an entry has 100000 characters at most";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))?;
    Ok(text.trim_end_matches('\n').to_owned())
}
