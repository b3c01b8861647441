//! The settings of a run: what front end, files and repository say, and how much of that is trusted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::Host;
use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_host::launcher::left_out_by_parent;
use pinfold_host::sessions::writable;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{AgentLoop, Attendance, FlagScalars, Flags, Settings, Trust};
use pinfold_repository::{Repository, RepositoryError, TrustStore};
use pinfold_worktree::workspace::{Workspace, WorkspaceError, trees_around};

use super::presence::Presence;
use super::settings_files::SettingsFiles;
use crate::outcome::RunError;

/// What a front end asks for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Settings by flags.
    pub flags: Flags,
    /// Who answers.
    pub presence: Presence,
    /// The file that is read in place of the repository's.
    pub sandbox_config: Option<PathBuf>,
    /// The hash of the content that is trusted in this run.
    pub trust_config: Option<ContentHash>,
}

/// Finds the workspace of the current directory.
///
/// # Errors
/// Returns an error for a directory that is gone or too wide to be granted.
pub fn workspace(places: &Places) -> Result<Workspace, RunError> {
    Workspace::find(&places.home).map_err(no_workspace)
}

/// Returns the workspace that the settings make of it.
///
/// # Errors
/// Returns an error for a worktree that was not made yet, or cannot be.
pub fn in_mode(
    workspace: Workspace,
    settings: &Settings,
    host: Host<'_>,
) -> Result<Workspace, RunError> {
    workspace.in_mode(settings, host).map_err(no_workspace)
}

/// Returns the directories whose programs are not executed by name, since sessions may have written there: the working
/// trees around the current directory, whose environment may be the activated one, what sessions that are not settled
/// may write to, and what the pinfold that started this one leaves out. Without a home nothing around is the user's own, and
/// there are no sessions.
#[must_use]
pub fn left_out(places: Option<&Places>) -> Vec<PathBuf> {
    let home = places.map_or(Path::new(""), |places| &places.home);
    let around = here().map(|here| trees_around(&here, home)).unwrap_or_default();
    let of_sessions = places.map(writable).unwrap_or_default();
    [around, of_sessions, left_out_by_parent()].concat()
}

/// Returns the current directory, or where it was if a session has removed it.
fn here() -> Option<PathBuf> {
    let gone = || {
        let path = fs::read_link("/proc/self/cwd").ok()?.into_os_string().into_vec();
        let path = path.strip_suffix(b" (deleted)").map(<[u8]>::to_vec).unwrap_or(path);
        Some(PathBuf::from(OsString::from_vec(path)))
    };
    std::env::current_dir().ok().or_else(gone)
}

pub(super) fn no_workspace(error: WorkspaceError) -> RunError {
    let hint = error.hint();
    RunError::refused(error, hint)
}

/// Returns the settings of a run in this workspace.
///
/// # Errors
/// Returns a file that cannot be read, or a mistake in one, with file, line, key and a hint.
pub(super) fn settings(
    asked: &Asked,
    places: &Places,
    workspace: &Workspace,
) -> Result<Settings, RunError> {
    let repository = Repository::read(workspace, asked.sandbox_config.as_deref())?;
    let trust = match (asked.trust_config, &repository.file) {
        (None, _) => None,
        (Some(_), None) => return Err(RepositoryError::NoFile.into()),
        (Some(given), Some(file)) => {
            file.check(workspace, places, given)?;
            Some(Trust::Trusted)
        }
    };
    let files = SettingsFiles::read(places)?;
    let attendance = asked.presence.attendance();
    let resolve = |trust| files.settings(asked.flags.clone(), attendance, &repository, trust);
    let settings = resolve(trust.unwrap_or_default())?;
    if is_trusted(&settings, &repository, places, workspace)? {
        resolve(Trust::Trusted)
    } else {
        Ok(settings)
    }
}

/// Returns whether something of these settings waits for trust, and the user has trusted the
/// repository's file.
///
/// # Errors
/// Returns an error for a file that cannot be read.
pub(super) fn is_trusted(
    settings: &Settings,
    repository: &Repository,
    places: &Places,
    workspace: &Workspace,
) -> Result<bool, RunError> {
    let file = repository.file.as_ref().filter(|_| settings.waiting().next().is_some());
    let Some(file) = file else { return Ok(false) };
    let base = file.base(workspace, places)?;
    let hash = match file.hash(workspace, base.as_ref()) {
        // It cannot be trusted, which is no reason not to run without what waits for trust.
        // `pinfold trust` says why.
        Err(RepositoryError::TooWide { .. } | RepositoryError::Read { .. }) => return Ok(false),
        hash => hash?,
    };
    let store = TrustStore::new(places);
    if store.is_trusted(workspace, hash).map_err(RunError::System)? {
        return Ok(true);
    }
    let limited = file.limited(workspace, base.as_ref())?;
    store.is_trusted_with_higher_limits(workspace, &limited).map_err(RunError::System)
}

/// Returns the settings of this workspace without a flag, and with everything that its repository asks for:
/// for showing what that is.
///
/// # Errors
/// Returns the errors of [`Preparation::find`](super::Preparation::find).
pub fn plain_settings(places: &Places, workspace: &Workspace) -> Result<Settings, RunError> {
    let repository = Repository::read(workspace, None)?;
    everything(&repository, Trust::Trusted, places)
}

/// Returns the settings under which all that a repository asks for shows: its choice of a provider is pi's
/// alone.
///
/// # Errors
/// Returns the errors of [`Preparation::find`](super::Preparation::find).
pub fn everything(
    repository: &Repository,
    trust: Trust,
    places: &Places,
) -> Result<Settings, RunError> {
    let is_pis = repository.agent_loop.as_ref().is_some_and(AgentLoop::chooses_provider);
    let scalars = FlagScalars { agent: is_pis.then(|| "pi".to_owned()), ..FlagScalars::default() };
    let flags = Flags { scalars, ..Flags::default() };
    SettingsFiles::read(places)?.settings(flags, Attendance::Attended, repository, trust)
}

/// Settings come from where the caller stands. The files that their commands run are the worktree's, `there`, and must be the
/// ones that were trusted. Returns it.
pub(super) fn check_trust(
    asked: &Asked,
    workspace: &Workspace,
    there: Workspace,
    settings: &Settings,
    places: &Places,
) -> Result<Workspace, RunError> {
    let repository = Repository::read(workspace, asked.sandbox_config.as_deref())?;
    let is_trusted = !settings.widenings.is_empty() && settings.waiting().next().is_none();
    let Some(file) = repository.file.filter(|_| is_trusted) else { return Ok(there) };
    let base = file.base(workspace, places)?;
    let hash = file.hash(&there, base.as_ref())?;
    let is_same = hash == file.hash(workspace, base.as_ref())?;
    if is_same || TrustStore::new(places).is_trusted(&there, hash).map_err(RunError::System)? {
        return Ok(there);
    }
    let file = Escaped(&file.path);
    let what = format!("what {file} runs is not the same in {} as you trusted", there.root);
    let hint = "look at it with `pinfold trust` in a checkout of that branch".to_owned();
    Err(RunError::refused(what, Some(hint)))
}

impl From<RepositoryError> for RunError {
    fn from(error: RepositoryError) -> Self {
        let hint = error.hint();
        Self::refused(error, hint)
    }
}
