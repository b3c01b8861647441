//! The repository's files, read into what they say. Nothing is merged here.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::SettingsError;
use super::fields::{env, limits, list, sub_table, whole, word};
use super::host_exec::{self, HostExecFile};
use super::keys::{self, sub_keys};
use super::network;
use super::publish::PublishedPort;
use super::values::EnvSetting;
use super::words::{BoundaryName, ShadowMode, WorkspaceMode};
use crate::document::{Document, FileError, Item, Section, SettingsFile};
use crate::env::Owner;
use crate::limits::{ByteSize, Limits, WallTime};
use crate::network::{NetworkPolicy, SecretRule};
use crate::origin::{Origin, Valued};
use crate::path::Escaped;
use crate::project::{Base, ResumeCommand, ShadowPath, Snapshot};

/// What a repository's `sandbox.json` or `sandbox.toml` says.
#[derive(Clone, Debug, Default)]
pub struct Project {
    pub(super) env: Vec<EnvSetting>,
    pub(super) limits: Limits,
    pub(super) host_exec: HostExecFile,
    pub(super) snapshot: Snapshot,
    pub(super) shadow: Vec<Valued<ShadowPath>>,
    pub(super) shadow_mode: Option<Valued<ShadowMode>>,
    pub(super) resume: Vec<Valued<ResumeCommand>>,
    pub(super) boundary: Option<Valued<BoundaryName>>,
    pub(super) network: NetworkPolicy,
    pub(super) secrets: Vec<Valued<SecretRule>>,
    pub(super) publish: Vec<Valued<PublishedPort>>,
    pub(super) workspace_mode: Option<Valued<WorkspaceMode>>,
    /// The file without its limits, as [`Document::canonical_without`] has it.
    without_limits: Vec<u8>,
}

impl Project {
    /// Reads whichever of the two files was found.
    ///
    /// # Errors
    /// Returns an error when both were, or for a mistake in the file, with line and key.
    pub fn read(files: &[SettingsFile<'_>]) -> Result<Option<Self>, SettingsError> {
        match files {
            [] => Ok(None),
            [file] => one(*file).map(Some),
            [first, second, ..] => Err(SettingsError::TwoProjectFiles {
                first: Escaped(first.path).to_string(),
                second: Escaped(second.path).to_string(),
            }),
        }
    }

    /// Returns what its snapshot begins with, if it says so.
    pub fn base(&self) -> Option<&Base> {
        self.snapshot.base.as_ref().map(|base| &base.value)
    }

    /// Returns everything that it says except its limits, as bytes that differ where what it says does.
    pub fn without_limits(&self) -> &[u8] {
        &self.without_limits
    }

    /// Returns its limits by their keys, each in the smallest unit of its kind.
    pub fn limits(&self) -> BTreeMap<String, u64> {
        let Limits { cpus, memory, pids, disk, files, timeout, build } = &self.limits;
        let bytes = |size: &Option<Valued<ByteSize>>| size.as_ref().map(|size| size.value.bytes());
        let count = |count: &Option<Valued<u64>>| count.as_ref().map(|count| count.value);
        let time = |time: &Valued<WallTime>| {
            u64::try_from(time.value.duration().as_nanos()).unwrap_or(u64::MAX)
        };
        let limits = [
            ("cpus", cpus.as_ref().map(|share| u64::from(share.value.thousandths()))),
            ("memory", bytes(memory)),
            ("pids", count(pids)),
            ("disk", bytes(disk)),
            ("files", count(files)),
            ("timeout", timeout.as_ref().map(time)),
            ("build", bytes(build)),
        ];
        limits.into_iter().filter_map(|(key, limit)| Some((key.to_owned(), limit?))).collect()
    }

    /// Returns the values of its variables, which may name files for its commands.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(|variable| variable.value.as_str())
    }

    /// Returns the commands that it has run, for a caller that looks for the files they run in turn.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        let setup = self.snapshot.setup.iter().map(|command| command.value.as_str());
        setup.chain(self.resume.iter().map(|command| command.value.run.as_str()))
    }
}

fn one(file: SettingsFile<'_>) -> Result<Project, SettingsError> {
    let document = Document::parse(file)?;
    let section = whole(&document, keys::PROJECT)?;
    let vfs = sub_table(&section, keys::PROJECT, "vfs")?;
    Ok(Project {
        env: env(&section, Origin::Project, Owner::Administrator)?,
        limits: limits(&section, Origin::Project)?,
        host_exec: host_exec::of_project(&section)?,
        snapshot: snapshot(sub_table(&section, keys::PROJECT, "snapshot")?.as_ref())?,
        shadow: list(vfs.as_ref(), "shadow", Origin::Project, Item::parsed)?,
        shadow_mode: match &vfs {
            Some(vfs) => word(vfs, "shadowMode", Origin::Project)?,
            None => None,
        },
        resume: list(Some(&section), "resumeCommands", Origin::Project, resume)?,
        boundary: word(&section, "boundary", Origin::Project)?,
        network: network::policy(&section, Origin::Project)?,
        secrets: network::secrets(&section, Origin::Project)?,
        publish: network::publish(&section, Origin::Project)?,
        workspace_mode: word(&section, "workspaceMode", Origin::Project)?,
        without_limits: document.canonical_without("resources"),
    })
}

fn snapshot(table: Option<&Section<'_>>) -> Result<Snapshot, FileError> {
    let Some(table) = table else { return Ok(Snapshot::default()) };
    Ok(Snapshot {
        base: word(table, "base", Origin::Project)?,
        setup: list(Some(table), "setupCommands", Origin::Project, command)?,
        hosts: list(Some(table), "allowedHosts", Origin::Project, Item::parsed)?,
        size: word(table, "overlaySize", Origin::Project)?,
        user: word(table, "user", Origin::Project)?,
        directories: list(Some(table), "directories", Origin::Project, Item::parsed)?,
    })
}

/// Returns a command for a shell.
fn command(item: &Item<'_>) -> Result<String, FileError> {
    match item.text()? {
        text if text.trim().is_empty() => Err(item.invalid("expected a command")),
        text => Ok(text.to_owned()),
    }
}

fn resume(item: &Item<'_>) -> Result<ResumeCommand, FileError> {
    let plain =
        |run| ResumeCommand { run, retries: 0, backoff: ResumeCommand::BACKOFF, modes: None };
    if !item.is_table() {
        return Ok(plain(command(item).map_err(|error| match item.text() {
            Ok(_) => error,
            Err(_) => item.expected("a command, or a table with `run`"),
        })?));
    }
    let table = item.table(keys::RESUME)?;
    let small = |item: &Item<'_>| {
        u32::try_from(item.whole()?).map_err(|_| item.invalid("expected at most 4294967295"))
    };
    let when = table.read("when", |item| item.table(sub_keys(keys::RESUME, "when")))?;
    let modes = when.map(|when| {
        when.read("workspaceMode", |item| item.list()?.iter().map(Item::parsed).collect())
    });
    let milliseconds = table.read("retryBackoffMs", small)?;
    Ok(ResumeCommand {
        retries: table.read("retries", small)?.unwrap_or(0),
        backoff: milliseconds
            .map_or(ResumeCommand::BACKOFF, |wait| Duration::from_millis(wait.into())),
        modes: modes.transpose()?.flatten(),
        ..plain(command(&table.require("run")?)?)
    })
}
