//! What the commands of a cluster have in common: its scheduler, and the jobs that it gets.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_cluster::{ClusterSettings, Kubernetes, NodeJobs, Scheduler, Slurm, stage};
use pinfold_host::Refusal;
use pinfold_host::directories::{Places, account_name};
use pinfold_host::launcher::{Launcher, own_program};
use pinfold_secrets::Store;
use pinfold_tasks::Lease;
use pinfold_tasks_postgres::{AnyStore, DATABASE_VARIABLE};

use crate::exit::Failure;
use crate::task_queue::{self, TaskQueue};

/// Where programs are looked for on nodes.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A cluster, as the user's settings describe it.
pub(super) struct Site<'a> {
    pub(super) settings: ClusterSettings,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) directory: PathBuf,
    places: &'a Places,
    launcher: &'a Launcher,
}

impl<'a> Site<'a> {
    /// Reads the settings, and finds the scheduler.
    ///
    /// # Errors
    /// Returns an error for settings that are wrong, or a scheduler that is not there.
    pub(super) fn find(places: &'a Places, launcher: &'a Launcher) -> Result<Self, Failure> {
        let settings = ClusterSettings::read(places).map_err(Failure::new)?;
        let directory = settings.directory.clone();
        let directory = directory.unwrap_or_else(|| places.cache.join("cluster"));
        let refused = |refusal: Refusal| {
            let hint = refusal.hint().map(str::to_owned);
            Failure::new(refusal).hint(hint)
        };
        let scheduler: Box<dyn Scheduler> = match &settings.kubernetes {
            Some(kubernetes) => Box::new(Kubernetes::find(kubernetes, launcher).map_err(refused)?),
            None => {
                Box::new(Slurm::find(&settings.options, &directory, launcher).map_err(refused)?)
            }
        };
        Ok(Self { settings, scheduler, directory, places, launcher })
    }

    /// Returns what makes jobs that start this command of the program.
    ///
    /// # Errors
    /// Returns an error if the program cannot be copied to where nodes see it.
    pub(super) fn jobs(&self, command: &'static [&'static str]) -> Result<NodeJobs<'a>, Failure> {
        let executable = match &self.settings.executable {
            Some(executable) => executable.clone(),
            None => own_program()
                .and_then(|program| stage(&program, &self.directory))
                .map_err(Failure::new)?,
        };
        let pods = self.settings.kubernetes.as_ref();
        let home = pods.and_then(|pods| pods.home.as_ref()).unwrap_or(&self.places.home);
        let user = OsString::from(account_name().unwrap_or_default());
        let mut environment = vec![
            ("HOME", home.clone().into_os_string()),
            ("USER", user.clone()),
            ("LOGNAME", user),
            ("PATH", PATH.into()),
            ("LANG", "C.UTF-8".into()),
        ];
        // Pods have a home of their own.
        if pods.is_none() {
            let config = std::env::var_os("XDG_CONFIG_HOME");
            environment.extend(config.map(|path| ("XDG_CONFIG_HOME", path)));
        }
        let state = self.settings.state.clone();
        let lease = self.settings.lease.map_or(Lease::TTL, |lease| lease.duration());
        Ok(NodeJobs {
            executable,
            command,
            environment,
            state: state.unwrap_or_else(|| self.places.state.join("nodes")),
            lease: lease.clamp(Lease::SHORTEST, Lease::LONGEST),
            secrets: self.settings.secrets.clone(),
            store: Store::new(self.places.secrets()),
            runner: self.launcher,
        })
    }
}

/// Opens the queue, if nodes can open it too by the user's settings: no job carries its address or its password. A store that is
/// away is waited for so long.
///
/// # Errors
/// Returns an error for a queue that is not in a database, or that a variable names.
pub(super) fn shared_queue(places: &Places, patience: Duration) -> Result<TaskQueue, Failure> {
    let queue = task_queue::open_within(places, patience)?;
    let refused = |what: &str| {
        let hint = "name a PostgreSQL database as `task_database` in config.toml, and put its password into ~/.pgpass";
        Err(Failure::new(what).hint(Some(hint.to_owned())))
    };
    match queue.store() {
        AnyStore::Local(_) => {
            refused("the queue is a file on this machine, which nodes cannot use")
        }
        AnyStore::Shared(_, variables) if variables.contains(&DATABASE_VARIABLE) => {
            refused("the queue is named by DATABASE_URL, which no job gets")
        }
        AnyStore::Shared(..) => Ok(queue),
    }
}
