//! Merging the layers into the settings of one run.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;

use super::budget::{self, Budget};
use super::ceiling::{Ceiling, at_least, at_most};
use super::error::SettingsError;
use super::layers::{Attendance, FlagLimits, Flags, Layers};
use super::network;
use super::read::{self, CeilingFile, ProjectFile, UserFile, UserFiles, check_reserved};
use super::url::BaseUrl;
use super::words::{AgentState, BoundaryName, GitMode, IdentityMode, LandlockMode};
use crate::document::SettingsFile;
use crate::env::{EnvName, Owner};
use crate::glob::Glob;
use crate::limits::Limits;
use crate::network::{HostPattern, NetworkPolicy, NetworkRule, Ports, SecretRule};
use crate::origin::{Origin, Valued};
use crate::path::{Escaped, HostPath};
use crate::prices::Price;
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
}

/// What holds for a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Its base URL, instead of its own.
    pub base_url: Option<Valued<BaseUrl>>,
    /// The models that may be asked for; all if absent. A name that ends in `*` stands for all
    /// that begin so.
    pub models: Option<Valued<Vec<String>>>,
}

/// The settings of one run, each with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it runs; the first usable one if absent.
    pub boundary: Option<Valued<BoundaryName>>,
    /// The agent.
    pub agent: Option<Valued<String>>,
    /// The model.
    pub model: Option<Valued<String>>,
    /// The provider.
    pub provider: Option<Valued<String>>,
    /// How git directories are protected.
    pub git: Valued<GitMode>,
    /// Whether Landlock may be missing.
    pub landlock: Valued<LandlockMode>,
    /// Whether a wall that is missing is let pass.
    pub allow_weaker: Valued<bool>,
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
    pub publish: Vec<Valued<SocketAddr>>,
    /// Secrets of which the inside has placeholders.
    pub secrets: Vec<Valued<SecretRule>>,
    /// Whose name the inside works in.
    pub identity: Option<Valued<String>>,
    /// How that identity's secrets are used.
    pub identity_mode: Valued<IdentityMode>,
    /// The key that signs for the inside, unless an identity has one.
    pub ssh: SshSettings,
    /// What holds for providers, by provider.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The group whose budget counts.
    pub group: Option<Valued<String>>,
    /// What may be used of models; every one of them counts.
    pub budgets: Vec<Budget>,
    /// The user's own prices of models.
    pub prices: BTreeMap<String, Price>,
    /// What remains to be checked when workspace, agent and boundary are known.
    pub ceiling: Ceiling,
}

impl Settings {
    /// Reads the files and merges all layers.
    ///
    /// # Errors
    /// When a file has a mistake, a repository asks for more than it may have, a value passes the
    /// administrator's ceiling, or a reserved variable is set.
    pub fn resolve(layers: Layers<'_>) -> Result<Self, SettingsError> {
        let Layers { home, attendance, ceiling, user, project, flags } = layers;
        let ceiling = ceiling.map_or_else(|| Ok(CeilingFile::default()), read::ceiling)?;
        let user = user.map_or_else(|| Ok(UserFile::default()), |file| read::user(file, home))?;
        let project = only(&project)?.map_or_else(|| Ok(ProjectFile::default()), read::project)?;
        merge(ceiling, user, project, flags, attendance)
    }
}

fn only<'a>(files: &[SettingsFile<'a>]) -> Result<Option<SettingsFile<'a>>, SettingsError> {
    match files {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        [first, second, ..] => Err(SettingsError::TwoProjectFiles {
            first: Escaped(first.path).to_string(),
            second: Escaped(second.path).to_string(),
        }),
    }
}

