//! Programs of the user's or the administrator's that are asked about each launch.

use std::fmt;

use super::fields::{Layer, list};
use super::keys::WRAPPER;
use crate::document::{FileError, Item, Section};
use crate::origin::Valued;
use crate::path::HostPath;

/// A wrapper that is a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperSetting {
    /// Its name; who registers another under it replaces it.
    pub id: String,
    /// What is shown instead of its name.
    pub label: Option<String>,
    /// The program, by an absolute path.
    pub program: HostPath,
    pub arguments: Vec<String>,
}

impl fmt::Display for WrapperSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.id, self.program)
    }
}

/// Reads `wrappers` of the user's or the administrator's file. A repository's has none: a clone brings no
/// program that the host runs, and that sees what the host runs.
pub(super) fn of_file(
    section: &Section<'_>,
    layer: Layer,
) -> Result<Vec<Valued<WrapperSetting>>, FileError> {
    list(Some(section), "wrappers", layer, one)
}

fn one(item: &Item<'_>) -> Result<WrapperSetting, FileError> {
    let table = item.table(WRAPPER)?;
    let id = table.require("id")?;
    let words = table.require("command")?;
    let mut command = words.texts()?.into_iter();
    let program = command.next().filter(|program| program.starts_with('/')).ok_or_else(|| {
        words.invalid("expected a program by its absolute path, and then its arguments")
    })?;
    Ok(WrapperSetting {
        id: match id.text()? {
            name if is_id(name) => name.to_owned(),
            _ => return Err(id.invalid("expected letters, digits, dots, dashes and underscores")),
        },
        label: table.read("label", |item| match item.text()? {
            label if !label.is_empty() && label.chars().all(crate::path::is_plain) => {
                Ok(label.to_owned())
            }
            _ => Err(item.invalid("expected one line of text")),
        })?,
        program: HostPath::new(program).map_err(|error| words.invalid(error))?,
        arguments: command.collect(),
    })
}

/// Returns whether this is an id as the schema has it.
fn is_id(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "._-".contains(one))
}

/// Returns all of them in the order in which they are asked: the user's, and then the administrator's,
/// who has the last word. One of the administrator's replaces the user's of the same name.
pub(super) fn merged(
    user: Vec<Valued<WrapperSetting>>,
    administrator: Vec<Valued<WrapperSetting>>,
) -> Vec<Valued<WrapperSetting>> {
    let mut all: Vec<Valued<WrapperSetting>> = Vec::new();
    for one in user.into_iter().chain(administrator) {
        match all.iter_mut().find(|other| other.value.id == one.value.id) {
            Some(other) => *other = one,
            None => all.push(one),
        }
    }
    all
}
