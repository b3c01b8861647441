//! The state of jobs by what kubectl prints of them and their pods.

use std::collections::HashMap;

use serde::Deserialize;

use super::manifest::{RUN, name_of};
use crate::scheduler::{Job, JobId, JobName, JobState};

/// Reasons for which a container never starts by itself (`containerStatuses[].state.waiting.reason`).
const STUCK: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];
/// The most characters of a message that are shown.
const SHOWN: usize = 300;

/// A list of jobs and pods, as `kubectl get jobs,pods -o json` prints it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Objects {
    #[serde(default)]
    items: Vec<Object>,
}

#[derive(Debug, Deserialize)]
struct Object {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    uid: String,
    #[serde(default)]
    labels: HashMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    phase: String,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Default, Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: String,
}

impl Objects {
    /// Returns the ids of the jobs that are this one.
    pub(super) fn ids(&self, job: &JobName) -> Vec<JobId> {
        let name = name_of(job);
        let jobs =
            self.items.iter().filter(|object| object.kind == "Job" && object.metadata.name == name);
        jobs.map(|object| JobId(object.metadata.uid.clone())).collect()
    }

    /// Returns the states of jobs, in the same order.
    pub(super) fn states(&self, jobs: &[Job]) -> Vec<JobState> {
        let mut pods: HashMap<&str, Vec<&Status>> = HashMap::new();
        let mut known = HashMap::new();
        for object in &self.items {
            let run = object.metadata.labels.get(RUN).map(String::as_str);
            match (object.kind.as_str(), run) {
                ("Job", _) => {
                    let key = (object.metadata.name.as_str(), object.metadata.uid.as_str());
                    known.insert(key, &object.status);
                }
                ("Pod", Some(run)) => pods.entry(run).or_default().push(&object.status),
                _ => {}
            }
        }
        let of = |job: &Job| {
            let name = name_of(&job.name);
            let Some(status) = known.get(&(name.as_str(), job.id.0.as_str())) else {
                return JobState::Unknown;
            };
            let run = job.name.run.to_string();
            state_of(status, pods.get(run.as_str()).map_or(&[], Vec::as_slice))
        };
        jobs.iter().map(of).collect()
    }
}

/// Returns the state of a job. Its own conditions decide whether it has ended: a pod that is gone may be replaced.
fn state_of(job: &Status, pods: &[&Status]) -> JobState {
    let condition = |kind: &str| {
        job.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    };
    if condition("Complete").is_some() {
        return JobState::Ended("Complete".to_owned());
    }
    if let Some(failed) = condition("Failed") {
        let exit = pods.iter().find_map(|pod| exit_of(pod));
        return JobState::Ended(said(
            "Failed",
            &failed.reason,
            exit.as_deref().unwrap_or(&failed.message),
        ));
    }
    let states = || pods.iter().flat_map(|pod| &pod.container_statuses).map(|status| &status.state);
    let stuck = |waiting: &&Waiting| STUCK.contains(&waiting.reason.as_str());
    if let Some(waiting) = states().filter_map(|state| state.waiting.as_ref()).find(stuck) {
        return JobState::Ended(said("Pending", &waiting.reason, &waiting.message));
    }
    if pods.iter().any(|pod| pod.phase != "Pending") {
        JobState::Running
    } else {
        JobState::Waiting
    }
}

/// Returns how the worker of a pod ended, if it did.
fn exit_of(pod: &Status) -> Option<String> {
    let ended =
        pod.container_statuses.iter().find_map(|status| status.state.terminated.as_ref())?;
    Some(format!("exit code {}, {}", ended.exit_code, ended.reason))
}

fn said(state: &str, reason: &str, more: &str) -> String {
    let parts = [state, reason, more].into_iter().filter(|part| !part.is_empty());
    super::plain(&parts.collect::<Vec<_>>().join(", ")).chars().take(SHOWN).collect()
}
