//! Merging the layers into the settings of one run.

use std::fmt::Display;
use std::mem;

use super::agent_loop::AgentLoop;
use super::ceiling::{at_least, at_most};
use super::effective::Settings;
use super::error::SettingsError;
use super::fields::check_reserved;
use super::group_home::GroupFiles;
use super::host_exec::{self, HostExec};
use super::layers::{Attendance, FlagLimits, Flags, Layers, Trust};
use super::project::Project;
use super::read::{self, CeilingFile, UserFile, UserFiles};
use super::scalars::{Scalars, flag};
use super::values::{EnvSetting, FileSettings};
use super::widen::{self, Asked};
use super::words::{AgentState, ApplyMode, BoundaryName, GroupTrust, ShadowMode, WorkspaceMode};
use super::{budget, group, network, wrapper};
use crate::env::{EnvName, Owner};
use crate::glob::Glob;
use crate::limits::Limits;
use crate::origin::{Origin, Valued};
use crate::path::HostPath;
use crate::project::{Base, Snapshot};

impl Settings {
    /// Reads the files and merges all layers.
    ///
    /// # Errors
    /// Returns an error when a file has a mistake, a value passes the administrator's ceiling, a
    /// repository needs a stronger wall than was chosen, or a reserved variable is set.
    pub fn resolve(layers: Layers<'_>) -> Result<Self, SettingsError> {
        let Layers { home, attendance, ceiling, user, project, trust, agent_loop, flags } = layers;
        let ceiling = ceiling.map_or_else(|| Ok(CeilingFile::default()), read::ceiling)?;
        let user = user.map_or_else(|| Ok(UserFile::default()), |file| read::user(file, home))?;
        let (project, agent_loop) = (project.unwrap_or_default(), agent_loop.unwrap_or_default());
        merge(ceiling, user, project, trust, agent_loop, flags, attendance)
    }
}

fn merge(
    ceiling: CeilingFile,
    mut user: UserFile,
    mut project: Project,
    trust: Trust,
    agent_loop: AgentLoop,
    mut flags: Flags,
    attendance: Attendance,
) -> Result<Settings, SettingsError> {
    let mut asked = Asked::new(trust);
    let shared = widen::shared(&mut asked, &mut user, &mut project, &flags.network)?;
    let CeilingFile {
        ceiling,
        deny: denied,
        env: managed,
        budget: allotted,
        group_trust: trusted,
        wrappers,
    } = ceiling;
    let flag_files = FileFlags::take(&mut flags, attendance);
    let wrappers = wrapper::merged(mem::take(&mut user.wrappers), wrappers);
    let mut scalars = Scalars::merged(flags.scalars, mem::take(&mut user.scalars));
    let group = scalars.group.as_ref();
    let Chosen { trust: group_trust, files: group_files } =
        Chosen::group(group, &mut user, trusted.as_ref())?;
    // Without a key nobody logs in.
    let logs_in = user.ssh.key.is_some() || scalars.identity.is_some();
    let hosts = user.ssh.hosts.iter().filter(|_| logs_in);
    let publish = network::published(shared.publish, &mut flags.network);
    let mut network = network::merged(shared.network, hosts, flags.network);
    for secret in &shared.secrets {
        group::admit(&mut network, secret, group, &group_trust);
    }
    let group_name = group.map(|group| group.value.as_str());
    let budgets = budget::merged(user.budgets, group_name, flags.budget, allotted);
    add_agent_loop(&mut scalars, agent_loop, project.boundary, &mut asked)?;
    scalars.landlock = at_least("landlock", scalars.landlock, ceiling.landlock.as_ref())?;
    complete_workspace(&mut scalars, project.workspace_mode, attendance);
    let mut settings = Settings {
        scalars,
        shadow: project.shadow,
        shadow_mode: project.shadow_mode.unwrap_or(Valued::default_of(ShadowMode::Tmpfs)),
        limits: limits(&user.limits, &ceiling.limits, &project.limits, &mut asked, flags.limits)?,
        env: env(asked.env(project.env, user.env), flags.env, managed)?,
        forward_env: forward_env(user.forward_env, flags.forward_env)?,
        files: files(user.files, flag_files, denied),
        publish,
        network,
        secrets: shared.secrets,
        diary: user.diary,
        ssh: user.ssh,
        providers: user.providers.into_iter().collect(),
        budgets,
        group_trust,
        group_home: user.group_home,
        group_files,
        prices: user.prices,
        group_concurrency: group::concurrencies(&user.groups),
        task_rules: user.task_rules,
        task_database: user.task_database,
        snapshot: snapshot(flag("--base", flags.base), project.snapshot, &mut asked),
        resume: Vec::new(),
        host_exec: HostExec::default(),
        ask: user.ask.with_flag(flags.ask),
        approve: Vec::new(),
        wrappers,
        widenings: Vec::new(),
        ceiling,
    };
    let host_exec = asked.host_exec(project.host_exec, &user.host_exec);
    (settings.host_exec, settings.approve) =
        host_exec::merged(user.host_exec, host_exec, flags.host_exec, &settings.ceiling)?;
    settings.resume = asked.resume(project.resume, &settings);
    settings.widenings = asked.widenings;
    if let Some(narrowing) = flags.narrowing {
        narrowing.apply(&mut settings)?;
    }
    settings.check_ceiling()?;
    // A session that may use a service may use any name for its machine.
    settings.network = settings.network.with_names_of_this_machine();
    Ok(settings)
}

