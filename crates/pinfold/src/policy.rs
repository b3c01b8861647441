//! Finding and reading the settings of a run.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_host::owned;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::env::EnvName;
use pinfold_policy::path::{Escaped, HostPath};
use pinfold_policy::project::Base;
use pinfold_policy::settings::{
    AgentLoop, Attendance, FlagBudget, FlagHostExec, FlagLimits, FlagNetwork, Flags, Layers,
    Settings, Trust, WrapperSetting,
};
use pinfold_session::repository::{Repository, RepositoryError, TrustStore};
use pinfold_workspace::dedicated::Dedicated;
use pinfold_workspace::workspace::{Workspace, WorkspaceError};

use crate::cli::PolicyArgs;
use crate::exit::Failure;

/// The administrator's ceiling.
const CEILING: &str = "/etc/pinfold/policy.toml";

/// A settings file that was read.
struct Found {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Found {
    fn as_file(&self) -> SettingsFile<'_> {
        SettingsFile { path: &self.path, bytes: &self.bytes }
    }
}

/// Reads a settings file that need not be there.
fn read(path: &Path) -> Result<Option<Found>, Failure> {
    let bytes = owned::read(path).map_err(|error| {
        let hint = error.hint();
        Failure::own(error).hint(hint)
    })?;
    Ok(bytes.map(|bytes| Found { path: path.to_owned(), bytes }))
}

/// The workspace of the current directory.
///
/// # Errors
/// A directory that is gone or too wide to be granted.
pub(crate) fn workspace(places: &Places) -> Result<Workspace, Failure> {
    Workspace::find(&places.home).map_err(no_workspace)
}

/// The workspace that the settings make of it.
///
/// # Errors
/// A worktree that was not made yet, or cannot be.
pub(crate) fn in_mode(
    workspace: Workspace,
    settings: &Settings,
    places: &Places,
) -> Result<Workspace, Failure> {
    workspace.in_mode(settings, &places.home).map_err(no_workspace)
}

/// The worktree that a run works in, made if it is not there, if the settings want one.
///
/// # Errors
/// It cannot be made, or what the user trusted is something else there.
pub(crate) fn dedicated(
    args: &PolicyArgs,
    workspace: &Workspace,
    settings: &Settings,
    places: &Places,
) -> Result<Option<Dedicated>, Failure> {
    let opened = Dedicated::open(workspace, settings, places);
    let Some(dedicated) = opened.map_err(|error| no_workspace(error.into()))? else {
        return Ok(None);
    };
    match check_trust(args, workspace, settings, places) {
        Ok(()) => Ok(Some(dedicated)),
        Err(failure) => {
            dedicated.take_back().map_err(|error| no_workspace(error.into()))?;
            Err(failure)
        }
    }
}

/// Settings come from where the caller stands. The files that their commands run are the
/// worktree's, and must be the ones that were trusted.
fn check_trust(
    args: &PolicyArgs,
    workspace: &Workspace,
    settings: &Settings,
    places: &Places,
) -> Result<(), Failure> {
    let repository = Repository::read(workspace, args.sandbox_config.as_deref()).map_err(told)?;
    let is_trusted = !settings.widenings.is_empty() && settings.waiting().next().is_none();
    let Some(file) = repository.file.filter(|_| is_trusted) else { return Ok(()) };
    let there = in_mode(workspace.clone(), settings, places)?;
    let base = file.base(workspace, places).map_err(told)?;
    let hash = file.hash(&there, base.as_ref()).map_err(told)?;
    let is_same = hash == file.hash(workspace, base.as_ref()).map_err(told)?;
    if is_same || TrustStore::new(places).is_trusted(&there, hash).map_err(Failure::own)? {
        return Ok(());
    }
    let file = Escaped(&file.path);
    let what = format!("what {file} runs is not the same in {} as you trusted", there.root);
    let hint = "look at it with `pinfold trust` in a checkout of that branch".to_owned();
    Err(Failure::own(what).hint(Some(hint)))
}

fn no_workspace(error: WorkspaceError) -> Failure {
    let hint = error.hint();
    Failure::own(error).hint(hint)
}

