//! `pinfold memory ls`, `search` and `tags`.

use std::time::SystemTime;

use clap::Args;
use pinfold_memory::{DiaryStore, Entry, EntryType, Filter, Search, Weights, entry_to_json};
use pinfold_policy::path::{cut, plain_line};
use pinfold_terminal::notify;
use serde_json::{Value, json};

use super::diary::{DiaryArgs, Scene};
use super::find::short;
use super::show;
use crate::cli::{Output, choice};
use crate::exit::Failure;
use crate::print::{self, Ago, say};

/// The types of entries, for help.
pub(super) const TYPES: &[&str] = &["episodic", "semantic", "procedural", "reflection"];
/// Bytes of a title or text that a list shows.
const LONGEST: usize = 80;

#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Only entries with this tag; several may be given
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only entries without this tag; several may be given
    #[arg(long = "without", value_name = "TAG")]
    without: Vec<String>,
    /// Only entries of this type; several may be given
    #[arg(long = "type", value_name = "TYPE", value_parser = choice::<EntryType>(TYPES))]
    types: Vec<EntryType>,
    /// Also entries that others take the place of
    #[arg(long)]
    superseded: bool,
    /// Entries at most
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Entries to leave out, the first ones of the list
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    offset: u32,
}

impl FilterArgs {
    fn filter(&self) -> Filter {
        Filter {
            tags: self.tags.clone(),
            exclude_tags: self.without.clone(),
            types: self.types.clone(),
            exclude_superseded: !self.superseded,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The words; quote the query for the shell, and put it behind `--` if it begins with `-`
    query: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// How much counts how well an entry has the words, from 0 to 1
    #[arg(long, value_name = "WEIGHT", default_value_t = 1.0)]
    relevance: f64,
    /// How much counts how new it is, or how lately it was read
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    recency: f64,
    /// How much counts how important it is
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    importance: f64,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TagsArgs {
    /// Only tags that begin with this
    #[arg(default_value = "")]
    prefix: String,
    /// Only tags that so many entries have
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    least: u64,
    /// Only tags of entries of this type; several may be given
    #[arg(long = "type", value_name = "TYPE", value_parser = choice::<EntryType>(TYPES))]
    types: Vec<EntryType>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

pub(super) fn list(args: &ListArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let FilterArgs { limit, offset, .. } = args.filter;
    let diary = args.diary.existing(scene)?;
    let find = |diary: &dyn DiaryStore| diary.list(&args.filter.filter(), limit, offset);
    let entries = diary.as_deref().map(find).transpose()?.unwrap_or_default();
    print(&entries, diary.as_deref(), &args.output)
}

pub(super) fn search(args: &SearchArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let search = Search {
        query: Some(args.query.clone()),
        filter: args.filter.filter(),
        limit: args.filter.limit,
        offset: args.filter.offset,
        weights: Weights {
            relevance: args.relevance,
            recency: args.recency,
            importance: args.importance,
        },
    };
    let diary = args.diary.existing(scene)?;
    let find = |diary: &dyn DiaryStore| diary.search(&search);
    let entries = diary.as_deref().map(find).transpose()?.unwrap_or_default();
    print(&entries, diary.as_deref(), &args.output)
}

fn print(
    entries: &[Entry],
    diary: Option<&dyn DiaryStore>,
    output: &Output,
) -> Result<(), Failure> {
    if output.json {
        let entries: Vec<Value> = diary
            .map(|diary| entries.iter().map(|entry| entry_to_json(entry, diary.id())))
            .map(|entries| entries.map(|entry| show::serde(&entry)).collect())
            .unwrap_or_else(|| Ok(Vec::new()))?;
        return print::json(&json!({ "entries": entries }));
    }
    if entries.is_empty() {
        notify!("pinfold: no entries");
        return Ok(());
    }
    say!("{:8}  {:10}  {:>3}  {:>12}  TITLE", "ID", "TYPE", "IMP", "MADE");
    let now = SystemTime::now();
    for entry in entries {
        let made = Ago(entry.created_at.into(), now);
        let mark = if entry.threats.is_empty() { "" } else { "! " };
        let Entry { entry_type, importance, .. } = entry;
        let title = shown_title(entry);
        say!("{:8}  {entry_type:10}  {importance:>3}  {made:>12}  {mark}{title}", short(entry.id));
    }
    Ok(())
}

/// Returns the title of an entry on one line, or the beginning of its text.
pub(super) fn shown_title(entry: &Entry) -> String {
    let title = entry.title.as_deref().filter(|title| !title.trim().is_empty());
    let line = title.or_else(|| entry.content.lines().find(|line| !line.trim().is_empty()));
    cut(&plain_line(line.unwrap_or_default()), LONGEST).into_owned()
}

pub(super) fn tags(args: &TagsArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let find = |diary: Box<dyn DiaryStore>| diary.tags(&args.prefix, args.least, &args.types);
    let tags = args.diary.existing(scene)?.map(find).transpose()?.unwrap_or_default();
    if args.output.json {
        let tags = tags.iter().map(|tag| json!({ "tag": tag.tag, "count": tag.count }));
        return print::json(&json!({ "tags": tags.collect::<Vec<Value>>() }));
    }
    for tag in &tags {
        say!("{:>6}  {}", tag.count, plain_line(&tag.tag));
    }
    if tags.is_empty() {
        notify!("pinfold: no tags");
    }
    Ok(())
}