/// What the chosen group brings.
struct Chosen {
    trust: Valued<GroupTrust>,
    files: Option<GroupFiles>,
}

impl Chosen {
    /// Finds what the group brings, and sets its time limit.
    fn group(
        group: Option<&Valued<String>>,
        user: &mut UserFile,
        trusted: Option<&Valued<GroupTrust>>,
    ) -> Result<Self, SettingsError> {
        let trust = group::trust(group, &user.groups, trusted)?;
        let named = group::named(group, &user.groups);
        let files = match (group, &user.group_home) {
            (Some(group), Some(_)) => Some(group::files(group, named, &user.groups)?),
            _ => None,
        };
        if let Some(timeout) = named.and_then(|group| group.timeout.clone()) {
            user.limits.timeout = Some(timeout);
        }
        Ok(Self { trust, files })
    }
}

/// Adds what Ralph's file says, and the boundaries that it and the repository's file ask for.
fn add_agent_loop(
    scalars: &mut Scalars,
    agent_loop: AgentLoop,
    project: Option<Valued<BoundaryName>>,
    asked: &mut Asked,
) -> Result<(), SettingsError> {
    // Ralph's choice of a model is pi's alone.
    let is_pi = scalars.agent.as_ref().is_some_and(|agent| agent.value == "pi");
    let agent_loop = if is_pi { agent_loop } else { AgentLoop::default() };
    let given = scalars.provider.as_ref().map(|provider| provider.value.as_str());
    let AgentLoop { boundary, provider, model } = asked.agent_loop(agent_loop, given);
    scalars.boundary = widen::boundary(scalars.boundary.take(), [project, boundary])?;
    scalars.model = scalars.model.take().or(model);
    scalars.provider = scalars.provider.take().or(provider);
    Ok(())
}

/// Sets what neither a flag nor the user's file says of the workspace. A user who watches sees what happens to the checkout;
/// otherwise it waits for a look.
fn complete_workspace(
    scalars: &mut Scalars,
    project: Option<Valued<WorkspaceMode>>,
    attendance: Attendance,
) {
    let is_flag = matches!(scalars.workspace_mode.origin, Origin::Flag { .. });
    if let (false, Some(branch)) = (is_flag, &scalars.worktree_branch) {
        let origin = branch.origin.clone();
        scalars.workspace_mode = Valued::new(WorkspaceMode::DedicatedWorktree, origin);
    }
    let is_unattended = attendance == Attendance::Unattended;
    if !scalars.workspace_mode.origin.is_chosen() {
        let unset = if is_unattended { WorkspaceMode::Overlay } else { WorkspaceMode::SharedMount };
        scalars.workspace_mode = project.unwrap_or(Valued::default_of(unset));
    }
    if is_unattended && !scalars.apply.origin.is_chosen() {
        scalars.apply = Valued::default_of(ApplyMode::Auto);
    }
}

/// Returns what the sandbox's system is made from.
fn snapshot(base: Option<Valued<Base>>, project: Snapshot, asked: &mut Asked) -> Snapshot {
    let Some(base) = base else { return asked.snapshot(project) };
    // What the repository names instead needs nobody's trust.
    let further = asked.snapshot(Snapshot { base: None, ..project });
    Snapshot { base: Some(base), ..further }
}

/// Returns a setting that a flag can only turn on, and that is off where nobody says anything.
fn switch(name: &'static str, is_on: bool, file: Option<Valued<bool>>) -> Valued<bool> {
    flag(name, is_on.then_some(true)).or(file).unwrap_or(Valued::default_of(false))
}

/// What each layer says about one limit.
struct Limit<'a, T> {
    key: &'static str,
    user: &'a Option<Valued<T>>,
    default: Option<Valued<T>>,
    project: &'a Option<Valued<T>>,
    flag: Option<Valued<T>>,
    ceiling: &'a Option<Valued<T>>,
}

