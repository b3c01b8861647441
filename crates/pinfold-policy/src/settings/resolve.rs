//! Merging the layers into the settings of one run.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::agent_loop::AgentLoop;
use super::branch::BranchName;
use super::budget::{self, Budget};
use super::ceiling::{Ceiling, at_least, at_most};
use super::error::SettingsError;
use super::group_home::{GroupFiles, GroupHome};
use super::host_exec::{self, HostExec};
use super::layers::{Attendance, FlagLimits, Flags, Layers, Trust};
use super::project::Project;
use super::publish::PublishedPort;
use super::read::{self, CeilingFile, UserFile, UserFiles, check_reserved};
use super::url::BaseUrl;
use super::widen::{self, Asked};
use super::words::{
    AgentState, ApplyMode, BoundaryName, EngineName, GroupTrust, IdentityMode, LandlockMode,
    ShadowMode, WorkspaceMode,
};
use super::wrapper::{self, WrapperSetting};
use super::{group, network};
use crate::agents::{Api, CloudName};
use crate::env::{EnvName, Owner};
use crate::glob::Glob;
use crate::limits::Limits;
use crate::network::{HostPattern, NetworkPolicy, NetworkRule, Ports, SecretRule};
use crate::origin::{Origin, Valued};
use crate::path::HostPath;
use crate::prices::Price;
use crate::project::{AutoApprove, ResumeCommand, ShadowPath, Snapshot, Widening};
use crate::ssh::SshSettings;

/// A variable set in a file or on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSetting {
    /// The name, which is free for the layer that set it.
    pub name: EnvName,
    /// The value.
    pub value: String,
    /// Who set it; [`Origin`] tells the layer.
    pub origin: Origin,
}

/// Grants and denials beyond the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// Paths granted for reading and running.
    pub read: Vec<Valued<HostPath>>,
    /// Paths granted in full.
    pub write: Vec<Valued<HostPath>>,
    /// Names hidden in every granted directory, the administrator's included.
    pub deny: Vec<Valued<Glob>>,
    /// Unix sockets that stay reachable.
    pub sockets: Vec<Valued<HostPath>>,
    /// Protections that are lifted.
    pub opt_in: Vec<Valued<String>>,
    /// What becomes of the agent's own state.
    pub state: Valued<AgentState>,
    /// Whether the user's own setup of the agent enters.
    pub my_config: Valued<bool>,
}

/// What holds for a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Its base URL, instead of its own.
    pub base_url: Option<Valued<BaseUrl>>,
    /// What a provider of the user's own speaks.
    pub api: Option<Valued<Api>>,
    /// The variable with the key of a provider of the user's own.
    pub env_var_name: Option<Valued<EnvName>>,
    /// Whether it needs no key.
    pub keyless: Option<Valued<bool>>,
    /// The region of Bedrock or Vertex.
    pub region: Option<Valued<CloudName>>,
    /// The project of Vertex.
    pub project: Option<Valued<CloudName>>,
    /// The models that may be asked for; all if absent. A name that ends in `*` stands for all
    /// that begin so.
    pub models: Option<Valued<Vec<String>>>,
    /// Headers that choose an account: names and values.
    pub account: Vec<(String, Valued<String>)>,
}

