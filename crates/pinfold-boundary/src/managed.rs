//! Containers that something else manages: a daemon, or a plug-in.
//!
//! A [`Manager`] is asked for very little: a container without a network or any right, in which files and
//! directories of the host are mounted, and this program as its first process. In there the `namespace`
//! boundary makes the sandbox from these mounts, by the same code; so the policy, the doors and the
//! verdicts are the same, and the container is a wall around that one. Before it does so, init looks
//! whether the container is what was asked for: an engine that says yes and does something else is found
//! out before anything of the agent's runs.

pub(crate) mod enter;
pub(crate) mod errand;
mod grants;
mod meeting;
mod remains;

use std::fmt;
use std::path::{Path, PathBuf};

use pinfold_policy::path::HostPath;

use self::errand::Errand;
use self::grants::{Grants, Owner};
use self::meeting::{Meeting, Met, NotMet};
use self::remains::Remains;
use crate::backing::Backing;
use crate::group::{self, Group};
use crate::namespace;
use crate::plan::{LaunchPlan, ResourceLimits};
use crate::{Boundary, Capabilities, Feature, Finding, Inside, LaunchError, Probe, Session, sys};

pub use enter::run_as_init;

/// Where things of ours lie in the container. Nothing of the agent's comes to see it.
const OWN: &str = "/run/pinfold";
/// This program there.
const INIT: &str = "/run/pinfold/init";
/// By which it reaches the process that had it started.
const SOCKET: &str = "/run/pinfold/socket";
/// Bytes: Docker takes no limit below, and an init with its command comes close to it.
pub(crate) const LEAST_MEMORY: u64 = 16 << 20;
/// The word after which it does so.
const SUBCOMMAND: &str = "managed-init";

/// What manages containers.
pub trait Manager: fmt::Debug {
    /// Returns how the boundary that it makes is called, in `ps`, the audit log and inside.
    fn label(&self) -> &'static str;

    /// Returns its own name.
    fn name(&self) -> &'static str;

    /// Returns which limits containers of this caller's do not get.
    ///
    /// # Errors
    /// Returns an error if it cannot be asked.
    fn lacks(&self) -> Result<Lacks, LaunchError>;

    /// Returns what stands in the way of its use here, and what is worth saying.
    fn probe(&self) -> Vec<Finding>;

    /// Starts a container, and returns once its first process runs. What the container was started
    /// with is gone once that process has ended, even if nobody is there to see it.
    ///
    /// # Errors
    /// Returns why it cannot be started; nothing is left behind then.
    fn start(&self, container: &Container) -> Result<(), LaunchError>;

    /// Ends a container that has not done what it was started for.
    fn remove(&self, container: &Container);
}

/// Limits that a manager does not set, each with the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacks {
    /// A share of the CPUs.
    pub cpus: Option<String>,
    /// Memory.
    pub memory: Option<String>,
}

/// A container to be started.
///
/// It has no network but its own loopback, no capability and no way to gain one, and a root that nothing
/// in it can write to.
#[derive(Debug)]
pub struct Container {
    /// Its name, which no other of this machine has.
    pub name: String,
    /// The session's own name.
    pub session: String,
    /// What of the host is in it.
    pub mounts: Vec<Mount>,
    /// The user and the group that its first process runs as, by their numbers on the host.
    pub user: (u32, u32),
    /// The first process and its arguments.
    pub argv: Vec<String>,
    /// The system calls that it needs to have, as OCI engines read it (`seccomp` of
    /// <https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md>).
    pub seccomp: HostPath,
    /// CPU time for each wall-clock time, in thousandths of a CPU, if that is bounded.
    pub cpus: Option<u32>,
    /// Bytes of memory of all its processes together, without any of swap, if that is bounded.
    pub memory: Option<u64>,
}

/// A file or directory of the host at a path of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// On the host.
    pub from: HostPath,
    /// In the container.
    pub to: String,
    /// Whether it can be written to.
    pub is_writable: bool,
}

/// What is kept of a container while it lasts.
#[derive(Debug)]
struct ManagedBacking {
    group: Option<Group>,
    manager: &'static str,
    _remains: Option<Remains>,
}

impl Backing for ManagedBacking {
    fn is_parent(&self) -> bool {
        false
    }

    fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    fn gone(&self) -> Option<String> {
        Some(format!(
            "the container ended before the command did: {} or one of its users ended it",
            self.manager
        ))
    }
}

/// The boundary that a manager makes.
#[derive(Debug)]
pub struct Managed<M> {
    manager: M,
    init: HostPath,
}

impl<M: Manager> Managed<M> {
    /// Makes the boundary of a manager. `init` is the static executable that is started in the container,
    /// which calls [`run_as_init`].
    #[must_use]
    pub fn new(manager: M, init: HostPath) -> Self {
        Self { manager, init }
    }

    fn container(&self, session: Session<'_>, seccomp: HostPath, user: Owner) -> Container {
        Container {
            name: format!("pinfold-{}", session.name),
            session: session.name.to_owned(),
            mounts: Vec::new(),
            user: user.ids(),
            argv: vec![INIT.to_owned(), SUBCOMMAND.to_owned()],
            seccomp,
            cpus: None,
            memory: None,
        }
    }

