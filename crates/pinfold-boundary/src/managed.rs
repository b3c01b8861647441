//! Containers that something else manages: a daemon, or a plug-in.
//!
//! A [`Manager`] is asked for very little: a container without a network or any right, in which files and
//! directories of the host are mounted, and this program as its first process. In there the `namespace`
//! boundary makes the inside from these mounts, by the same code as ever; so the policy, the doors and
//! the verdicts are the same, and the container is a wall around that one. Before it does so, init looks
//! whether the container is what was asked for: an engine that says yes and does something else is
//! found out before anything of the agent's runs.

mod enter;
mod errand;
mod grants;
mod meeting;
mod remains;

use std::fmt;
use std::path::{Path, PathBuf};

use pinfold_policy::path::HostPath;

use self::errand::Errand;
use self::grants::{Grants, Owner};
use self::meeting::Meeting;
use self::remains::Remains;
use crate::inside::Relation;
use crate::namespace;
use crate::plan::{CpuShare, LaunchPlan};
use crate::{
    Boundary, Capabilities, Feature, Finding, Hold, Inside, LaunchError, Probe, Session, sys,
};

pub use enter::run_as_init;

/// Where things of ours lie in the container. Nothing of the agent's comes to see it.
const OWN: &str = "/run/pinfold";
/// This program there.
const INIT: &str = "/run/pinfold/init";
/// By which it reaches whoever had it started.
const SOCKET: &str = "/run/pinfold/socket";
/// The word after which it does so.
const SUBCOMMAND: &str = "managed-init";

/// What manages containers.
pub trait Manager: fmt::Debug {
    /// How the boundary that it makes is called, in `ps`, the audit log and inside.
    fn label(&self) -> &'static str;

    /// Its own name.
    fn name(&self) -> &'static str;

    /// Why containers of this caller's do not get the CPU share that is asked for, if they do not.
    ///
    /// # Errors
    /// It cannot be asked.
    fn lacks_cpus(&self) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    /// What stands in the way of its use here, and what is worth saying.
    fn probe(&self) -> Vec<Finding>;

    /// Starts a container, and returns once its first process runs. What the container was started
    /// with is gone once that process has ended, whoever is there to see it.
    ///
    /// # Errors
    /// Why it cannot be started; nothing is left behind then.
    fn start(&self, container: &Container) -> Result<(), LaunchError>;

    /// Ends a container that has not done what it was started for.
    fn remove(&self, container: &Container);
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
pub(crate) struct Kept {
    manager: &'static str,
    _remains: Option<Remains>,
}

impl Kept {
    /// What to say where it has ended by itself.
    pub(crate) fn gone(&self) -> String {
        format!(
            "the container ended before the command did: {}, or somebody who uses it, has ended it",
            self.manager
        )
    }
}

/// The boundary that a manager makes.
#[derive(Debug)]
pub struct Managed<M> {
    manager: M,
    init: HostPath,
}

impl<M: Manager> Managed<M> {
    /// `init` is the static executable that is started in the container, which calls [`run_as_init`].
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
        }
    }

    /// The share that is enforced; one that is not required is left out where it cannot be.
    fn share(&self, asked: Option<CpuShare>) -> Result<Option<u32>, LaunchError> {
        let Some(share) = asked else { return Ok(None) };
        match self.manager.lacks_cpus()? {
            None => Ok(Some(share.thousandths)),
            Some(cause) if share.required => Err(LaunchError::Limit { limit: "cpus", cause }),
            Some(_) => Ok(None),
        }
    }

    fn error(&self, said: impl fmt::Display, cure: Option<&str>) -> LaunchError {
        let cure = cure.map(str::to_owned);
        LaunchError::Engine { engine: self.manager.name(), said: said.to_string(), cure }
    }
}

impl<M: Manager> Boundary for Managed<M> {
    fn name(&self) -> &'static str {
        self.manager.label()
    }

    fn lacks(&self) -> &'static [Feature] {
        &[Feature::Warm]
    }

    fn probe(&self) -> Probe {
        let findings = self.manager.probe();
        let is_usable = !findings.iter().any(|finding| finding.fatal);
        let capabilities = Capabilities {
            memory: false,
            cpus: is_usable && matches!(self.manager.lacks_cpus(), Ok(None)),
            pids: true,
            landlock: sys::landlock_abi().unwrap_or(0),
        };
        Probe { capabilities, hands_over: true, findings }
    }

    fn launch(
        &self,
        mut plan: LaunchPlan,
        hold: Hold,
        session: Session<'_>,
    ) -> Result<Inside, LaunchError> {
        if hold == Hold::Channel {
            return Err(self.error("it has no prepared start", None));
        }
        let landlock = namespace::check_landlock(&plan)?;
        let owner = Owner::of_caller().map_err(|said| self.error(said, None))?;
        let own = |name: &str| own_path(session.directory, name);
        let seccomp = own("seccomp.json")?;
        std::fs::write(seccomp.as_path(), namespace::profile()).map_err(|source| {
            LaunchError::System { what: "cannot write the list of system calls", source }
        })?;
        let mut container = self.container(session, seccomp, owner);
        container.cpus = self.share(plan.limits.cpus.take())?;
        let enforced = Capabilities {
            memory: false,
            cpus: container.cpus.is_some(),
            pids: plan.limits.pids.is_some(),
            landlock,
        };

        let grants = Grants::make(&mut plan, session.name, owner)?;
        let meeting = Meeting::open(session.directory, own("init")?)?;
        container.mounts = grants.mounts.clone();
        for (from, to, is_writable) in [(&self.init, INIT, false), (meeting.path(), SOCKET, true)] {
            container.mounts.push(Mount { from: from.clone(), to: to.to_owned(), is_writable });
        }
        self.manager.start(&container)?;
        let errand = Errand { plan, looks: grants.looks, caller_is_root: owner.is_root() };
        let met = meeting
            .wait(container.user.0)
            .map_err(|said| self.error(said, Some("`pinfold doctor` shows whether it works here")));
        let told = met.and_then(|(channel, init)| {
            channel.plan(&errand)?;
            Ok((channel, init))
        });
        let (channel, init) = told.inspect_err(|_| self.manager.remove(&container))?;
        let managed = Some(Kept { manager: self.manager.name(), _remains: grants.remains });
        let relation = Relation::Adopted;
        Ok(Inside { channel, init, group: None, enforced, engine: None, managed, relation })
    }
}

fn own_path(directory: &Path, name: &str) -> Result<HostPath, LaunchError> {
    let failed = |source| LaunchError::System {
        what: "the session's directory has no path",
        source: std::io::Error::other(source),
    };
    HostPath::new(PathBuf::from(directory).join(name)).map_err(failed)
}