/// The settings of one run, each with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it runs; the first usable one if absent.
    pub boundary: Option<Valued<BoundaryName>>,
    /// What runs it if it is a container; the first that is installed if absent.
    pub engine: Option<Valued<EngineName>>,
    /// The program that makes the boundary `external`.
    pub plugin: Option<Valued<HostPath>>,
    /// The agent.
    pub agent: Option<Valued<String>>,
    /// The model.
    pub model: Option<Valued<String>>,
    /// The provider.
    pub provider: Option<Valued<String>>,
    /// Whether Landlock may be missing.
    pub landlock: Valued<LandlockMode>,
    /// Whether a wall that is missing is let pass.
    pub allow_weaker: Valued<bool>,
    /// How the workspace enters.
    pub workspace_mode: Valued<WorkspaceMode>,
    /// What becomes of a view's changes at the end.
    pub apply: Valued<ApplyMode>,
    /// Whether ignored files are applied, too, when changes are applied at the end.
    pub apply_ignored: Valued<bool>,
    /// The branch of a dedicated worktree.
    pub worktree_branch: Option<Valued<BranchName>>,
    /// Paths of the workspace that are replaced inside.
    pub shadow: Vec<Valued<ShadowPath>>,
    /// What is there instead.
    pub shadow_mode: Valued<ShadowMode>,
    /// The limits.
    pub limits: Limits,
    /// Variables set by files and flags, in no particular order of layers.
    pub env: Vec<EnvSetting>,
    /// The caller's variables that enter.
    pub forward_env: Vec<Valued<EnvName>>,
    /// Grants and denials.
    pub files: FileSettings,
    /// What may be reached.
    pub network: NetworkPolicy,
    /// Where the host can reach ports inside: the port is the same on both sides.
    pub publish: Vec<Valued<PublishedPort>>,
    /// Secrets that the sandbox has placeholders for.
    pub secrets: Vec<Valued<SecretRule>>,
    /// Whose name the sandbox works in.
    pub identity: Option<Valued<String>>,
    /// How that identity's secrets are used.
    pub identity_mode: Valued<IdentityMode>,
    /// The key that signs for the sandbox, unless an identity has one.
    pub ssh: SshSettings,
    /// What holds for providers, by provider.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The group whose budget counts.
    pub group: Option<Valued<String>>,
    /// How far the session is trusted.
    pub group_trust: Valued<GroupTrust>,
    /// Where groups keep their files.
    pub group_home: Option<GroupHome>,
    /// What the group has of files, if groups have any.
    pub group_files: Option<GroupFiles>,
    /// What may be used of models; every one of them counts.
    pub budgets: Vec<Budget>,
    /// The user's own prices of models.
    pub prices: BTreeMap<String, Price>,
    /// What the sandbox's system is made from.
    pub snapshot: Snapshot,
    /// What runs inside before the command.
    pub resume: Vec<Valued<ResumeCommand>>,
    /// What the sandbox may ask the host to run.
    pub host_exec: HostExec,
    /// What the host runs for the sandbox without asking.
    pub approve: Vec<Valued<AutoApprove>>,
    /// Programs that are asked about each launch, in order.
    pub wrappers: Vec<Valued<WrapperSetting>>,
    /// What the repository's file asks for beyond what its user gives.
    pub widenings: Vec<Widening>,
    /// What remains to be checked when workspace, agent and boundary are known.
    pub ceiling: Ceiling,
}

impl Settings {
    /// Reads the files and merges all layers.
    ///
    /// # Errors
    /// When a file has a mistake, a value passes the administrator's ceiling, a repository needs a
    /// stronger wall than was chosen, or a reserved variable is set.
    pub fn resolve(layers: Layers<'_>) -> Result<Self, SettingsError> {
        let Layers { home, attendance, ceiling, user, project, trust, agent_loop, flags } = layers;
        let ceiling = ceiling.map_or_else(|| Ok(CeilingFile::default()), read::ceiling)?;
        let user = user.map_or_else(|| Ok(UserFile::default()), |file| read::user(file, home))?;
        let repository = (project.unwrap_or_default(), trust, agent_loop.unwrap_or_default());
        merge(ceiling, user, repository, flags, attendance)
    }
}

