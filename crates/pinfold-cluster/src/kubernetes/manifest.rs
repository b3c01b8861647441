//! The manifest of a job, and whether the cluster stored it as it was.

use std::ffi::OsStr;

use serde_json::{Map, Value, json};

use super::SPARE;
use crate::scheduler::{JobName, JobRequest, SchedulerError};
use crate::settings::KubernetesSettings;

/// The container that the worker runs in.
pub(super) const CONTAINER: &str = "worker";
/// The label of each job and pod of pinfold's.
pub(super) const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "pinfold");
/// The labels with the task, the attempt and the run.
pub(super) const TASK: &str = "pinfold.dev/task";
const ATTEMPT: &str = "pinfold.dev/attempt";
pub(super) const RUN: &str = "pinfold.dev/run";
/// The volume that the worker keeps its state in: overlays need a directory that does not lie on an overlay.
const STATE: &str = "pinfold-state";
/// Variables of the container that Kubernetes fills in. The worker gets them as options.
const POD: &str = "PINFOLD_POD";
const MEMORY: &str = "PINFOLD_MEMORY";
/// How long Kubernetes keeps a job that has ended and that no dispatcher removes, in seconds.
const KEPT: u32 = 3600;

/// Returns the name of a job. It has the run in it, so that a job cannot be created twice.
pub(super) fn name_of(name: &JobName) -> String {
    format!("{name}-{}", name.run)
}

/// Returns the manifest of a job (Job of batch/v1).
///
/// # Errors
/// Returns an error for a path that is not UTF-8, which JSON cannot carry.
pub(super) fn job(
    request: &JobRequest,
    settings: &KubernetesSettings,
) -> Result<Value, SchedulerError> {
    let labels = json!({
        MANAGED.0: MANAGED.1,
        TASK: request.name.task.to_string(),
        ATTEMPT: request.name.attempt.to_string(),
        RUN: request.name.run.to_string(),
    });
    let mut pod = settings.pod.clone();
    let mut volumes = list(&pod, "volumes");
    volumes.push(json!({ "name": STATE, "emptyDir": {} }));
    pod.insert("volumes".to_owned(), volumes.into());
    pod.insert("containers".to_owned(), json!([container(request, settings)?]));
    pod.insert("restartPolicy".to_owned(), "Never".into());
    pod.insert("automountServiceAccountToken".to_owned(), false.into());
    pod.insert("enableServiceLinks".to_owned(), false.into());
    pod.insert("terminationGracePeriodSeconds".to_owned(), SPARE.as_secs().into());
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name_of(&request.name), "labels": labels },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": (request.longest + SPARE).as_secs(),
            "ttlSecondsAfterFinished": KEPT,
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    }))
}

fn container(request: &JobRequest, settings: &KubernetesSettings) -> Result<Value, SchedulerError> {
    let state = text(request.state.as_os_str())?;
    let mut command = vec!["/usr/bin/env".to_owned(), "-i".to_owned()];
    for (name, value) in &request.environment {
        command.push(format!("{name}={}", literal(text(value)?)));
    }
    command.push(format!("XDG_STATE_HOME={}/$({POD})", literal(state)));
    for word in &request.command {
        command.push(literal(text(word)?));
    }
    command.push(format!("--job=$({POD})"));
    command.push(format!("--memory=$({MEMORY})"));
    let mut container = settings.container.clone();
    let mut mounts = list(&container, "volumeMounts");
    mounts.push(json!({ "name": STATE, "mountPath": state }));
    container.insert("volumeMounts".to_owned(), mounts.into());
    container.insert("resources".to_owned(), resources(request, settings));
    container.insert("name".to_owned(), CONTAINER.into());
    container.insert("image".to_owned(), settings.image.as_str().into());
    container.insert("command".to_owned(), command.into());
    // Without a limit of the container's, the memory is what the node can give to pods.
    container.insert(
        "env".to_owned(),
        json!([
            { "name": POD, "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": MEMORY, "valueFrom": { "resourceFieldRef": { "resource": "limits.memory" } } },
        ]),
    );
    Ok(container.into())
}

/// Returns the user's resources with what the task asks for, as requests and as limits.
fn resources(request: &JobRequest, settings: &KubernetesSettings) -> Value {
    let cpus = request.cpus.map(|cpus| ("cpu", format!("{}m", cpus.thousandths())));
    let memory = request.memory.map(|memory| ("memory", memory.bytes().to_string()));
    let mut resources = settings.container.get("resources").cloned().unwrap_or_else(|| json!({}));
    for (name, quantity) in cpus.into_iter().chain(memory) {
        for kind in ["requests", "limits"] {
            resources[kind][name] = quantity.clone().into();
        }
    }
    resources
}

/// Returns what of a stored job is not as it was submitted and must be; none if all is. Controllers of the cluster may change a
/// job on its way, and an old server drops fields that it does not know.
pub(super) fn changed(stored: &Value, submitted: &Value) -> Option<String> {
    const SPEC: &str = "/spec/template/spec";
    let is_worker = |container: &&Value| container["name"] == CONTAINER;
    let worker = |job: &Value| {
        let containers = job.pointer(SPEC)?.get("containers")?.as_array()?;
        containers.iter().find(is_worker).cloned()
    };
    let same = |path: &str| stored.pointer(path) == submitted.pointer(path);
    let paths = [
        "/metadata/name",
        "/spec/backoffLimit",
        "/spec/completions",
        "/spec/parallelism",
        "/spec/template/spec/restartPolicy",
        "/spec/template/spec/automountServiceAccountToken",
    ];
    if let Some(path) = paths.into_iter().find(|path| !same(path)) {
        return Some(path.to_owned());
    }
    // Jobs and their pods are found by them.
    let labels = ["/metadata/labels", "/spec/template/metadata/labels"];
    let has_all = |path: &str| {
        let (Some(stored), Some(Value::Object(own))) =
            (stored.pointer(path), submitted.pointer(path))
        else {
            return false;
        };
        own.iter().all(|(label, value)| stored.get(label) == Some(value))
    };
    if let Some(path) = labels.into_iter().find(|path| !has_all(path)) {
        return Some(path.to_owned());
    }
    // Other containers of the pod could read the worker's memory, which has keys in it.
    let shares = |field: &str| stored.pointer(SPEC).is_some_and(|spec| spec[field] == true);
    if let Some(field) =
        ["shareProcessNamespace", "hostPID"].into_iter().find(|field| shares(field))
    {
        return Some(format!("{SPEC}/{field}"));
    }
    let (Some(stored), Some(submitted)) = (worker(stored), worker(submitted)) else {
        return Some(format!("{SPEC}/containers"));
    };
    let field = ["command", "args", "lifecycle"]
        .into_iter()
        .find(|field| stored[*field] != submitted[*field]);
    field.map(|field| format!("{SPEC}/containers/{CONTAINER}/{field}"))
}

fn list(table: &Map<String, Value>, key: &str) -> Vec<Value> {
    table.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn text(word: &OsStr) -> Result<&str, SchedulerError> {
    let refused = || SchedulerError::Refused("a path of the job is not UTF-8".to_owned());
    word.to_str().ok_or_else(refused)
}

/// Returns a word that Kubernetes passes on as it is: it fills in `$(NAME)` in commands, and takes `$$` for `$`.
fn literal(word: &str) -> String {
    word.replace('$', "$$")
}
