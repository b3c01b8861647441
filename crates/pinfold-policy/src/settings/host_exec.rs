//! Commands that the sandbox may ask the host to run: which, when nobody is asked, and how long.

use std::time::Duration;

use super::ceiling::Ceiling;
use super::error::SettingsError;
use super::fields::{Layer, list, sub_table, word};
use super::keys;
use crate::document::{FileError, Item, Section};
use crate::limits::WallTime;
use crate::origin::{Origin, Valued};
use crate::project::{ApprovalRule, AutoApprove, is_executable};

/// Executables that everybody's list has (MoltNet's).
pub const LISTED: [&str; 3] = ["git", "gh", "moltnet"];

/// What one file says of commands on the host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostExecFile {
    pub(super) enabled: Option<Valued<bool>>,
    pub(super) executables: Vec<Valued<String>>,
    pub(super) on_path: Vec<Valued<String>>,
    pub(super) approve: Vec<Valued<AutoApprove>>,
    pub(super) timeout: Option<Valued<WallTime>>,
    pub(super) patience: Option<Valued<WallTime>>,
    pub(super) waits: Option<Valued<bool>>,
    /// Where the table is, if there is one.
    pub(super) said: Option<Origin>,
}

/// What the settings say of commands that the sandbox asks the host to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostExec {
    /// Whether the sandbox can ask at all: if anybody who may has said anything about it.
    pub enabled: Valued<bool>,
    /// Executables that may be asked for in addition to [`LISTED`].
    pub executables: Vec<Valued<String>>,
    /// Names that are found along `PATH` inside and ask the host.
    pub on_path: Vec<Valued<String>>,
    /// How long a command may run on the host.
    pub timeout: Valued<WallTime>,
    /// How long a user may take to answer; then it is denied.
    pub patience: Valued<WallTime>,
    /// Whether a request waits for an answer although nobody is there who could give one now.
    pub waits: Valued<bool>,
}

impl HostExec {
    /// How long a command may run by default (MoltNet's).
    pub const TIMEOUT: WallTime = WallTime::new(Duration::from_secs(60));
    /// How long a user may take by default.
    pub const PATIENCE: WallTime = WallTime::new(Duration::from_secs(5 * 60));
}

impl Default for HostExec {
    /// Returns settings in which the sandbox cannot ask.
    fn default() -> Self {
        Self {
            enabled: Valued::default_of(false),
            executables: Vec::new(),
            on_path: Vec::new(),
            timeout: Valued::default_of(Self::TIMEOUT),
            patience: Valued::default_of(Self::PATIENCE),
            waits: Valued::default_of(false),
        }
    }
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum HostExecVerdict<'a> {
    /// The executable is on no list.
    NotListed,
    /// This rule allows it.
    Allowed(&'a Valued<AutoApprove>),
    /// A user has to be asked.
    Ask,
}

/// What the command line says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagHostExec {
    /// `--host-exec`.
    pub enabled: bool,
    /// `--wait-for-approvals`.
    pub waits: bool,
}

