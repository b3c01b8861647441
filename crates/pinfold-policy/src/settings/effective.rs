//! The settings of one run, and what they answer.

use std::collections::BTreeMap;

use super::ask::AskSettings;
use super::budget::Budget;
use super::ceiling::Ceiling;
use super::diary::DiarySettings;
use super::error::SettingsError;
use super::group_home::{GroupFiles, GroupHome};
use super::host_exec::{HostExec, HostExecVerdict, LISTED};
use super::publish::PublishedPort;
use super::scalars::Scalars;
use super::task_rules::TaskRules;
use super::values::{EnvSetting, FileSettings, ProviderSettings};
use super::words::{GroupTrust, ShadowMode};
use super::wrapper::WrapperSetting;
use crate::env::EnvName;
use crate::limits::Limits;
use crate::network::{HostPattern, NetworkPolicy, NetworkRule, Ports, Repository, SecretRule};
use crate::origin::{Origin, Valued};
use crate::prices::Price;
use crate::project::{AutoApprove, ResumeCommand, ShadowPath, Snapshot, Widening};
use crate::ssh::SshSettings;

/// The settings of one run, each with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Those of one value.
    pub scalars: Scalars,
    /// Paths of the workspace that are replaced inside.
    pub shadow: Vec<Valued<ShadowPath>>,
    /// What is there instead.
    pub shadow_mode: Valued<ShadowMode>,
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
    /// Where diaries are kept, and how much of them.
    pub diary: DiarySettings,
    /// The key that signs for the sandbox, unless an identity has one.
    pub ssh: SshSettings,
    /// What holds for providers, by provider.
    pub providers: BTreeMap<String, ProviderSettings>,
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
    /// How many tasks of a group are worked on at once, where the user says so.
    pub group_concurrency: BTreeMap<String, u32>,
    /// What tasks of a shared queue may ask for.
    pub task_rules: TaskRules,
    /// Where the user's queue of tasks is, if not where `DATABASE_URL` says or in a file.
    pub task_database: Option<Valued<String>>,
    /// What the sandbox's system is made from.
    pub snapshot: Snapshot,
    /// What runs inside before the command.
    pub resume: Vec<Valued<ResumeCommand>>,
    /// What the sandbox may ask the host to run.
    pub host_exec: HostExec,
    /// What the user is asked while the session runs, and where.
    pub ask: AskSettings,
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
    /// Lets every host be reached by its name, on every port.
    ///
    /// # Errors
    /// Returns an error when the administrator's rules do not cover that.
    pub fn allow_every_name(&mut self, by: &'static str) -> Result<(), SettingsError> {
        let every = NetworkRule { ports: Ports::All, ..NetworkRule::web(HostPattern::AnyName) };
        let rule = Valued::new(every, Origin::Flag { name: by });
        self.ceiling.check_host(&rule)?;
        self.network.allow.push(rule);
        Ok(())
    }

    pub(super) fn check_ceiling(&self) -> Result<(), SettingsError> {
        if let Some(boundary) = &self.scalars.boundary {
            self.ceiling.check_boundary(boundary)?;
        }
        if let Some(agent) = &self.scalars.agent {
            self.ceiling.check_agent(agent)?;
        }
        if self.scalars.allow_weaker.value {
            self.ceiling.check_weaker(&self.scalars.allow_weaker.origin)?;
        }
        if self.scalars.nested.value {
            self.ceiling.check_nested(&self.scalars.nested.origin)?;
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

    /// Returns what becomes of a command that the sandbox asks for. Arguments are bytes, as they are;
    /// `amounts_to` are options that would say what it comes to, if it says it in other words.
    #[must_use]
    pub fn host_exec_verdict(
        &self,
        executable: &[u8],
        args: &[Vec<u8>],
        amounts_to: &[&str],
    ) -> HostExecVerdict<'_> {
        let listed = self.host_exec.executables.iter().map(|name| name.value.as_str());
        let is_listed = LISTED.into_iter().chain(listed).any(|name| name.as_bytes() == executable);
        if !is_listed || !self.ceiling.allows_executable(executable) {
            return HostExecVerdict::NotListed;
        }
        let allows = |one: &&Valued<AutoApprove>| one.value.allows(executable, args, amounts_to);
        self.approve.iter().find(allows).map_or(HostExecVerdict::Ask, HostExecVerdict::Allowed)
    }

    /// Returns the executables that may be asked for.
    pub fn host_executables(&self) -> impl Iterator<Item = &str> {
        let own = self.host_exec.executables.iter().map(|name| name.value.as_str());
        let allowed = |name: &&str| self.ceiling.allows_executable(name.as_bytes());
        LISTED.into_iter().chain(own).filter(allowed)
    }

    /// Lets git have brokered tokens for these repositories.
    ///
    /// # Errors
    /// Returns an error when the administrator's rules do not cover github.com.
    pub fn broker(&mut self, repositories: &[Repository]) -> Result<(), SettingsError> {
        self.network.broker(repositories);
        // What a task does not leave is not asked for.
        self.network.allow.retain(|rule| self.ceiling.leaves_host(&rule.value));
        self.network.allow.iter().try_for_each(|rule| self.ceiling.check_host(rule))
    }

    /// Returns the secrets of which the sandbox has placeholders, without those that are brokered.
    pub fn placed(&self) -> impl Iterator<Item = &Valued<SecretRule>> {
        let brokered = |secret: &Valued<SecretRule>| {
            self.network.brokered.iter().any(|brokered| brokered.secret == *secret)
        };
        self.secrets.iter().filter(move |secret| !brokered(secret))
    }

    /// Returns whether there is a token for GitHub, for whomever.
    #[must_use]
    pub fn has_github_token(&self) -> bool {
        self.secrets.iter().any(|secret| secret.value.is_for_github())
    }

    /// Returns whether something can be reached, used or seen inside beyond the workspace and the
    /// system: then a repository's commands do not run on its word alone.
    pub(super) fn has_something_to_lose(&self) -> bool {
        let files = &self.files;
        let granted =
            [&files.read, &files.write, &files.sockets].into_iter().any(|paths| !paths.is_empty());
        let variables = self.env.iter().any(|one| !matches!(one.origin, Origin::Project(_)));
        self.scalars.agent.is_some()
            || self.scalars.identity.is_some()
            || self.ssh.key.is_some()
            || granted
            || variables
            || !files.opt_in.is_empty()
            || !self.forward_env.is_empty()
            || !self.network.allow.is_empty()
            || !self.secrets.is_empty()
            || !self.publish.is_empty()
    }

    /// Returns what the repository asks for and does not get while nobody trusts its file.
    pub fn waiting(&self) -> impl Iterator<Item = &Widening> {
        self.widenings.iter().filter(|widening| !widening.in_effect)
    }
}
