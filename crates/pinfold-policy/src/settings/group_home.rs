//! Where groups keep their files, and what else their sessions see (Pynchy's layout).

use std::fmt;
use std::path::{Component, Path};
use std::str::FromStr;

use super::error::{InvalidGroup, SettingsError};
use super::fields::{check_reserved, list, path};
use super::keys::{GROUP_HOME, GROUP_MOUNT};
use crate::document::{FileError, Item, Section};
use crate::env::{EnvName, Owner};
use crate::origin::{Origin, Valued};
use crate::path::{Escaped, HostPath, is_plain};

/// The user's `[group_home]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHome {
    /// The directory with `groups/`, `data/` and `config.toml`.
    pub root: Valued<HostPath>,
    /// Scripts for agents.
    pub scripts: Option<Valued<HostPath>>,
    /// The source of what runs agents.
    pub runner: Option<Valued<HostPath>>,
    /// The names of a group's env file that enter.
    pub env: Vec<Valued<EnvName>>,
}

/// What a group has of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFiles {
    /// What its directories are called.
    pub folder: String,
    /// A worktree that its sessions work on.
    pub repo_access: Option<Valued<HostPath>>,
    /// What else they see, as far as the allowlist lets them.
    pub mounts: Vec<Valued<GroupMount>>,
}

impl GroupFiles {
    /// Returns those of a group of which nothing is said.
    ///
    /// # Errors
    /// Returns an error for a name that is no directory's.
    pub fn of_unnamed(group: &str) -> Result<Self, InvalidGroup> {
        if is_name(group) {
            Ok(Self { folder: group.to_owned(), ..Self::default() })
        } else {
            Err(InvalidGroup(group.to_owned()))
        }
    }
}

/// Something of the host's that a group's sessions see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMount {
    /// Where it is.
    pub host: HostPath,
    /// Where it appears, below `/workspace/extra`.
    pub inside: ExtraName,
    /// Whether it may only be read.
    pub readonly: bool,
}

impl fmt::Display for GroupMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.readonly { "read-only" } else { "read-write" };
        write!(f, "{} as {} ({access})", self.host, self.inside.0.escape_debug())
    }
}

/// A path below `/workspace/extra`: relative, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraName(String);

impl ExtraName {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text names no place below `/workspace/extra`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a relative path without `.` and `..`")]
pub struct ExtraNameError;

impl FromStr for ExtraName {
    type Err = ExtraNameError;

    fn from_str(text: &str) -> Result<Self, ExtraNameError> {
        let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
        let parts = Path::new(text).components();
        let is_clean = !text.is_empty() && parts.clone().all(is_name) && text.chars().all(is_plain);
        // Repeated and final slashes would name one place in two ways.
        if is_clean && parts.map(|part| part.as_os_str().len() + 1).sum::<usize>() == text.len() + 1
        {
            Ok(Self(text.to_owned()))
        } else {
            Err(ExtraNameError)
        }
    }
}

/// Returns whether a group's name can be a directory's.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "._-".contains(one))
}

/// Returns the user's `[group_home]`.
pub(super) fn home(
    section: &Section<'_>,
    home: Option<&HostPath>,
) -> Result<Option<GroupHome>, SettingsError> {
    let Some(item) = section.get("group_home") else { return Ok(None) };
    let table = item.table(GROUP_HOME)?;
    let place = |item: &Item<'_>| Ok(Valued::new(path(item, home)?, Origin::User(item.place())));
    let env: Vec<Valued<EnvName>> = list(Some(&table), "env", Origin::User, Item::parsed)?;
    for Valued { value, origin } in &env {
        check_reserved(value, origin, Owner::Administrator)?;
    }
    Ok(Some(GroupHome {
        root: place(&table.require("root")?)?,
        scripts: table.read("scripts", place)?,
        runner: table.read("runner", place)?,
        env,
    }))
}

/// Returns what `[groups.NAME]` says of files.
pub(super) fn files_of(
    table: &Section<'_>,
    group: &str,
    home: Option<&HostPath>,
) -> Result<GroupFiles, FileError> {
    let folder = table.read("folder", |item| match item.text()? {
        folder if is_name(folder) => Ok(folder.to_owned()),
        _ => Err(item.invalid("expected the name of one directory")),
    })?;
    Ok(GroupFiles {
        folder: folder.unwrap_or_else(|| group.to_owned()),
        repo_access: table.read("repo_access", |item| {
            Ok(Valued::new(path(item, home)?, Origin::User(item.place())))
        })?,
        mounts: mounts(table, home)?,
    })
}

/// Returns a group's mounts. None lies in another: that would need a place to appear at, made on the
/// host.
fn mounts(
    table: &Section<'_>,
    home: Option<&HostPath>,
) -> Result<Vec<Valued<GroupMount>>, FileError> {
    let mounts = list(Some(table), "mounts", Origin::User, |item| mount(item, home))?;
    let names = || mounts.iter().map(|mount| &mount.value.inside.0);
    let is_in = |name: &String, other: &String| name != other && Path::new(name).starts_with(other);
    let nested = names().find_map(|name| Some((name, names().find(|other| is_in(name, other))?)));
    match (table.get("mounts"), nested) {
        (Some(item), Some((name, other))) => Err(item.invalid(format!(
            "the mount {} would lie in the mount {}",
            name.escape_debug(),
            other.escape_debug()
        ))),
        _ => Ok(mounts),
    }
}

/// Returns one of a group's mounts.
pub(super) fn mount(item: &Item<'_>, home: Option<&HostPath>) -> Result<GroupMount, FileError> {
    let table = item.table(GROUP_MOUNT)?;
    let place = table.require("host_path")?;
    let host = path(&place, home)?;
    let inside = match table.read("container_path", Item::parsed)? {
        Some(inside) => inside,
        None => {
            let name = host.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.parse().map_err(|_| {
                place.invalid(format!("say container_path for {}", Escaped(host.as_path())))
            })?
        }
    };
    Ok(GroupMount { host, inside, readonly: table.read("readonly", Item::flag)?.unwrap_or(true) })
}
