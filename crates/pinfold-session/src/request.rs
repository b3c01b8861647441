//! What to run, and how.

use std::ffi::OsString;

use pinfold_boundary::Entry;
use pinfold_boundary::systemd::Configuration;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::session_id::SessionName;
use pinfold_policy::authority::Subject;
use pinfold_policy::network::HostPattern;
use pinfold_policy::settings::{BranchName, Settings};
use pinfold_rootfs::system::Stack;
use pinfold_wire::Window;
use pinfold_worktree::workspace::Workspace;

use crate::detach::Background;
use crate::doors::LivesOn;
use crate::doors::gateway::Provider;
use crate::doors::ssh::Ssh;
use crate::supervise::disk_watch::Bound;
use crate::timeline::Timeline;
use pinfold_memory::TaskDiary;
use pinfold_personal::MyConfig;
use pinfold_personal::caller_trust::CallerTrust;
use pinfold_personal::identity::PrivateFiles;
use pinfold_rootfs::extra::Extra;

/// A request to run something: what, where, and with which settings. [`crate::prepare`] makes it.
pub struct Request {
    /// Whose session it is.
    pub(crate) subject: Subject,
    /// The program and its arguments; none for a session that waits for what is run in it.
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) settings: Settings,
    /// Where it works.
    pub(crate) workspace: Workspace,
    /// Grants that come with the agent.
    pub(crate) extra: Vec<Extra>,
    /// Files that come with the agent.
    pub(crate) files: Vec<Entry>,
    /// What of the user's own setup of the agent comes in.
    pub(crate) my_config: Option<MyConfig>,
    /// The user's whole configuration of the agent, for a boundary that runs it as another user.
    pub(crate) configuration: Option<Configuration>,
    /// The system it runs on; `None` for this machine's own.
    pub(crate) stack: Option<Stack>,
    /// The agent's model provider.
    pub(crate) provider: Option<Provider>,
    /// The key that signs for the sandbox.
    pub(crate) ssh: Option<Ssh>,
    /// Where the key of the identity is.
    pub(crate) private: Option<PrivateFiles>,
    /// What the task says about entries of a diary, if it works on one.
    pub(crate) task: Option<TaskDiary>,
    /// Whether the agent needs namespaces of its own.
    pub(crate) nested: bool,
    /// Hosts of which a refusal is recorded and not shown.
    pub(crate) silent_hosts: Vec<HostPattern>,
    /// What it may write to the disk, where that is watched.
    pub(crate) bound: Option<Bound>,
    /// Whether somebody is at the terminal who can be asked.
    pub(crate) attended: bool,
    /// The only branch that it may move, if nobody watches what it does in a worktree of its own.
    pub(crate) only: Option<BranchName>,
    /// Whether what it does in repositories is gone when it ends.
    pub(crate) discards_commits: bool,
    /// Whether the specification among its files comes back.
    pub(crate) returns_spec: bool,
    /// Authorities that the caller trusts besides the system's.
    pub(crate) caller_trust: CallerTrust,
    /// Where pinfold keeps its files.
    pub(crate) places: Places,
    /// What starts programs on the host.
    pub(crate) launcher: Launcher,
    /// What the session is called, in addition to its own name.
    pub(crate) name: Option<SessionName>,
    /// Where it goes on without the process that started it.
    pub(crate) background: Option<Background>,
    /// How large the terminal is that it has there, if it has one.
    pub(crate) window: Option<Window>,
    /// What was done before.
    pub(crate) timeline: Timeline,
}

impl Request {
    /// Returns a request without anything beyond the host's system: no agent, no door, nobody to be asked.
    pub(crate) fn plain(
        subject: Subject,
        argv: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        settings: Settings,
        workspace: Workspace,
        places: Places,
        launcher: Launcher,
    ) -> Self {
        Self {
            subject,
            argv,
            env,
            settings,
            workspace,
            places,
            launcher,
            extra: Vec::new(),
            files: Vec::new(),
            my_config: None,
            configuration: None,
            stack: None,
            provider: None,
            ssh: None,
            private: None,
            task: None,
            nested: false,
            silent_hosts: Vec::new(),
            bound: None,
            attended: false,
            only: None,
            discards_commits: false,
            returns_spec: false,
            caller_trust: CallerTrust::default(),
            name: None,
            background: None,
            window: None,
            timeline: Timeline::default(),
        }
    }

    /// Returns the user's machine.
    pub(crate) fn host(&self) -> Host<'_> {
        Host { places: &self.places, launcher: &self.launcher }
    }

    /// Returns whether the session changes the workspace itself.
    pub(crate) fn works_on_checkout(&self) -> bool {
        !self.workspace.is_scratch && self.workspace.under_view(&self.settings).is_none()
    }

    /// Returns whether the sandbox is to reach something outside, through whichever door.
    pub(crate) fn wants_doors(&self) -> bool {
        let Settings { network, host_exec, .. } = &self.settings;
        let has_keys = self.provider.is_some() || self.ssh.is_some();
        let has_diary = pinfold_mcp::door(&self.settings).is_some();
        has_keys || has_diary || host_exec.enabled.value || !network.is_empty()
    }

    pub(crate) fn lives_on(&self) -> LivesOn {
        LivesOn(self.background.is_some() || self.argv.is_empty())
    }
}
