//! `pinfold ps`, `diff`, `apply` and `discard`: what sessions changed in views of workspaces.

mod decide;
mod list;
mod show;

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::Escaped;
use pinfold_workspace::review::{Review, Summary};

pub(crate) use decide::{ApplyArgs, DiscardArgs, apply, discard};
pub(crate) use list::{PsArgs, ps};
pub(crate) use show::{DiffArgs, diff};

use crate::exit::Failure;

/// How many digits of a session's name are enough to be one.
const FEWEST: usize = 4;

/// The session that is meant, and the paths in its workspace.
pub(crate) struct Chosen {
    pub(crate) places: Places,
    pub(crate) review: Review,
    pub(crate) paths: Vec<PathBuf>,
}

/// Finds the session that words of a command line mean: the first one may be the beginning of its
/// name; else it is the newest that worked on the current directory. The others are paths.
///
/// # Errors
/// Returns an error if there is no such session, several of them, or a path outside of its workspace.
pub(crate) fn choose(words: &[OsString], launcher: &Launcher) -> Result<Chosen, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let sessions = Review::sessions(&places)?;
    let here = std::env::current_dir().map_err(Failure::new)?;
    let named = match words.first().and_then(|word| word.to_str()) {
        Some(word) => by_name(&sessions, word)?,
        None => None,
    };
    let (summary, paths) = match named {
        Some(summary) => (summary, &words[1..]),
        None => {
            let of_here = |summary: &&Summary| here.starts_with(&summary.workspace);
            (sessions.iter().find(of_here).ok_or_else(|| none_here(&sessions))?, words)
        }
    };
    let base = if here.starts_with(&summary.workspace) { &here } else { &summary.workspace };
    let paths = paths
        .iter()
        .map(|path| beneath(&summary.workspace, base, Path::new(path)))
        .collect::<Result<_, _>>()?;
    let review = Review::open(Host { places: &places, launcher }, &summary.session)?;
    review.report_resumed();
    Ok(Chosen { places, review, paths })
}

fn by_name<'s>(sessions: &'s [Summary], word: &str) -> Result<Option<&'s Summary>, Failure> {
    let is_name = word.len() >= FEWEST && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_name {
        return Ok(None);
    }
    let mut found = sessions.iter().filter(|summary| summary.session.starts_with(word));
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(Failure::new(format!("several sessions begin with {word}"))
            .hint(Some("name more of it; `pinfold ps --all` lists them".to_owned()))),
        (None, _) if word.len() == "0123456789ab".len() => {
            Err(Failure::no_session(format!("no session {word} has changes to review"))
                .hint(Some("`pinfold ps --all` lists them".to_owned())))
        }
        (found, _) => Ok(found),
    }
}

fn none_here(sessions: &[Summary]) -> Failure {
    if sessions.is_empty() {
        return Failure::new("no session has changes to review")
            .hint(Some("a run with --workspace overlay leaves some".to_owned()));
    }
    let list: Vec<String> = sessions
        .iter()
        .map(|summary| format!("{} ({})", summary.session, Escaped(&summary.workspace)))
        .collect();
    Failure::new("no session with changes worked on the current directory")
        .hint(Some(format!("name one of: {}", list.join(", "))))
}

/// Returns a path as a user writes it, relative to the workspace.
fn beneath(workspace: &Path, base: &Path, path: &Path) -> Result<PathBuf, Failure> {
    let escapes = || Failure::new(format!("path escapes workspace: {}", Escaped(path)));
    let mut whole = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    Ok(whole.strip_prefix(workspace).map_err(|_| escapes())?.to_owned())
}
