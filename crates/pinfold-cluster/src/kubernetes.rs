//! Kubernetes by the user's kubectl: jobs of batch/v1.
//!
//! The user's kubectl decides how the cluster is reached and who the user is. No word of a job is secret: all who may list jobs of
//! the namespace read them. The name of a job has its run in it, so the API server refuses to create it twice. A pod that
//! disappears while it runs is replaced by another one of the same job, which finds its attempt claimed, and ends.

mod manifest;
mod state;

use std::ffi::OsString;
use std::time::Duration;

use pinfold_host::Refusal;
use pinfold_host::launcher::{Bounds, HostProgram, Launcher};
use serde_json::Value;

use crate::plain;
use crate::scheduler::{Job, JobId, JobName, JobRequest, JobState, Scheduler, SchedulerError};
use crate::settings::KubernetesSettings;

use manifest::{CONTAINER, MANAGED, RUN, TASK, name_of};
use state::Objects;

/// How long kubectl may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits for one answer of the API server.
const REQUEST: &str = "--request-timeout=20s";
/// The most that it may print, in bytes: some thousands of jobs with their pods.
const MOST: usize = 64 << 20;
/// How much of what a job printed is shown, in bytes and lines.
const SHOWN: usize = 2_000;
const LINES: u32 = 50;
/// The time after its longest that a job gets to end its sandbox and report.
const SPARE: Duration = Duration::from_secs(120);
/// What the API server, or kubectl before it, says of a job that no repetition helps.
const REFUSALS: [&str; 6] = [
    "(forbidden)",
    "(invalid)",
    "(badrequest)",
    "(notfound)",
    "is invalid",
    "error validating data",
];
/// What it says if the namespace is full at the moment, or if the user has no right to do so: a server that has just started
/// knows no rights yet.
const TRANSIENT: [&str; 2] = ["exceeded quota", "cannot create resource"];
/// Variables of the caller's that kubectl and its plug-ins for logins need.
const KEPT: [&str; 3] = ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// Kubernetes.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    kubectl: HostProgram,
    settings: KubernetesSettings,
}

impl Kubernetes {
    /// Finds kubectl.
    ///
    /// # Errors
    /// Returns a refusal if it is missing.
    pub fn find(settings: &KubernetesSettings, launcher: &Launcher) -> Result<Self, Refusal> {
        let kubectl = launcher.find("kubectl", &[]).map_err(|missing| {
            let hint =
                "install it (package kubernetes-client), or remove [kubernetes] from cluster.toml";
            Refusal::new("no kubectl can be used").because(missing).with_hint(hint.to_owned())
        })?;
        Ok(Self { kubectl, settings: settings.clone() })
    }

    /// Runs kubectl, and returns what it printed.
    fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, SchedulerError> {
        let mut argv = vec![self.kubectl.path().as_os_str().to_owned(), REQUEST.into()];
        let options =
            [("namespace", &self.settings.namespace), ("context", &self.settings.context)];
        for (name, value) in options {
            argv.extend(value.as_ref().map(|value| OsString::from(format!("--{name}={value}"))));
        }
        argv.extend(arguments.iter().map(OsString::from));
        let bounds = Bounds { patience: PATIENCE, most: MOST };
        let launcher = self.kubectl.launcher();
        let output = launcher
            .run_bounded(argv, &[("LC_ALL", "C")], &KEPT, input, bounds)
            .map_err(|error| SchedulerError::Unavailable(format!("kubectl: {error}")))?;
        if output.code == Some(0) {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(error_of(&String::from_utf8_lossy(&output.stderr)))
    }

    /// Lists jobs and pods with these labels.
    fn list(&self, kinds: &str, labels: &str) -> Result<Objects, SchedulerError> {
        let selector = format!("--selector={},{labels}", selected(MANAGED.0, MANAGED.1));
        let selector = selector.trim_end_matches(',');
        let printed = self.run(&["get", kinds, selector, "--output=json"], None)?;
        serde_json::from_str(&printed).map_err(|error| {
            SchedulerError::Unavailable(format!("kubectl printed what cannot be read: {error}"))
        })
    }

    fn delete(&self, job: &JobName) -> Result<(), SchedulerError> {
        let name = name_of(job);
        // Its pods are deleted with it, in the background.
        self.run(&["delete", "job", &name, "--ignore-not-found", "--wait=false"], None).map(drop)
    }
}

impl Scheduler for Kubernetes {
    fn name(&self) -> &'static str {
        "Kubernetes"
    }