/// Reads `hostExec` of the user's file.
pub(super) fn of_user(section: &Section<'_>) -> Result<HostExecFile, FileError> {
    let Some(table) = sub_table(section, keys::USER, "hostExec")? else {
        return Ok(HostExecFile::default());
    };
    let flag = |key| {
        table.read(key, |item: &Item<'_>| Ok(Valued::new(item.flag()?, Origin::User(item.place()))))
    };
    Ok(HostExecFile {
        enabled: flag("enabled")?,
        timeout: word(&table, "timeout", Origin::User)?,
        patience: word(&table, "approvalTimeout", Origin::User)?,
        waits: flag("waitForApprovals")?,
        said: section.get("hostExec").map(|item| Origin::User(item.place())),
        ..shared(&table, Origin::User)?
    })
}

/// Reads `hostExec` of a repository's file.
pub(super) fn of_project(section: &Section<'_>) -> Result<HostExecFile, FileError> {
    let table = sub_table(section, keys::PROJECT, "hostExec")?;
    table.map_or(Ok(HostExecFile::default()), |table| shared(&table, Origin::Project))
}

fn shared(table: &Section<'_>, layer: Layer) -> Result<HostExecFile, FileError> {
    Ok(HostExecFile {
        executables: list(Some(table), "executables", layer, executable)?,
        on_path: list(Some(table), "onPath", layer, executable)?,
        approve: table.read("autoApprove", |item| approve(item, layer))?.unwrap_or_default(),
        ..HostExecFile::default()
    })
}

/// Reads `autoApprove`: nothing for `false`, which is what holds without it.
fn approve(item: &Item<'_>, layer: Layer) -> Result<Vec<Valued<AutoApprove>>, FileError> {
    let valued = |item: &Item<'_>, what| Valued::new(what, layer(item.place()));
    if !item.is_list() {
        let all = item.flag().map_err(|_| item.expected("true, false or a list of rules"))?;
        return Ok(if all { vec![valued(item, AutoApprove::All)] } else { Vec::new() });
    }
    let rule = |item: &Item<'_>| Ok(valued(item, AutoApprove::Rule(approval(item)?)));
    item.list()?.iter().map(rule).collect()
}

fn approval(item: &Item<'_>) -> Result<ApprovalRule, FileError> {
    let table = item.table(keys::APPROVAL)?;
    let texts = |key| Ok(table.read(key, Item::texts)?.unwrap_or_default());
    Ok(ApprovalRule {
        executable: executable(&table.require("executable")?)?,
        args: table.read("args", Item::texts)?,
        prefix: texts("argsPrefix")?,
        contains: texts("argsContains")?,
        excludes: texts("argsExcludes")?,
    })
}

/// Returns the name of an executable, which is looked for along a `PATH`.
fn executable(item: &Item<'_>) -> Result<String, FileError> {
    match item.text()? {
        name if is_executable(name) => Ok(name.to_owned()),
        _ => Err(item.invalid("expected the name of an executable, without a slash")),
    }
}

/// Puts the layers together. What the repository's file says has been checked against its trust.
pub(super) fn merged(
    user: HostExecFile,
    project: HostExecFile,
    flags: FlagHostExec,
    ceiling: &Ceiling,
) -> Result<(HostExec, Vec<Valued<AutoApprove>>), SettingsError> {
    let flag = |is_set: bool, name| is_set.then(|| Valued::new(true, Origin::Flag { name }));
    let approve: Vec<_> = user.approve.into_iter().chain(project.approve).collect();
    let executables: Vec<_> = user.executables.into_iter().chain(project.executables).collect();
    let on_path: Vec<_> = user.on_path.into_iter().chain(project.on_path).collect();
    let by_project = approve.first().map(|one| &one.origin);
    let names = executables.iter().chain(&on_path).map(|one| &one.origin);
    let said = user
        .said
        .as_ref()
        .or(by_project)
        .into_iter()
        .chain(names)
        .next()
        .map(|origin| Valued::new(true, origin.clone()));
    let enabled = flag(flags.enabled, "--host-exec")
        .or(flag(flags.waits, "--wait-for-approvals"))
        .or(user.enabled)
        .or(said)
        .unwrap_or(HostExec::default().enabled);
    if enabled.value {
        ceiling.check_host_exec(&enabled.origin)?;
    }
    for name in &executables {
        ceiling.check_executable(name)?;
    }
    let waits = flag(flags.waits, "--wait-for-approvals").or(user.waits);
    let default = HostExec::default();
    let host_exec = HostExec {
        enabled,
        executables,
        on_path,
        timeout: user.timeout.unwrap_or(default.timeout),
        patience: user.patience.unwrap_or(default.patience),
        waits: waits.unwrap_or(default.waits),
    };
    Ok((host_exec, approve))
}