    /// Asks for the limits that are the manager's to set. A CPU share that is not required is left out
    /// where it is not available; memory is init's to watch then.
    fn bound(
        &self,
        container: &mut Container,
        limits: &mut ResourceLimits,
    ) -> Result<(), LaunchError> {
        let (cpus, memory) = (limits.cpus.take(), limits.memory);
        if cpus.is_none() && memory.is_none() {
            return Ok(());
        }
        let lacks = self.manager.lacks()?;
        container.cpus = match (cpus, lacks.cpus) {
            (Some(share), None) => Some(share.thousandths),
            (Some(share), Some(cause)) if share.required => {
                return Err(LaunchError::Limit { limit: "cpus", cause });
            }
            _ => None,
        };
        container.memory = memory.filter(|bytes| lacks.memory.is_none() && *bytes >= LEAST_MEMORY);
        Ok(())
    }

    fn error(&self, said: impl fmt::Display, hint: Option<&str>) -> LaunchError {
        let hint = hint.map(str::to_owned);
        LaunchError::Engine { engine: self.manager.name(), said: said.to_string(), hint }
    }
}

impl<M: Manager> Boundary for Managed<M> {
    fn name(&self) -> &'static str {
        self.manager.label()
    }

    fn lacks(&self) -> &'static [Feature] {
        &[Feature::Nested, Feature::Root]
    }

    fn probe(&self) -> Probe {
        let findings = self.manager.probe();
        let is_usable = !findings.iter().any(|finding| finding.fatal);
        let lacks = is_usable.then(|| self.manager.lacks().ok()).flatten();
        let no = || Some("it does not answer".to_owned());
        let lacks = lacks.unwrap_or_else(|| Lacks { cpus: no(), memory: no() });
        let capabilities = Capabilities {
            memory: lacks.memory.is_none(),
            cpus: lacks.cpus.is_none(),
            pids: true,
            landlock: sys::landlock::abi().unwrap_or(0),
        };
        Probe { capabilities, hands_over: true, is_closed: false, is_machine: false, findings }
    }

    fn launch(&self, mut plan: LaunchPlan, session: Session<'_>) -> Result<Inside, LaunchError> {
        let landlock = namespace::check_landlock(&plan)?;
        let owner = Owner::of_caller().map_err(|said| self.error(said, None))?;
        let own = |name: &str| own_path(session.directory, name);
        let seccomp = own("seccomp.json")?;
        std::fs::write(seccomp.as_path(), pinfold_seccomp::profile()).map_err(|source| {
            LaunchError::System { what: "cannot write the list of system calls", source }
        })?;
        let mut container = self.container(session, seccomp, owner);
        let needs_share = plan.limits.cpus.is_some_and(|share| share.required);
        self.bound(&mut container, &mut plan.limits)?;
        let grants = Grants::make(&mut plan, session.name, owner)?;
        let meeting = Meeting::open(session.directory, own("init")?)?;
        container.mounts = grants.mounts.clone();
        for (from, to, is_writable) in [(&self.init, INIT, false), (meeting.path(), SOCKET, true)] {
            container.mounts.push(Mount { from: from.clone(), to: to.to_owned(), is_writable });
        }
        self.manager.start(&container).map_err(|error| {
            // What the manager says of a program that was killed names it only.
            if session.is_interrupted() { LaunchError::Interrupted } else { error }
        })?;
        let met = meeting.wait(container.user.0, session.interrupt).map_err(|error| match error {
            NotMet::Interrupted => LaunchError::Interrupted,
            NotMet::Failed(said) => {
                self.error(said, Some("`pinfold doctor` shows whether it works here"))
            }
        });
        let started = met.and_then(|Met { channel, init, pid }| {
            let cpus = container.cpus.is_some_and(|share| group::holds_cpus(pid, share));
            if needs_share && !cpus {
                return Err(unheld(self.manager.name()));
            }
            // What the kernel does not bound, whatever the engine says, is init's to watch.
            let group = container.memory.and_then(|most| Group::of_container(pid, most));
            if group.is_some() {
                plan.limits.memory = None;
            }
            let enforced = Capabilities {
                memory: group.is_some(),
                cpus,
                pids: plan.limits.pids.is_some(),
                landlock,
            };
            let errand = Errand {
                plan,
                looks: grants.looks,
                owner_is_other: owner.is_root(),
                memory_is_bounded: group.is_some(),
                open_files: Errand::own_open_files(),
                configuration: None,
            };
            channel.plan(&errand, &[])?;
            Ok((channel, init, group, enforced))
        });
        let (channel, init, group, enforced) =
            started.inspect_err(|_| self.manager.remove(&container))?;
        let (manager, _remains) = (self.manager.name(), grants.remains);
        let backing = ManagedBacking { group, manager, _remains };
        Ok(Inside::new(channel, init, enforced, Box::new(backing)))
    }
}

/// Returns an engine that has taken a share of the CPUs and not set it.
fn unheld(manager: &str) -> LaunchError {
    let cause =
        format!("{manager} was asked for it, and the kernel knows of none for the container");
    LaunchError::Limit { limit: "cpus", cause }
}

fn own_path(directory: &Path, name: &str) -> Result<HostPath, LaunchError> {
    let failed = |source| LaunchError::System {
        what: "the session's directory has no path",
        source: std::io::Error::other(source),
    };
    HostPath::new(PathBuf::from(directory).join(name)).map_err(failed)
}
