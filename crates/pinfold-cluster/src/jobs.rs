//! What a job of a task is made of.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_host::Refusal;
use pinfold_host::digest::digest_of_file;
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_secrets::{Place, RunCommand, SecretId, Store, fallbacks_for};
use pinfold_tasks::TaskSpec;
use zeroize::Zeroizing;

use crate::scheduler::{JobName, JobRequest};
use crate::ticket::SecretVariable;

/// Makes the jobs that a dispatcher submits.
pub trait JobMaker {
    /// Returns the job for an attempt at a task that asks for this.
    fn job(&self, name: &JobName, spec: &TaskSpec) -> JobRequest;

    /// Returns whether jobs get secrets after they have claimed their attempts.
    fn has_secrets(&self) -> bool;

    /// Returns the secrets that a job gets.
    ///
    /// # Errors
    /// Returns why there are none, without any of them.
    fn secrets(&self) -> Result<Vec<SecretVariable>, Refusal>;
}

/// Jobs that start this program's worker for one attempt.
pub struct NodeJobs<'a> {
    /// The program, as nodes see it.
    pub executable: PathBuf,
    /// The command of it that works on a placed attempt.
    pub command: &'static [&'static str],
    /// All variables that it gets.
    pub environment: Vec<(&'static str, OsString)>,
    /// The directory that each node keeps its state below.
    pub state: PathBuf,
    /// How long leases last.
    pub lease: Duration,
    /// Secrets that each attempt gets.
    pub secrets: Vec<SecretId>,
    /// Where they are kept.
    pub store: Store,
    /// What runs commands that print secrets.
    pub runner: &'a dyn RunCommand,
}

impl JobMaker for NodeJobs<'_> {
    fn job(&self, name: &JobName, spec: &TaskSpec) -> JobRequest {
        let mut command = vec![self.executable.clone().into_os_string()];
        command.extend(self.command.iter().map(Into::into));
        let lease = format!("--lease={}s", self.lease.as_secs());
        let arguments =
            [lease, name.task.to_string(), name.attempt.to_string(), name.run.to_string()];
        command.extend(arguments.map(OsString::from));
        JobRequest {
            name: *name,
            command,
            environment: self.environment.clone(),
            state: self.state.clone(),
            cpus: spec.limits.cpus,
            memory: spec.limits.memory,
            longest: spec.timeouts.running,
        }
    }

    fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    fn secrets(&self) -> Result<Vec<SecretVariable>, Refusal> {
        self.secrets.iter().map(|id| self.secret(id)).collect()
    }
}

impl NodeJobs<'_> {
    fn secret(&self, id: &SecretId) -> Result<SecretVariable, Refusal> {
        let resolved = self.store.resolve(id, self.runner).map_err(Refusal::of)?;
        // Its server gives a new token each time: two machines that refresh it end each other's.
        if let Place::Login(_) = resolved.found.place {
            return Err(Refusal::new(format!(
                "{id} is a login, which stays on this machine; set a key"
            )));
        }
        let auth = resolved.found.auth;
        let known = fallbacks_for(id.as_str()).find(|fallback| fallback.auth == auth);
        let name = match known {
            Some(fallback) => fallback.name.to_owned(),
            None => format!("{}_API_KEY", id.as_str().to_uppercase().replace(['-', '.'], "_")),
        };
        let value = Zeroizing::new(resolved.secret.expose().to_owned());
        Ok(SecretVariable { name, value })
    }
}

/// Copies a program to a directory that nodes see, under a name with its digest, if it is not there. Returns the copy.
///
/// # Errors
/// Returns the errors of reading and writing, with the path.
pub fn stage(program: &Path, directory: &Path) -> io::Result<PathBuf> {
    let directory = directory.join("bin");
    Places::make_private(&directory)?;
    let digest = digest_of_file(program).at("read", program)?;
    let name = format!("pinfold-{}", digest.trim_start_matches("sha256:"));
    let staged = directory.join(&name);
    if !digest_of_file(&staged).is_ok_and(|there| there == digest) {
        let new = directory.join(format!("{name}.{}", std::process::id()));
        fs::copy(program, &new).at("write", &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).at("make executable", &new)?;
        // Jobs may run the one that is there.
        fs::rename(&new, &staged).at("rename", &new)?;
    }
    Ok(staged)
}