/// The settings of a run in this workspace.
///
/// # Errors
/// A file that cannot be read, or a mistake in one, with file, line, key and the way out.
pub(crate) fn settings(
    args: &PolicyArgs,
    agent: Option<&str>,
    places: &Places,
    workspace: &Workspace,
) -> Result<Settings, Failure> {
    let repository = Repository::read(workspace, args.sandbox_config.as_deref()).map_err(told)?;
    let trust = match (&args.trust_config, &repository.file) {
        (None, _) => None,
        (Some(_), None) => return Err(told(RepositoryError::NoFile)),
        (Some(given), Some(file)) => {
            file.check(workspace, places, *given).map_err(told)?;
            Some(Trust::Trusted)
        }
    };
    let files = Files::read(places)?;
    let attendance = match args.unattended || args.is_alone {
        true => Attendance::Unattended,
        false => Attendance::Attended,
    };
    let flags = flags(args, agent)?;
    let resolve = |trust| files.settings(flags.clone(), attendance, &repository, trust);
    let settings = resolve(trust.unwrap_or_default())?;
    match is_trusted(&settings, &repository, places, workspace)? {
        true => resolve(Trust::Trusted),
        false => Ok(settings),
    }
}

/// Whether something of these settings waits for trust, and the user has trusted the repository's file.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn is_trusted(
    settings: &Settings,
    repository: &Repository,
    places: &Places,
    workspace: &Workspace,
) -> Result<bool, Failure> {
    let file = repository.file.as_ref().filter(|_| settings.waiting().next().is_some());
    let Some(file) = file else { return Ok(false) };
    let base = file.base(workspace, places).map_err(told)?;
    let hash = match file.hash(workspace, base.as_ref()) {
        // It cannot be trusted, which is no reason not to run without what waits for trust.
        // `pinfold trust` says why.
        Err(RepositoryError::TooWide { .. } | RepositoryError::Read { .. }) => return Ok(false),
        hash => hash.map_err(told)?,
    };
    let store = TrustStore::new(places);
    if store.is_trusted(workspace, hash).map_err(Failure::own)? {
        return Ok(true);
    }
    let limited = file.limited(workspace, base.as_ref()).map_err(told)?;
    store.is_trusted_with_higher_limits(workspace, &limited).map_err(Failure::own)
}

/// The settings of this workspace without a flag, and with everything that its repository asks for:
/// for showing what that is.
///
/// # Errors
/// As [`settings`].
pub(crate) fn plain_settings(places: &Places, workspace: &Workspace) -> Result<Settings, Failure> {
    let repository = Repository::read(workspace, None).map_err(told)?;
    let (flags, attendance) = (flags_for(&repository), Attendance::Attended);
    Files::read(places)?.settings(flags, attendance, &repository, Trust::Trusted)
}

/// The flags under which all that a repository asks for shows: its choice of a provider is pi's alone.
pub(crate) fn flags_for(repository: &Repository) -> Flags {
    let is_pis = repository.agent_loop.as_ref().is_some_and(AgentLoop::chooses_provider);
    Flags { agent: is_pis.then(|| "pi".to_owned()), ..Flags::default() }
}

/// The workspace that this is in, if it is in one: no program that lies there is executed.
pub(crate) fn workspace_here(places: &Places) -> Vec<PathBuf> {
    let workspace = Workspace::find(&places.home).ok();
    workspace.into_iter().map(|workspace| workspace.root.into_path_buf()).collect()
}

/// What the administrator's and the user's files say, wherever this is.
///
/// # Errors
/// A file that cannot be read, or a mistake in one.
pub(crate) fn own() -> Result<Settings, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    let (flags, repository) = (Flags::default(), Repository::default());
    Files::read(&places)?.settings(flags, Attendance::Attended, &repository, Trust::default())
}

/// The wrappers of launches, which only the administrator's and the user's files name.
///
/// # Errors
/// As [`own`].
pub(crate) fn wrappers() -> Result<Vec<WrapperSetting>, String> {
    let settings = own().map_err(Failure::into_error)?;
    Ok(settings.wrappers.into_iter().map(|wrapper| wrapper.value).collect())
}

/// An error about a repository's files, with the way out.
pub(crate) fn told(error: RepositoryError) -> Failure {
    let hint = error.hint();
    Failure::own(error).hint(hint)
}

