//! A group's `containerConfig` as Pynchy keeps it (a row of `registered_groups`), in our words.

use std::fmt::Write as _;
use std::time::Duration;

use super::SettingsError;
use super::group_home::{GroupFiles, GroupMount, mount};
use super::keys::CONTAINER_CONFIG;
use crate::document::{Document, Item, SettingsFile};
use crate::limits::WallTime;
use crate::path::HostPath;

/// Returns what a `containerConfig` (JSON) says, as what to put into `config.toml` for this group.
///
/// # Errors
/// Returns an error for a name that is no group's, or a mistake in the JSON.
pub fn import_group(
    file: SettingsFile<'_>,
    group: &str,
    home: Option<&HostPath>,
) -> Result<String, SettingsError> {
    GroupFiles::of_unnamed(group)?;
    let document = Document::parse(file)?;
    let mut text = format!("[groups.{}]\n", quoted(group));
    append_config(&mut text, &Item::of_document(&document), group, home)?;
    Ok(text)
}

/// Returns what rows of `registered_groups` say, as `sqlite3 -json` prints them. Each becomes a group
/// that is called as its folder; what settings have no word for follows as a comment.
///
/// # Errors
/// Returns an error for a folder that is no group's name, or twice there, or a mistake in the JSON.
pub fn import_groups(
    file: SettingsFile<'_>,
    home: Option<&HostPath>,
) -> Result<String, SettingsError> {
    // Documents are tables.
    let bytes = [b"{\"rows\":", file.bytes, b"}"].concat();
    let document = Document::parse(SettingsFile { bytes: &bytes, ..file })?;
    let whole = Item::of_document(&document).map()?;
    let (mut text, mut seen) = (String::new(), Vec::new());
    for row in whole.require("rows")?.list()? {
        let row = row.map()?;
        let folder = row.require("folder")?;
        let group = folder.text()?;
        GroupFiles::of_unnamed(group)?;
        if seen.contains(&group) {
            return Err(folder.invalid("another row has this folder").into());
        }
        seen.push(group);
        let _ = writeln!(text, "[groups.{}]", quoted(group));
        let (mut config, mut left) = (None, Vec::new());
        for item in row.items().filter(|item| item.name() != "folder" && !item.is_null()) {
            match item.name() {
                "container_config" | "containerConfig" => config = Some(item),
                name => left.push((name.to_owned(), shown(&item))),
            }
        }
        for (name, value) in left {
            let _ = writeln!(text, "# not imported: {name:?} = {value}");
        }
        match config {
            // The column has JSON as text.
            Some(item) if !item.is_table() => {
                let path = std::path::Path::new("containerConfig.json");
                let bytes = item.text()?.as_bytes();
                let document = Document::parse(SettingsFile { path, bytes })?;
                append_config(&mut text, &Item::of_document(&document), group, home)?;
            }
            Some(item) => append_config(&mut text, &item, group, home)?,
            None => {}
        }
        text.push('\n');
    }
    Ok(text)
}

/// Returns a value in a comment: on one line.
fn shown(item: &Item<'_>) -> String {
    match (item.text(), item.number(), item.flag()) {
        // Not as TOML has it, which may need several lines: each one would be a setting.
        (Ok(text), ..) => format!("{text:?}"),
        (_, Ok(number), _) => number.to_string(),
        (.., Ok(flag)) => flag.to_string(),
        _ => "(a list or table)".to_owned(),
    }
}

/// Appends what a `containerConfig` says.
fn append_config(
    text: &mut String,
    config: &Item<'_>,
    group: &str,
    home: Option<&HostPath>,
) -> Result<(), SettingsError> {
    let section = config.table(CONTAINER_CONFIG)?;
    let timeout = section.read("timeout", Item::count)?;
    let mounts = section.read("additional_mounts", |item| {
        item.list()?.iter().map(|item| mount(item, home)).collect::<Result<Vec<_>, _>>()
    })?;
    let group = quoted(group);
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
    Ok(())
}

/// Quotes text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
