//! A group's `containerConfig` as Pynchy keeps it (a row of `registered_groups`), in our words.

use std::fmt::Write as _;
use std::time::Duration;

use super::SettingsError;
use super::group_home::{GroupFiles, GroupMount, mount};
use super::keys::CONTAINER_CONFIG;
use crate::document::{Document, Item, SettingsFile};
use crate::limits::WallTime;
use crate::path::HostPath;

/// What a `containerConfig` (JSON) says, as what to put into `config.toml` for this group.
///
/// # Errors
/// A name that is no group's, or a mistake in the JSON.
pub fn import_group(
    file: SettingsFile<'_>,
    group: &str,
    home: Option<&HostPath>,
) -> Result<String, SettingsError> {
    GroupFiles::of_unnamed(group)?;
    let document = Document::parse(file)?;
    let section = Item::of_document(&document).table(CONTAINER_CONFIG)?;
    let timeout = section.read("timeout", Item::count)?;
    let mounts = section.read("additional_mounts", |item| {
        item.list()?.iter().map(|item| mount(item, home)).collect::<Result<Vec<_>, _>>()
    })?;
    let group = quoted(group);
    let mut text = format!("[groups.{group}]\n");
    // Writing to a string does not fail.
    if let Some(timeout) = timeout {
        let timeout = WallTime::new(Duration::from_millis(timeout));
        let _ = writeln!(text, "timeout = \"{timeout}\"");
    }
    for GroupMount { host, inside, readonly } in mounts.into_iter().flatten() {
        let (host, inside) = (quoted(&host.as_path().to_string_lossy()), quoted(inside.as_str()));
        let _ = writeln!(text, "\n[[groups.{group}.mounts]]\nhost_path = {host}");
        let _ = writeln!(text, "container_path = {inside}\nreadonly = {readonly}");
    }
    Ok(text)
}

/// As TOML has text.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