/// The files of the administrator and the user.
pub(crate) struct Files {
    ceiling: Option<Found>,
    user: Option<Found>,
    home: HostPath,
}

impl Files {
    /// Reads those that are there.
    ///
    /// # Errors
    /// One that is there and cannot be read.
    pub(crate) fn read(places: &Places) -> Result<Self, Failure> {
        Ok(Self {
            ceiling: read(CEILING.as_ref())?,
            user: read(&places.config.join("config.toml"))?,
            home: HostPath::new(&places.home).map_err(Failure::own)?,
        })
    }

    /// The settings that these, a repository's files and the flags give together.
    ///
    /// # Errors
    /// A mistake in one of them.
    pub(crate) fn settings(
        &self,
        flags: Flags,
        attendance: Attendance,
        repository: &Repository,
        trust: Trust,
    ) -> Result<Settings, Failure> {
        let layers = Layers {
            home: Some(&self.home),
            attendance,
            ceiling: self.ceiling.as_ref().map(Found::as_file),
            user: self.user.as_ref().map(Found::as_file),
            project: repository.file.as_ref().map(|file| file.project.clone()),
            trust,
            agent_loop: repository.agent_loop.clone(),
            flags,
        };
        Settings::resolve(layers).map_err(|error| {
            let hint = error.hint();
            Failure::own(error).hint(hint)
        })
    }
}

fn flags(args: &PolicyArgs, agent: Option<&str>) -> Result<Flags, Failure> {
    let paths =
        |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<Result<_, _>>();
    Ok(Flags {
        boundary: args.boundary,
        engine: args.engine,
        agent: agent.map(str::to_owned),
        model: args.model.clone(),
        provider: args.provider.clone(),
        workspace_mode: args.workspace,
        apply: args.apply,
        apply_ignored: args.apply_ignored,
        worktree_branch: args.worktree_branch.clone(),
        landlock: args.landlock,
        state: args.state,
        my_config: args.my_config,
        allow_weaker: args.allow_weaker,
        limits: FlagLimits {
            cpus: args.cpus,
            memory: args.memory,
            pids: args.pids,
            disk: args.disk,
            files: args.files,
            timeout: args.timeout,
        },
        env: args.env.iter().map(|text| variable(text)).collect::<Result<_, _>>()?,
        forward_env: args.forward_env.clone(),
        read: paths(&args.read)?,
        write: paths(&args.write)?,
        sockets: paths(&args.socket)?,
        opt_in: args.opt_in.clone(),
        group: args.group.clone(),
        base: args.base.as_ref().map(base).transpose()?,
        budget: FlagBudget {
            requests: args.budget_requests,
            tokens: args.budget_tokens,
            usd: args.budget_usd,
        },
        network: FlagNetwork {
            allow: args.allow_host.clone(),
            presets: args.allow.clone(),
            internal: args.allow_internal_host.clone(),
            intercept: args.intercept.clone(),
            publish: args.publish.clone(),
        },
        host_exec: FlagHostExec { enabled: args.host_exec, waits: args.wait_for_approvals },
        identity: args.identity.clone(),
        identity_mode: args.identity_mode,
    })
}

/// A base whose path means the same in the repository's root.
fn base(base: &Base) -> Result<Base, Failure> {
    let whole = |path: &Path| absolute(path).map(HostPath::into_path_buf);
    Ok(match base {
        Base::Directory(path) => Base::Directory(whole(path)?),
        Base::Tarball(path) => Base::Tarball(whole(path)?),
        other => other.clone(),
    })
}

fn absolute(path: &Path) -> Result<HostPath, Failure> {
    let named =
        |error: &dyn std::fmt::Display| Failure::own(format!("{}: {error}", path.display()));
    let whole = fs::canonicalize(path).map_err(|error| named(&error))?;
    HostPath::new(whole).map_err(|error| named(&error))
}

fn variable(text: &str) -> Result<(EnvName, String), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failure::own(format!("--env {text}: expected NAME=VALUE"))
            .hint(Some(format!("to let a variable of yours in, say --forward-env {text}")))
    })?;
    let name: EnvName = name.parse().map_err(Failure::own)?;
    Ok((name, value.to_owned()))
}