impl<T: Copy + Ord + Display> Limit<'_, T> {
    /// Returns the user's or the default under the ceiling; the repository may lower that, or raise it
    /// once it is trusted; a flag replaces all of it, under the ceiling again.
    fn resolve(self, asked: &mut Asked) -> Result<Option<Valued<T>>, SettingsError> {
        let ceiling = self.ceiling.as_ref();
        let given = at_most(self.key, self.user.clone().or(self.default), ceiling)?;
        let files = match (self.project, given) {
            (Some(project), Some(given)) if project.value > given.value => {
                let asks = format!("use {} instead of {given}", project.value);
                // What a flag says replaces both, so only then is there nothing to ask for.
                let raises = self.flag.is_none() && asked.one(self.key, asks, &project.origin);
                Some(if raises { project.clone() } else { given })
            }
            (Some(project), _) => Some(project.clone()),
            (None, given) => given,
        };
        at_most(self.key, self.flag.or(files), ceiling)
    }
}

fn limits(
    user: &Limits,
    ceiling: &Limits,
    project: &Limits,
    asked: &mut Asked,
    flags: FlagLimits,
) -> Result<Limits, SettingsError> {
    let default = Limits::defaults();
    macro_rules! limit {
        ($field:ident, $key:literal, $flag:expr) => {
            Limit {
                key: $key,
                user: &user.$field,
                default: default.$field,
                project: &project.$field,
                flag: $flag,
                ceiling: &ceiling.$field,
            }
            .resolve(asked)?
        };
    }
    Ok(Limits {
        cpus: limit!(cpus, "resources.cpus", flag("--cpus", flags.cpus)),
        memory: limit!(memory, "resources.memory", flag("--memory", flags.memory)),
        pids: limit!(pids, "resources.pids", flag("--pids", flags.pids)),
        disk: limit!(disk, "resources.disk", flag("--disk", flags.disk)),
        files: limit!(files, "resources.files", flag("--files", flags.files)),
        timeout: limit!(timeout, "resources.timeout", flag("--timeout", flags.timeout)),
        build: limit!(build, "resources.build", None),
    })
}

fn env(
    mut settings: Vec<EnvSetting>,
    flags: Vec<(EnvName, String)>,
    managed: Vec<EnvSetting>,
) -> Result<Vec<EnvSetting>, SettingsError> {
    for (name, value) in flags {
        let origin = Origin::Flag { name: "--env" };
        check_reserved(&name, &origin, Owner::Administrator)?;
        settings.push(EnvSetting { name, value, origin });
    }
    settings.extend(managed);
    Ok(settings)
}

fn forward_env(
    mut names: Vec<Valued<EnvName>>,
    flags: Vec<EnvName>,
) -> Result<Vec<Valued<EnvName>>, SettingsError> {
    for name in flags {
        let origin = Origin::Flag { name: "--forward-env" };
        check_reserved(&name, &origin, Owner::Administrator)?;
        names.push(Valued::new(name, origin));
    }
    Ok(names)
}

/// The part of the flags that concerns files.
struct FileFlags {
    read: Vec<HostPath>,
    write: Vec<HostPath>,
    sockets: Vec<HostPath>,
    opt_in: Vec<String>,
    state: Option<AgentState>,
    my_config: bool,
    /// What becomes of the agent's state when nobody says it.
    unset_state: AgentState,
}

impl FileFlags {
    fn take(flags: &mut Flags, attendance: Attendance) -> Self {
        Self {
            read: mem::take(&mut flags.read),
            write: mem::take(&mut flags.write),
            sockets: mem::take(&mut flags.sockets),
            opt_in: mem::take(&mut flags.opt_in),
            state: flags.state,
            my_config: flags.my_config,
            unset_state: match attendance {
                Attendance::Attended => AgentState::Repository,
                Attendance::Unattended => AgentState::Ephemeral,
            },
        }
    }
}

fn files(user: UserFiles, flags: FileFlags, denied: Vec<Valued<Glob>>) -> FileSettings {
    fn both<T>(user: Vec<Valued<T>>, flags: Vec<T>, name: &'static str) -> Vec<Valued<T>> {
        let flags = flags.into_iter().map(|value| Valued::new(value, Origin::Flag { name }));
        user.into_iter().chain(flags).collect()
    }
    let unset = Valued::default_of(flags.unset_state);
    FileSettings {
        read: both(user.read, flags.read, "--read"),
        write: both(user.write, flags.write, "--write"),
        deny: user.deny.into_iter().chain(denied).collect(),
        sockets: both(user.sockets, flags.sockets, "--socket"),
        opt_in: both(user.opt_in, flags.opt_in, "--opt-in"),
        state: flag("--state", flags.state).or(user.state).unwrap_or(unset),
        my_config: switch("--my-config", flags.my_config, user.my_config),
    }
}
