//! The boundary `systemd`: a user of its own, in a transient unit that root's runner starts.
//!
//! The unit is the outer wall and bounds CPUs, memory and tasks. In it init, which is the service user, makes the
//! sandbox by the same code as the `namespace` boundary, so the verdicts are the same. This process stays the
//! caller's: it has no right over the service user's processes, and holds the sandbox by the channel to init alone.

mod client;
mod configuration;
mod enter;
mod grants;
mod home;
mod variables;

use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use pinfold_runner::accounts::Account;
use pinfold_runner::policy::{OWN, Policy};
use pinfold_runner::request::Request;
use pinfold_runner::{Refusal, unit};
use pinfold_runner_client::checked;
use pinfold_wire::{Channel, LaunchOrder};

use self::client::Met;
use self::grants::Grants;
use crate::backing::Backing;
use crate::group::{self, Group};
use crate::managed::LEAST_MEMORY;
use crate::managed::errand::Errand;
use crate::plan::{LaunchPlan, ResourceLimits};
use crate::{
    Boundary, Capabilities, Feature, Finding, Inside, LaunchError, Probe, Session, namespace, sys,
};

pub use configuration::{Configuration, ConfigurationFile};
pub use enter::run_as_init;

/// Tasks of a unit that are not the sandbox's own.
const OWN_TASKS: u64 = 32;

/// The boundary that systemd and the runner make.
#[derive(Debug, Clone, Copy, Default)]
pub struct Systemd;

/// What the administrator's policy says of the caller.
struct Terms {
    policy: Policy,
    account: Account,
    service: Account,
    directories: Vec<PathBuf>,
}

impl Terms {
    /// Reads them.
    ///
    /// # Errors
    /// Returns that there is no policy, or none for the caller.
    fn read() -> Result<Self, Refusal> {
        let policy = checked(Policy::load()?)?;
        let account = Account::of_id(rustix::process::geteuid().as_raw())?;
        let directories = policy.directories(&account)?;
        let service = Account::of_name(policy.service(&account.name))?;
        Ok(Self { policy, account, service, directories })
    }

    /// Returns the caller's project roots.
    fn projects(&self) -> impl Iterator<Item = &PathBuf> {
        // pinfold's own directories are the last ones.
        let count = self.directories.len() - OWN.len();
        self.directories.iter().take(count)
    }

    /// Has a sandbox not use up more than the policy gives, which the runner has the unit hold anyway.
    fn bound(&self, limits: &mut ResourceLimits) {
        let least = |asked: &mut Option<u64>, most: Option<u64>| {
            *asked = asked.iter().copied().chain(most).min();
        };
        least(&mut limits.memory, self.policy.memory_max.map(NonZeroU64::get));
        let tasks = self.policy.tasks_max.map(|most| most.get().saturating_sub(OWN_TASKS).max(1));
        least(&mut limits.pids, tasks);
    }
}

impl From<Refusal> for LaunchError {
    fn from(Refusal { what, hint }: Refusal) -> Self {
        Self::Runner { what, hint }
    }
}

impl Boundary for Systemd {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn lacks(&self) -> &'static [Feature] {
        &[Feature::Nested, Feature::Root]
    }

    fn probe(&self) -> Probe {
        let missing = Terms::read().err().into_iter().chain(client::find().err());
        let findings = missing.map(|Refusal { what, hint }| Finding { what, hint, fatal: true });
        let landlock = sys::landlock::abi().unwrap_or(0);
        let capabilities = Capabilities { memory: true, cpus: true, pids: true, landlock };
        Probe {
            capabilities,
            hands_over: true,
            is_closed: false,
            is_machine: false,
            findings: findings.collect(),
        }
    }

    fn launch(&self, mut plan: LaunchPlan, session: Session<'_>) -> Result<Inside, LaunchError> {
        let landlock = namespace::check_landlock(&plan)?;
        if plan.identity.uid == 0 {
            // It may set modes that a file of somebody else's must not have.
            let what = "what is root by name has no files of somebody else's";
            return Err(Refusal::new(what, "choose another boundary (`--boundary`)").into());
        }
        let terms = Terms::read()?;
        terms.bound(&mut plan.limits);
        let Grants { wanted, files, looks } = Grants::make(&mut plan, &terms)?;
        let share = plan.limits.cpus;
        let request = Request {
            session: session.name.to_owned(),
            memory: plan.limits.memory.filter(|bytes| *bytes >= LEAST_MEMORY),
            cpus: share.map(|share| share.thousandths),
            tasks: plan.limits.pids.map(|most| most.saturating_add(OWN_TASKS)),
            grants: wanted,
        };
        let Met { channel, init, pid } =
            client::ask(&request, &files, terms.service.uid, session.interrupt)?;
        let cpus = request.cpus.is_some_and(|share| group::holds_cpus(pid, share));
        // systemd takes a limit that it has no controller for, and says nothing.
        if share.is_some_and(|share| share.required) && !cpus {
            let cause =
                "systemd was asked for it, and the kernel knows of none for the unit".to_owned();
            return Err(LaunchError::Limit { limit: "cpus", cause });
        }
        // What is not enforced is not shown either.
        plan.limits.cpus = share.filter(|_| cpus);
        // Without it memory is init's to watch.
        let group = request.memory.and_then(|most| Group::of_container(pid, most));
        let enforced = Capabilities {
            memory: group.is_some(),
            cpus,
            pids: plan.limits.pids.is_some(),
            landlock,
        };
        let memory_is_bounded = group.is_some();
        let open_files = Errand::own_open_files();
        let errand = Errand {
            plan,
            looks,
            owner_is_other: true,
            memory_is_bounded,
            open_files,
            configuration: session.configuration.cloned(),
        };
        let (attendant, theirs) = Channel::pair()?;
        channel.plan(&errand, &[theirs.as_fd()])?;
        drop(theirs);
        // Init's parent lives until masks are kept no more.
        let lasting = match attendant.receive::<LaunchOrder>() {
            Ok(Some(received)) => received.descriptors.into_iter().next(),
            Ok(None) | Err(_) => None,
        };
        let is_made = lasting.is_some();
        let backing = SystemdBacking { group, unit: unit::name(&request.session), attendant };
        let inside = Inside::new(channel, lasting.unwrap_or(init), enforced, Box::new(backing));
        // Without init, its parent has said why.
        if is_made { Ok(inside) } else { Err(inside.last_words()) }
    }
}

/// What is kept of a sandbox while it lasts.
#[derive(Debug)]
struct SystemdBacking {
    group: Option<Group>,
    unit: String,
    /// To init's parent.
    attendant: Channel,
}

impl Backing for SystemdBacking {
    fn is_parent(&self) -> bool {
        false
    }

    fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Returns true: no process of another user's can be sent a signal. Init ends with its channel, and the
    /// unit with init.
    fn ends_with_channel(&self) -> bool {
        true
    }

    /// Returns the channel of a helper: the service user alone may join the sandbox's namespaces.
    fn attendant(&self) -> Option<&Channel> {
        Some(&self.attendant)
    }

    fn gone(&self) -> Option<String> {
        let unit = &self.unit;
        Some(format!(
            "the unit {unit} ended before the command did: a limit on memory or of the policy, or an administrator, ended it \
             (`systemctl status {unit}`)"
        ))
    }
}
