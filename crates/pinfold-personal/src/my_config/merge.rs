//! Keys of the user's files in files that pinfold generates.

use std::path::Path;

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::InsidePath;
use pinfold_rootfs::userland::HOME;
use serde_json::{Map, Value};

use crate::refusal;
use pinfold_host::Refusal;

/// Whether a file that has to be made for a key is made at each start, or once and then the agent's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    AtEachStart,
    Once,
}

/// A text that is neither JSON nor TOML.
#[derive(Debug)]
pub(super) struct NotParsed;

/// Reads a key of a JSON or TOML file.
///
/// # Errors
/// Returns an error for a text that cannot be parsed.
pub(super) fn value(path: &Path, bytes: &[u8], key: &str) -> Result<Option<Value>, NotParsed> {
    let whole: Value = parsed(path, bytes)?;
    Ok(key.split('.').try_fold(&whole, |value, key| value.get(key)).cloned())
}

fn parsed(path: &Path, bytes: &[u8]) -> Result<Value, NotParsed> {
    if is_toml(path) {
        let text = std::str::from_utf8(bytes).map_err(|_| NotParsed)?;
        toml::from_str(text).map_err(|_| NotParsed)
    } else {
        serde_json::from_slice(bytes).map_err(|_| NotParsed)
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Puts a key into a generated file, which is made if it is missing.
///
/// # Errors
/// Returns an error for a generated file that is no table.
pub(super) fn put(
    files: &mut Vec<Entry>,
    into: &Path,
    key: &str,
    value: Value,
    made: Made,
) -> Result<(), Refusal> {
    let path = InsidePath::new(Path::new(HOME).join(into)).map_err(Refusal::new)?;
    let found = files.iter_mut().find(|entry| entry.path == path);
    let broken = || {
        let what = format!("the generated file {} is not a table", into.display());
        refusal(what, Some("run without --my-config".to_owned()))
    };
    let Some(entry) = found else {
        let content = with(into, b"", key, value).ok_or_else(broken)?;
        let keep = made == Made::Once;
        files.push(Entry { path, place: Place::File { content, mode: 0o600, keep } });
        return Ok(());
    };
    let Place::File { content, .. } = &mut entry.place else { return Err(broken()) };
    *content = with(into, content, key, value).ok_or_else(broken)?;
    Ok(())
}

fn with(path: &Path, content: &[u8], key: &str, value: Value) -> Option<Vec<u8>> {
    let mut whole = match content {
        [] => Value::Object(Map::new()),
        content => parsed(path, content).ok()?,
    };
    let mut place = &mut whole;
    for key in key.split('.') {
        let table = place.as_object_mut()?;
        place = table.entry(key).or_insert_with(|| Value::Object(Map::new()));
    }
    *place = value;
    if is_toml(path) {
        toml::to_string(&whole).ok().map(String::into_bytes)
    } else {
        serde_json::to_vec(&whole).ok()
    }
}
