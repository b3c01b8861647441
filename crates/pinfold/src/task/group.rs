//! `pinfold task group`: the groups of the user's `config.toml`.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pinfold_groups::{GroupEditError, NewGroup, groups_of, with_group, without_group};
use pinfold_host::directories::Places;
use pinfold_host::owned;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::limits::WallTime;
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::settings::{FlagScalars, Flags, GroupTrust, Layers, Settings};
use pinfold_terminal::notify;
use serde_json::{Map, Value, json};

use super::list::shown;
use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, say};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Add a group to config.toml
    Add(AddArgs),
    /// List the groups of config.toml
    Ls(Output),
    /// Show the settings of a group
    Show(ShowArgs),
    /// Remove a group from config.toml; its directory stays
    Rm(NameArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The group's name
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    group: NameArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    group: NameArgs,
    /// How far its sessions are trusted; member by default
    #[arg(long)]
    trust: Option<GroupTrust>,
    /// Its directories' name; the group's by default
    #[arg(long, value_name = "NAME")]
    folder: Option<String>,
    /// Wall-clock time of its sessions, such as 10m
    #[arg(long, value_name = "TIME")]
    timeout: Option<WallTime>,
    /// How many of its tasks are worked on at once; 1 by default
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: Option<u32>,
}

pub(super) fn group(command: GroupCommand, places: &Places) -> Result<(), Failure> {
    match command {
        GroupCommand::Add(args) => {
            let name = args.group.name;
            let group = NewGroup {
                trust: args.trust.map(|trust| trust.to_string()),
                folder: args.folder,
                timeout: args.timeout.map(|timeout| timeout.to_string()),
                concurrency: args.concurrency,
            };
            edit(places, Some(&name), |text| with_group(text, &name, &group))?;
            notify!("pinfold: added group {name}");
        }
        GroupCommand::Ls(output) => {
            let groups = groups(places)?;
            if output.json {
                return print::json(&json!({ "groups": groups }));
            }
            if groups.is_empty() {
                notify!("pinfold: no groups");
                return Ok(());
            }
            say!("{:24}  {:6}  {:>7}  FOLDER", "NAME", "TRUST", "AT ONCE");
            for (name, group) in &groups {
                let trust = text_of(group.get("trust"), "member");
                let (at_once, folder) =
                    (text_of(group.get("concurrency"), "1"), text_of(group.get("folder"), name));
                say!("{:24}  {trust:6}  {at_once:>7}  {folder}", shown(name));
            }
        }
        GroupCommand::Show(args) => {
            let name = args.group.name;
            let group = groups(places)?
                .remove(&name)
                .ok_or_else(|| GroupEditError::Missing(name.clone()))?;
            if args.output.json {
                return print::json(&json!({ "name": name, "settings": group }));
            }
            say!("{}", shown(&name));
            for (key, value) in group.as_object().into_iter().flatten() {
                say!("{:12} {}", format!("{}:", shown(key)), text_of(Some(value), ""));
            }
        }
        GroupCommand::Rm(NameArgs { name }) => {
            edit(places, None, |text| without_group(text, &name))?;
            notify!("pinfold: removed group {name}; its directory, if it has one, stays");
        }
    }
    Ok(())
}

fn text_of(value: Option<&Value>, otherwise: &str) -> String {
    let text = match value {
        None => otherwise.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    shown(&text)
}

fn groups(places: &Places) -> Result<Map<String, Value>, Failure> {
    let (path, text) = read(places)?;
    check(places, &path, &text, None)?;
    Ok(groups_of(&text)?)
}

/// Returns where the settings are, through links that the user made, and what they say.
fn read(places: &Places) -> Result<(PathBuf, String), Failure> {
    let path = places.config.join("config.toml");
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {error}", Escaped(&path)))
    };
    let real = match fs::canonicalize(&path) {
        Ok(real) => real,
        // A link to nothing stays a link: what it is for may come back, such as a disk.
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => path.clone(),
        Err(error) => return Err(cannot(&error)),
    };
    let bytes = owned::read(&real).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    let text = String::from_utf8(bytes.unwrap_or_default()).map_err(|error| cannot(&error))?;
    Ok((real, text))
}

/// Checks settings as every run does, with a group chosen if one is named.
fn check(places: &Places, path: &Path, text: &str, group: Option<&str>) -> Result<(), Failure> {
    let home = HostPath::new(&places.home).map_err(Failure::new)?;
    let user = Some(SettingsFile { path, bytes: text.as_bytes() });
    let scalars = FlagScalars { group: group.map(str::to_owned), ..FlagScalars::default() };
    let flags = Flags { scalars, ..Flags::default() };
    let resolved =
        Settings::resolve(Layers { home: Some(&home), user, flags, ..Layers::default() });
    resolved.map(drop).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })
}

/// Puts changed settings in the place of the user's, if they are right.
fn edit(
    places: &Places,
    group: Option<&str>,
    change: impl FnOnce(&str) -> Result<String, GroupEditError>,
) -> Result<(), Failure> {
    Places::make_private(&places.config).map_err(Failure::new)?;
    let next = read(places)?.0.with_extension("toml.next");
    let cannot =
        |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", Escaped(&next)));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next).map_err(
        |error| match error.kind() {
            ErrorKind::AlreadyExists => cannot(error).hint(Some(
                "another edit is at work, or was killed: then remove the file".to_owned(),
            )),
            _ => cannot(error),
        },
    )?;
    // From here on no other edit is made, so what is read stays.
    let edited = read(places).and_then(|(path, before)| {
        let text = change(&before)?;
        check(places, &path, &text, group)?;
        put(file, &next, &path, [&before, &text]).map_err(cannot)
    });
    if edited.is_err() {
        let _ = fs::remove_file(&next);
    }
    edited
}

fn put(mut file: File, next: &Path, path: &Path, texts: [&str; 2]) -> std::io::Result<()> {
    let [before, after] = texts;
    match fs::metadata(path) {
        // A new file would be the caller's, and its owner could not read it.
        Ok(old) if old.uid() != file.metadata()?.uid() => {
            return Err(std::io::Error::other(format!("{} is another user's", Escaped(path))));
        }
        Ok(old) => file.set_permissions(fs::Permissions::from_mode(old.permissions().mode()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.write_all(after.as_bytes())?;
    file.sync_all()?;
    // An editor takes no notice of the file that keeps other edits out.
    match fs::read(path) {
        Ok(now) if now == before.as_bytes() => {}
        Err(error) if error.kind() == ErrorKind::NotFound && before.is_empty() => {}
        Ok(_) => {
            return Err(std::io::Error::other(format!(
                "{} changed at the same time",
                Escaped(path)
            )));
        }
        Err(error) => return Err(error),
    }
    fs::rename(next, path)
}

impl From<GroupEditError> for Failure {
    fn from(error: GroupEditError) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::put;

    #[test]
    fn text_that_an_editor_saved_during_an_edit_stays() {
        let directory = tempfile::tempdir().unwrap();
        let [next, path] =
            ["config.toml.next", "config.toml"].map(|name| directory.path().join(name));
        let edit = |before| put(File::create(&next).unwrap(), &next, &path, [before, "new"]);
        edit("").unwrap();
        fs::write(&path, "of an editor").unwrap();
        assert!(edit("new").unwrap_err().to_string().contains("changed at the same time"));
        assert!(edit("").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "of an editor");
        fs::remove_file(&path).unwrap();
        assert!(edit("new").is_err());
    }
}
