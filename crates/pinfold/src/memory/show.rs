//! `pinfold memory show` and `rm`, and how entries are shown.

use std::time::SystemTime;

use clap::Args;
use pinfold_content::Value;
use pinfold_mcp::Purpose;
use pinfold_memory::{Entry, entry_to_json};
use pinfold_policy::path::plain_line;
use pinfold_terminal::notify;

use super::diary::{DiaryArgs, Scene};
use super::find::{entry, short};
use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, Ago, say};

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The entry, by the beginning of its id
    id: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    diary: DiaryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The entries, by the beginnings of their ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    diary: DiaryArgs,
}

pub(super) fn show(args: &ShowArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let diary = args.diary.required(scene, Purpose::Read)?;
    let found = diary.entry(entry(&*diary, &args.id)?)?;
    if args.output.json {
        return json(&entry_to_json(&found, diary.id()));
    }
    let made = Ago(found.created_at.into(), SystemTime::now());
    let Entry { id, entry_type, importance, .. } = &found;
    say!("{id}  {entry_type}, importance {importance}, made {made}");
    if let Some(title) = &found.title {
        say!("title:      {}", plain_line(title));
    }
    if !found.tags.is_empty() {
        let tags: Vec<_> = found.tags.iter().map(|tag| plain_line(tag)).collect();
        say!("tags:       {}", tags.join(", "));
    }
    say!("address:    {}", found.cid);
    let claim = found.claim.iter().map(|claim| (claim, ", as the server says"));
    for (signature, whence) in found.signature.iter().map(|signature| (signature, "")).chain(claim)
    {
        let identity = plain_line(&signature.identity);
        say!("signed by:  {} (identity {identity}){whence}", signature.fingerprint());
    }
    if found.is_superseded {
        say!("superseded: another entry takes its place");
    }
    for threat in &found.threats {
        say!(
            "careful:    reads like an instruction to a model: {}",
            plain_line(&threat.to_string())
        );
    }
    say!("\n{}", print::plain_text(&found.content));
    Ok(())
}

pub(super) fn remove(args: &RemoveArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let diary = args.diary.required(scene, Purpose::Remove)?;
    let ids: Result<Vec<_>, _> = args.ids.iter().map(|begin| entry(&*diary, begin)).collect();
    for id in ids? {
        diary.remove(id)?;
        notify!("pinfold: removed: {}", short(id));
    }
    Ok(())
}

/// Says what of an entry reads like an instruction to a model.
pub(super) fn warn_of(entry: &Entry) {
    for threat in &entry.threats {
        notify!(
            "pinfold: warning: the entry reads like an instruction to a model: {}",
            plain_line(&threat.to_string())
        );
    }
}

/// Prints a value.
pub(super) fn json(value: &Value) -> Result<(), Failure> {
    print::json(&serde(value)?)
}

/// Returns a value as the rest of the command line has values.
pub(super) fn serde(value: &Value) -> Result<serde_json::Value, Failure> {
    serde_json::from_str(&value.to_string()).map_err(Failure::new)
}
