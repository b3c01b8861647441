//! `pinfold memory pack`, `render` and `provenance`.

use std::io::IsTerminal as _;
use std::time::{Instant, SystemTime};

use clap::{Args, ValueEnum};
use pinfold_content::{Object, Uuid, Value, read};
use pinfold_mcp::Purpose;
use pinfold_memory::{
    CompressionLevel, DiaryStore, NewPack, Pack, Rendering, compiled_to_json, pack_to_json,
    rendered_to_json,
};
use pinfold_terminal::notify;
use serde_json::{Value as Json, json};

use super::diary::{DiaryArgs, Scene};
use super::find::{self, entry, short};
use super::{list, show};
use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, Ago, put, say};

/// Packs that are listed at most.
const MOST: u32 = 100;

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// The entries, the most prominent one first; without any, packs are listed
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Make entries shorter, the last ones first, until they have so many tokens
    #[arg(long, value_name = "TOKENS", requires = "ids")]
    budget: Option<u64>,
    /// Keep the pack; others end after 7 days
    #[arg(long, requires = "ids")]
    pin: bool,
    /// Pack entries that read like instructions to a model, too
    #[arg(long, requires = "ids")]
    force: bool,
    /// The pack that this one takes the place of
    #[arg(long, value_name = "PACK", requires = "ids")]
    supersedes: Option<String>,
    /// What to note about the pack, as a JSON object
    #[arg(long, value_name = "JSON", requires = "ids")]
    params: Option<String>,
    /// Show what the pack would be, and make none
    #[arg(long, requires = "ids")]
    preview: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Method {
    /// For a reader: in groups by scope, with rules and sources.
    Reader,
    /// Each entry with what the pack says of it.
    Plain,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// The pack, by the beginning of its id, or by its address
    pack: String,
    /// How it is written
    #[arg(long, value_enum, default_value = "reader")]
    form: Method,
    /// Keep the text in the diary; others end after 7 days
    #[arg(long)]
    pin: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ProvenanceArgs {
    /// The pack, by the beginning of its id, or by its address
    pack: String,
    /// How many packs to follow that one takes the place of, up to 10
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    depth: u32,
    #[command(flatten)]
    diary: DiaryArgs,
}

pub(super) fn pack(args: PackArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    if args.ids.is_empty() {
        return list(&args, scene);
    }
    let purpose = if args.preview { Purpose::Read } else { Purpose::Write };
    let diary = args.diary.required(scene, purpose)?;
    let new = wanted(&args, &*diary)?;
    let begun = Instant::now();
    let (id, compiled) = if args.preview {
        (None, diary.preview_pack(&new)?)
    } else {
        let (id, compiled) = diary.create_pack(&new, &scene.secrets()?)?;
        (Some(id), compiled)
    };
    if args.output.json {
        let elapsed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        return show::json(&compiled_to_json(&compiled, id, &new.params, elapsed));
    }
    if let Some(id) = id {
        say!("{}", short(id));
    }
    say!("address:    {}", compiled.cid);
    let budget = compiled.stats.budget.map(|budget| format!(" of {budget}")).unwrap_or_default();
    say!("tokens:     {}{budget}", compiled.stats.total_tokens);
    for packed in &compiled.entries {
        let (original, packed_tokens) = (packed.original_tokens, packed.packed_tokens);
        let shorter = match packed.level {
            CompressionLevel::Full => String::new(),
            level => format!(", {level} of {original}"),
        };
        say!("{:>4}  {:8}  {packed_tokens} tokens{shorter}", packed.rank, short(packed.entry));
    }
    let left_out = args.ids.len() - compiled.entries.len();
    if left_out > 0 {
        say!("{left_out} left out: they do not fit");
    }
    Ok(())
}

fn wanted(args: &PackArgs, diary: &dyn DiaryStore) -> Result<NewPack, Failure> {
    let ids: Result<Vec<Uuid>, _> = args.ids.iter().map(|begin| entry(diary, begin)).collect();
    let older = args.supersedes.as_deref().map(|named| find::pack(diary, named)).transpose()?;
    Ok(NewPack {
        params: args.params.as_deref().map(params).transpose()?.unwrap_or_default(),
        token_budget: args.budget,
        pinned: args.pin,
        force: args.force,
        supersedes: older,
        ..NewPack::new(ids?)
    })
}

fn params(text: &str) -> Result<Object, Failure> {
    match read(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::new("--params is not a JSON object")),
        Err(error) => Err(Failure::new(format!("--params is not JSON: {error}"))),
    }
}

fn list(args: &PackArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let find = |diary: Box<dyn DiaryStore>| diary.packs(MOST, 0);
    let packs = args.diary.existing(scene)?.map(find).transpose()?.unwrap_or_default();
    if args.output.json {
        let packs: Result<Vec<Json>, _> =
            packs.iter().map(|pack| show::serde(&pack_to_json(pack))).collect();
        return print::json(&json!({ "packs": packs? }));
    }
    if packs.is_empty() {
        notify!("pinfold: no packs");
        return Ok(());
    }
    say!("{:8}  {:>7}  {:>12}  {:6}  FIRST", "ID", "ENTRIES", "MADE", "PINNED");
    let now = SystemTime::now();
    for Pack { id, entries, created_at, pinned, .. } in &packs {
        let first = entries
            .iter()
            .find_map(|placed| placed.entry.as_ref())
            .map(list::shown_title)
            .unwrap_or_default();
        let pinned = if *pinned { "yes" } else { "no" };
        let made = Ago((*created_at).into(), now);
        say!("{:8}  {:>7}  {made:>12}  {pinned:6}  {first}", short(*id), entries.len());
    }
    Ok(())
}

pub(super) fn render(args: &RenderArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let diary = args.diary.required(scene, Purpose::Write)?;
    let id = find::pack(&*diary, &args.pack)?;
    let rendering = match args.form {
        Method::Reader => Rendering::local(&diary.pack(id)?),
        Method::Plain => Rendering::server(),
    };
    let rendered = diary.render_pack(id, &rendering, args.pin, &scene.secrets()?)?;
    if args.output.json {
        return show::json(&rendered_to_json(&rendered));
    }
    if std::io::stdout().is_terminal() {
        say!("{}", print::plain_text(&rendered.content));
    } else {
        // For a file or a program: its digest is over these bytes.
        put(format_args!("{}", rendered.content));
    }
    Ok(())
}

pub(super) fn provenance(args: &ProvenanceArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let diary = args.diary.required(scene, Purpose::Read)?;
    let id = find::pack(&*diary, &args.pack)?;
    show::json(&diary.provenance(id, args.depth)?)
}