fn merge(
    mut ceiling: CeilingFile,
    mut user: UserFile,
    (mut project, trust, agent_loop): (Project, Trust, AgentLoop),
    mut flags: Flags,
    attendance: Attendance,
) -> Result<Settings, SettingsError> {
    let mut asked = Asked::new(trust);
    let shared = widen::shared(&mut asked, &mut user, &mut project, &flags.network)?;
    let managed = std::mem::take(&mut ceiling.env);
    let denied = std::mem::take(&mut ceiling.deny);
    let allotted = ceiling.budget.take();
    let wrappers = wrapper::merged(user.wrappers, std::mem::take(&mut ceiling.wrappers));
    let group = flag("--group", flags.group).or(user.group);
    let group_trust = group::trust(group.as_ref(), &user.groups, ceiling.group_trust.as_ref())?;
    let named = group::named(group.as_ref(), &user.groups);
    let group_files = match (&group, &user.group_home) {
        (Some(group), Some(_)) => Some(group::files(group, named, &user.groups)?),
        _ => None,
    };
    if let Some(timeout) = named.and_then(|group| group.timeout.clone()) {
        user.limits.timeout = Some(timeout);
    }
    let ceiling = Ceiling::of(ceiling);
    // Without a key nobody logs in.
    let logs_in = user.ssh.key.is_some() || flags.identity.is_some();
    let hosts = user.ssh.hosts.iter().filter(|_| logs_in);
    let publish = network::published(shared.publish, &mut flags.network);
    let mut network = network::merged(shared.network, hosts, flags.network);
    for secret in &shared.secrets {
        group::admit(&mut network, secret, group.as_ref(), &group_trust);
    }
    let best_effort = Valued::default_of(LandlockMode::BestEffort);
    let landlock = flag("--landlock", flags.landlock).or(user.landlock).unwrap_or(best_effort);
    let worktree_branch = flag("--worktree-branch", flags.worktree_branch);
    let dedicated = |branch: &Valued<BranchName>| {
        Valued::new(WorkspaceMode::DedicatedWorktree, branch.origin.clone())
    };
    // A user who watches sees what happens to the checkout; otherwise it waits for a look.
    let (unset, unset_apply, unset_state) = match attendance {
        Attendance::Attended => {
            (WorkspaceMode::SharedMount, ApplyMode::Never, AgentState::Repository)
        }
        Attendance::Unattended => (WorkspaceMode::Overlay, ApplyMode::Auto, AgentState::Ephemeral),
    };
    let agent = flag("AGENT", flags.agent).or(user.agent);
    // Ralph's choice of a model is pi's alone.
    let is_pi = agent.as_ref().is_some_and(|agent| agent.value == "pi");
    let agent_loop = if is_pi { agent_loop } else { AgentLoop::default() };
    let provider = flag("--provider", flags.provider).or(user.provider);
    let given = provider.as_ref().map(|provider| provider.value.as_str());
    let agent_loop = asked.agent_loop(agent_loop, given);
    let mut settings = Settings {
        boundary: widen::boundary(
            flag("--boundary", flags.boundary).or(user.boundary),
            [project.boundary, agent_loop.boundary],
        )?,
        engine: flag("--engine", flags.engine).or(user.engine),
        plugin: user.plugin,
        model: flag("--model", flags.model).or(user.model).or(agent_loop.model),
        provider: provider.or(agent_loop.provider),
        agent,
        landlock: at_least("landlock", landlock, ceiling.landlock.as_ref())?,
        allow_weaker: match flags.allow_weaker {
            true => Valued::new(true, Origin::Flag { name: "--allow-weaker" }),
            false => Valued::default_of(false),
        },
        workspace_mode: flag("--workspace", flags.workspace_mode)
            .or(worktree_branch.as_ref().map(dedicated))
            .or(user.workspace_mode)
            .or(project.workspace_mode)
            .unwrap_or(Valued::default_of(unset)),
        apply: flag("--apply", flags.apply)
            .or(user.apply)
            .unwrap_or(Valued::default_of(unset_apply)),
        apply_ignored: match flags.apply_ignored {
            true => Valued::new(true, Origin::Flag { name: "--apply-ignored" }),
            false => user.apply_ignored.unwrap_or(Valued::default_of(false)),
        },
        worktree_branch,
        shadow: project.shadow,
        shadow_mode: project.shadow_mode.unwrap_or(Valued::default_of(ShadowMode::Tmpfs)),
        limits: limits(
            (&user.limits, &ceiling.limits),
            (&project.limits, &mut asked),
            flags.limits,
        )?,
        env: env(user.env, project.env, flags.env, managed)?,
        forward_env: forward_env(user.forward_env, flags.forward_env)?,
        files: files(
            user.files,
            FileFlags {
                read: flags.read,
                write: flags.write,
                sockets: flags.sockets,
                opt_in: flags.opt_in,
                state: flags.state,
                my_config: flags.my_config,
                unset_state,
            },
            denied,
        ),
        publish,
        network,
        secrets: shared.secrets,
        identity: flag("--identity", flags.identity),
        identity_mode: flag("--identity-mode", flags.identity_mode)
            .or(user.identity_mode)
            .unwrap_or(Valued::default_of(IdentityMode::Brokered)),
        ssh: user.ssh,
        providers: user.providers.into_iter().collect(),
        budgets: budget::merged(
            user.budgets,
            group.as_ref().map(|group| group.value.as_str()),
            flags.budget,
            allotted,
        ),
        group,
        group_trust,
        group_home: user.group_home,
        group_files,
        prices: user.prices,
        snapshot: match flag("--base", flags.base) {
            // What the repository names instead needs nobody's trust.
            Some(base) => Snapshot {
                base: Some(base),
                ..asked.snapshot(Snapshot { base: None, ..project.snapshot })
            },
            None => asked.snapshot(project.snapshot),
        },
        resume: Vec::new(),
        host_exec: HostExec::default(),
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
    settings.check_ceiling()?;
    // Who may use a service may call its machine as it likes.
    settings.network = settings.network.with_names_of_this_machine();
    Ok(settings)
}

impl Settings {
    /// Lets every host be reached by its name, on every port.
    ///
    /// # Errors
    /// When the administrator's rules do not cover that.
    pub fn allow_every_name(&mut self, by: &'static str) -> Result<(), SettingsError> {
        let every = NetworkRule { ports: Ports::All, ..NetworkRule::web(HostPattern::AnyName) };
        let rule = Valued::new(every, Origin::Flag { name: by });
        self.ceiling.check_host(&rule)?;
        self.network.allow.push(rule);
        Ok(())
    }

    fn check_ceiling(&self) -> Result<(), SettingsError> {
        if let Some(boundary) = &self.boundary {
            self.ceiling.check_boundary(boundary)?;
        }
        if let Some(agent) = &self.agent {
            self.ceiling.check_agent(agent)?;
        }
        if self.allow_weaker.value {
            self.ceiling.check_weaker(&self.allow_weaker.origin)?;
        }
        for rule in self.network.allow.iter().chain(&self.snapshot.hosts) {
            self.ceiling.check_host(rule)?;
        }
        let FileSettings { read, write, sockets, .. } = &self.files;
        if let (Some(home), Some(files)) = (&self.group_home, &self.group_files) {
            let places = [Some(&home.root), home.scripts.as_ref(), home.runner.as_ref()];
            for place in places.into_iter().flatten().chain(&files.repo_access) {
                self.ceiling.check_path("group_home", &place.value, &place.origin)?;
            }
            for mount in &files.mounts {
                self.ceiling.check_path("groups.mounts", &mount.value.host, &mount.origin)?;
            }
        }
        for (key, paths) in
            [("files.read", read), ("files.write", write), ("files.sockets", sockets)]
        {
            for Valued { value, origin } in paths {
                self.ceiling.check_path(key, value, origin)?;
            }
        }
        Ok(())
    }
}

fn flag<T>(name: &'static str, value: Option<T>) -> Option<Valued<T>> {
    value.map(|value| Valued::new(value, Origin::Flag { name }))
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
    /// The user's or the default under the ceiling; the repository may lower that, or raise it once
    /// it is trusted; a flag replaces all of it, under the ceiling again.
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
    (user, ceiling): (&Limits, &Limits),
    (project, asked): (&Limits, &mut Asked),
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
    user: Vec<EnvSetting>,
    project: Vec<EnvSetting>,
    flags: Vec<(EnvName, String)>,
    managed: Vec<EnvSetting>,
) -> Result<Vec<EnvSetting>, SettingsError> {
    let mut settings = user;
    settings.extend(project);
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

fn files(user: UserFiles, flags: FileFlags, denied: Vec<Valued<Glob>>) -> FileSettings {
    fn both<T>(user: Vec<Valued<T>>, flags: Vec<T>, name: &'static str) -> Vec<Valued<T>> {
        let flags = flags.into_iter().map(|value| Valued::new(value, Origin::Flag { name }));
        user.into_iter().chain(flags).collect()
    }
    let unset = Valued::default_of(flags.unset_state);
    let my_config = match flags.my_config {
        true => Some(Valued::new(true, Origin::Flag { name: "--my-config" })),
        false => user.my_config,
    };
    FileSettings {
        read: both(user.read, flags.read, "--read"),
        write: both(user.write, flags.write, "--write"),
        deny: user.deny.into_iter().chain(denied).collect(),
        sockets: both(user.sockets, flags.sockets, "--socket"),
        opt_in: both(user.opt_in, flags.opt_in, "--opt-in"),
        state: flag("--state", flags.state).or(user.state).unwrap_or(unset),
        my_config: my_config.unwrap_or(Valued::default_of(false)),
    }
}