fn merge(
    mut ceiling: CeilingFile,
    user: UserFile,
    project: ProjectFile,
    mut flags: Flags,
    attendance: Attendance,
) -> Result<Settings, SettingsError> {
    let managed = std::mem::take(&mut ceiling.env);
    let denied = std::mem::take(&mut ceiling.deny);
    let allotted = ceiling.budget.take();
    let group = flag("--group", flags.group).or(user.group);
    let ceiling = Ceiling::of(ceiling);
    let unwatched = match attendance {
        Attendance::Attended => GitMode::Guarded,
        Attendance::Unattended => GitMode::Quarantine,
    };
    let git = flag("--git", flags.git).or(user.git).unwrap_or(Valued::default_of(unwatched));
    let best_effort = Valued::default_of(LandlockMode::BestEffort);
    let landlock = flag("--landlock", flags.landlock).or(user.landlock).unwrap_or(best_effort);
    let settings = Settings {
        boundary: flag("--boundary", flags.boundary).or(user.boundary),
        agent: flag("AGENT", flags.agent).or(user.agent),
        model: flag("--model", flags.model).or(user.model),
        provider: flag("--provider", flags.provider).or(user.provider),
        git: at_least("git", git, ceiling.git.as_ref())?,
        landlock: at_least("landlock", landlock, ceiling.landlock.as_ref())?,
        allow_weaker: match flags.allow_weaker {
            true => Valued::new(true, Origin::Flag { name: "--allow-weaker" }),
            false => Valued::default_of(false),
        },
        limits: limits(&user.limits, &project.limits, flags.limits, &ceiling.limits)?,
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
            },
            denied,
        ),
        publish: network::published(user.publish, &mut flags.network),
        network: network::merged(
            user.network,
            &user.secrets,
            // Without a key nobody logs in.
            user.ssh.hosts.iter().filter(|_| user.ssh.key.is_some() || flags.identity.is_some()),
            flags.network,
        ),
        secrets: user.secrets,
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
        prices: user.prices,
        ceiling,
    };
    settings.check_ceiling()?;
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
        for rule in &self.network.allow {
            self.ceiling.check_host(rule)?;
        }
        let FileSettings { read, write, sockets, .. } = &self.files;
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
    /// The user's or the default under the ceiling; the repository may lower that; a flag
    /// replaces all of it, under the ceiling again.
    fn resolve(self) -> Result<Option<Valued<T>>, SettingsError> {
        let ceiling = self.ceiling.as_ref();
        let given = at_most(self.key, self.user.clone().or(self.default), ceiling)?;
        let lowered = match (self.project, given) {
            (Some(project), Some(given)) if project.value > given.value => {
                // What a flag says replaces both, so only then is the request harmless.
                match (&project.origin, &self.flag) {
                    (Origin::Project(place), None) => {
                        return Err(SettingsError::ProjectWidens {
                            place: place.clone(),
                            key: self.key,
                            asked: project.value.to_string(),
                            given: given.shown(),
                        });
                    }
                    _ => Some(given),
                }
            }
            (Some(project), _) => Some(project.clone()),
            (None, given) => given,
        };
        at_most(self.key, self.flag.or(lowered), ceiling)
    }
}

fn limits(
    user: &Limits,
    project: &Limits,
    flags: FlagLimits,
    ceiling: &Limits,
) -> Result<Limits, SettingsError> {
    let default = Limits::defaults();
    macro_rules! limit {
        ($field:ident, $key:literal, $flag:literal) => {
            Limit {
                key: $key,
                user: &user.$field,
                default: default.$field,
                project: &project.$field,
                flag: flag($flag, flags.$field),
                ceiling: &ceiling.$field,
            }
            .resolve()?
        };
    }
    Ok(Limits {
        cpus: limit!(cpus, "resources.cpus", "--cpus"),
        memory: limit!(memory, "resources.memory", "--memory"),
        pids: limit!(pids, "resources.pids", "--pids"),
        disk: limit!(disk, "resources.disk", "--disk"),
        files: limit!(files, "resources.files", "--files"),
        timeout: limit!(timeout, "resources.timeout", "--timeout"),
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
}

fn files(user: UserFiles, flags: FileFlags, denied: Vec<Valued<Glob>>) -> FileSettings {
    fn both<T>(user: Vec<Valued<T>>, flags: Vec<T>, name: &'static str) -> Vec<Valued<T>> {
        let flags = flags.into_iter().map(|value| Valued::new(value, Origin::Flag { name }));
        user.into_iter().chain(flags).collect()
    }
    let ephemeral = Valued::default_of(AgentState::Ephemeral);
    FileSettings {
        read: both(user.read, flags.read, "--read"),
        write: both(user.write, flags.write, "--write"),
        deny: user.deny.into_iter().chain(denied).collect(),
        sockets: both(user.sockets, flags.sockets, "--socket"),
        opt_in: both(user.opt_in, flags.opt_in, "--opt-in"),
        state: flag("--state", flags.state).or(user.state).unwrap_or(ephemeral),
    }
}