    fn submit(&self, request: &JobRequest) -> Result<JobId, SchedulerError> {
        let job = manifest::job(request, &self.settings)?;
        let text = job.to_string();
        let printed =
            self.run(&["create", "--filename=-", "--output=json"], Some(text.as_bytes()))?;
        id_of(&printed, &job).inspect_err(|error| {
            if let SchedulerError::Refused(_) = error {
                // A job that stays finds its attempt taken, or its placement gone.
                let _ = self.delete(&request.name);
            }
        })
    }

    fn find_submitted(&self, request: &JobRequest) -> Result<Vec<JobId>, SchedulerError> {
        let job = manifest::job(request, &self.settings)?;
        let name = name_of(&request.name);
        let printed =
            self.run(&["get", "job", &name, "--ignore-not-found", "--output=json"], None)?;
        if printed.trim().is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![id_of(&printed, &job)?])
    }

    fn find(&self, job: &JobName) -> Result<Vec<JobId>, SchedulerError> {
        let (task, run) = (job.task.to_string(), job.run.to_string());
        let labels = [selected(TASK, &task), selected(RUN, &run)].join(",");
        Ok(self.list("jobs", &labels)?.ids(job))
    }

    fn observe(&self, jobs: &[Job]) -> Result<Vec<JobState>, SchedulerError> {
        Ok(self.list("jobs,pods", "")?.states(jobs))
    }

    fn cancel(&self, job: &Job) -> Result<(), SchedulerError> {
        self.delete(&job.name)
    }

    fn output(&self, job: &JobName) -> String {
        let selector = format!("--selector={}", selected(RUN, &job.run.to_string()));
        let (container, lines) = (format!("--container={CONTAINER}"), format!("--tail={LINES}"));
        let printed = self.run(&["logs", &selector, &container, &lines], None).unwrap_or_default();
        let end = printed.as_bytes().get(printed.len().saturating_sub(SHOWN)..);
        plain(&String::from_utf8_lossy(end.unwrap_or_default()))
    }

    fn no_output(&self) -> &'static str {
        "the user may lack the right to get pods/log in the namespace"
    }

    fn clean_up(&self, job: &JobName) {
        // Otherwise Kubernetes removes it after a while.
        let _ = self.delete(job);
    }
}

/// Returns the id of a stored job, as kubectl prints it.
///
/// # Errors
/// Returns an error for what is no job, and a refusal for one that is not as it was submitted.
fn id_of(printed: &str, submitted: &Value) -> Result<JobId, SchedulerError> {
    let stored: Value = serde_json::from_str(printed).unwrap_or_default();
    let Some(id) = stored.pointer("/metadata/uid").and_then(Value::as_str) else {
        return Err(SchedulerError::Unavailable("kubectl printed no job".to_owned()));
    };
    match manifest::changed(&stored, submitted) {
        Some(what) => {
            Err(SchedulerError::Refused(format!("{what} of the job is not what was submitted")))
        }
        None => Ok(JobId(id.to_owned())),
    }
}

fn selected(label: &str, value: &str) -> String {
    format!("{label}={value}")
}

/// Returns the error by what kubectl said.
fn error_of(said: &str) -> SchedulerError {
    let message = format!("kubectl: {}", plain(said));
    let said = said.to_lowercase();
    let has_any = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has_any(&REFUSALS) && !has_any(&TRANSIENT) {
        return SchedulerError::Refused(message);
    }
    SchedulerError::Unavailable(message)
}

#[cfg(test)]
mod tests;
