use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use pinfold_host::launcher::Launcher;
use pinfold_host::wrappers::Wrappers;
use pinfold_policy::limits::{ByteSize, MilliCpus};
use pinfold_secrets::Store;
use pinfold_tasks::{TaskId, TaskSpec};
use serde_json::{Value, json};

use super::error_of;
use super::manifest::{changed, job, name_of};
use super::state::Objects;
use crate::jobs::{JobMaker as _, NodeJobs};
use crate::scheduler::{
    Job, JobId, JobName, JobRequest, JobState, RunId, Scheduler as _, SchedulerError,
};
use crate::settings::KubernetesSettings;

fn name() -> JobName {
    let run = "0011223344556677".parse::<RunId>().unwrap();
    JobName { task: TaskId::from_random([7; 16]), attempt: 2, run }
}

fn request(command: &[&str]) -> JobRequest {
    JobRequest {
        name: name(),
        command: command.iter().map(Into::into).collect(),
        environment: vec![("HOME", "/home/$(PINFOLD_POD)".into())],
        state: Path::new("/state").to_owned(),
        cpus: Some("1.5".parse::<MilliCpus>().unwrap()),
        memory: Some("1G".parse::<ByteSize>().unwrap()),
        longest: Duration::from_secs(60),
    }
}

fn settings(text: &str) -> KubernetesSettings {
    toml::from_str(&format!("image = \"agents:1\"\n{text}")).unwrap()
}

#[test]
fn job_runs_once_with_no_variables_but_those_of_the_request() {
    let settings = settings(
        "[container]\nresources = { limits = { \"nvidia.com/gpu\" = 1 } }\n\
         volumeMounts = [{ name = \"work\", mountPath = \"/work\" }]\n\
         [pod]\nnodeSelector = { gpu = \"true\" }\nvolumes = [{ name = \"work\", emptyDir = {} }]",
    );
    let job = job(&request(&["/pinfold", "a b", "$(MEMORY) $x"]), &settings).unwrap();
    let spec = &job["spec"];
    assert_eq!(spec["backoffLimit"], 0);
    assert_eq!(spec["activeDeadlineSeconds"], 180);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["nodeSelector"]["gpu"], "true");
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 2);
    let container = &pod["containers"][0];
    assert_eq!(
        container["command"],
        json!([
            "/usr/bin/env",
            "-i",
            "HOME=/home/$$(PINFOLD_POD)",
            "XDG_STATE_HOME=/state/$(PINFOLD_POD)",
            "/pinfold",
            "a b",
            "$$(MEMORY) $$x",
            "--job=$(PINFOLD_POD)",
            "--memory=$(PINFOLD_MEMORY)"
        ])
    );
    let limits = json!({ "nvidia.com/gpu": 1, "cpu": "1500m", "memory": "1073741824" });
    assert_eq!(container["resources"]["limits"], limits);
    assert_eq!(
        container["volumeMounts"][1],
        json!({ "name": "pinfold-state", "mountPath": "/state" })
    );
}

#[test]
fn job_that_a_controller_of_the_cluster_changed_is_found() {
    let submitted = job(&request(&["/pinfold"]), &settings("")).unwrap();
    let mut injected = submitted.clone();
    let containers = injected.pointer_mut("/spec/template/spec/containers").unwrap();
    containers.as_array_mut().unwrap().insert(0, json!({ "name": "proxy", "command": ["x"] }));
    assert_eq!(changed(&injected, &submitted), None);
    let changes: [(&str, Value); 8] = [
        ("/metadata/labels", json!({})),
        ("/spec/template/metadata/labels/pinfold.dev~1run", json!("ffffffffffffffff")),
        ("/spec/backoffLimit", json!(6)),
        ("/spec/template/spec/restartPolicy", json!("OnFailure")),
        ("/spec/template/spec/automountServiceAccountToken", json!(true)),
        ("/spec/template/spec/containers/0/command", json!(["sh"])),
        ("/spec/template/spec/containers", json!([])),
        ("/metadata/name", json!("other")),
    ];
    for (path, value) in changes {
        let mut stored = submitted.clone();
        *stored.pointer_mut(path).unwrap() = value;
        assert!(changed(&stored, &submitted).is_some(), "{path}");
    }
    let mut shared = submitted.clone();
    shared["spec"]["template"]["spec"]["shareProcessNamespace"] = true.into();
    assert!(changed(&shared, &submitted).is_some());
}

/// kubectl, as far as a test needs it: it prints a file, if there is one, and notes how it was called.
fn kubectl_that_prints(directory: &Path) -> super::Kubernetes {
    let path = directory.join("kubectl");
    let script =
        "#!/bin/sh\ncd \"${0%/*}\" && echo \"$*\" >>calls && { [ ! -e stored ] || cat stored; }\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let kubectl = Launcher::new(Wrappers::none()).program(path);
    super::Kubernetes { kubectl, settings: settings("") }
}

#[test]
fn job_of_a_submission_that_was_not_answered_is_compared_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let kubernetes = kubectl_that_prints(directory.path());
    let request = request(&["/pinfold", "node-worker"]);
    assert!(kubernetes.find_submitted(&request).unwrap().is_empty());
    let mut stored = job(&request, &settings("")).unwrap();
    stored["metadata"]["uid"] = "u1".into();
    let store = |stored: &Value| {
        std::fs::write(directory.path().join("stored"), stored.to_string()).unwrap();
    };
    store(&stored);
    assert_eq!(kubernetes.find_submitted(&request).unwrap(), [JobId("u1".to_owned())]);
    let mut planted = stored.clone();
    planted["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["sh", "-c", "x"]);
    store(&planted);
    let refused = kubernetes.find_submitted(&request).unwrap_err();
    assert!(
        matches!(&refused, SchedulerError::Refused(why) if why.contains("command")),
        "{refused}"
    );
    let calls = std::fs::read_to_string(directory.path().join("calls")).unwrap();
    assert!(!calls.contains("delete"), "the dispatcher decides: {calls}");
}

/// What a task of a shared queue can hold reaches no word of its job but as numbers.
#[test]
fn hostile_task_has_no_word_in_its_job() {
    const EVIL: &str = "x\", \"hostPID\": true, $(PINFOLD_POD) --token=x\n- {}: &a !!x";
    let evil = || Some(EVIL.to_owned());
    let mut spec = TaskSpec {
        repository: Some(EVIL.into()),
        agent: evil(),
        provider: evil(),
        model: evil(),
        identity: evil(),
        group: evil(),
        restore: vec![EVIL.to_owned()],
        sealed: Some(EVIL.into()),
        touches: vec![EVIL.to_owned()],
        ..TaskSpec::new(EVIL, EVIL)
    };
    spec.limits.cpus = Some("1.5".parse().unwrap());
    let runner = Launcher::new(Wrappers::none());
    let jobs = NodeJobs {
        executable: "/pinfold".into(),
        command: &["node-worker"],
        environment: Vec::new(),
        state: "/state".into(),
        lease: Duration::from_secs(60),
        secrets: Vec::new(),
        store: Store::new("/nowhere".into()),
        runner: &runner,
    };
    let made = job(&jobs.job(&name(), &spec), &settings("")).unwrap();
    let harmless = TaskSpec { limits: spec.limits, ..TaskSpec::new("t", "b") };
    assert_eq!(made, job(&jobs.job(&name(), &harmless), &settings("")).unwrap());
    assert!(!made.to_string().contains("token"), "{made}");
}

#[test]
fn settings_cannot_set_what_a_job_is_or_give_it_secrets() {
    let read = |text: &str| {
        let text = format!("executable = \"/pinfold\"\n{text}");
        let places = tempfile::tempdir().unwrap();
        std::fs::write(places.path().join("cluster.toml"), text).unwrap();
        crate::settings::ClusterSettings::read_file(&places.path().join("cluster.toml"))
    };
    assert!(read("[kubernetes]\nimage = \"a\"\npod = { nodeName = \"n1\" }").is_ok());
    for wrong in [
        "[kubernetes]\nimage = \"\"",
        "[kubernetes]\nimage = \"a\"\nnamespace = \"--token=x\"",
        "[kubernetes]\nimage = \"a\"\npod = { restartPolicy = \"Always\" }",
        "[kubernetes]\nimage = \"a\"\npod = { volumes = 1 }",
        "[kubernetes]\nimage = \"a\"\ncontainer = { envFrom = [] }",
        "[kubernetes]\nimage = \"a\"\nsecret = \"x\"",
        "options = [\"--mem=1\"]\n[kubernetes]\nimage = \"a\"",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

/// What kubectl prints of the job, with conditions, and of its pods.
fn printed(conditions: &Value, pods: &[Value]) -> Objects {
    let labels = json!({ "pinfold.dev/run": name().run.to_string() });
    let pod = |status: &Value| json!({ "kind": "Pod", "metadata": { "name": "p", "uid": "p", "labels": labels }, "status": status });
    let mut items = vec![json!({
        "kind": "Job",
        "metadata": { "name": name_of(&name()), "uid": "u1", "labels": labels },
        "status": { "conditions": conditions },
    })];
    items.extend(pods.iter().map(pod));
    serde_json::from_value(json!({ "kind": "List", "items": items })).unwrap()
}

#[test]
fn conditions_of_the_job_decide_whether_it_has_ended() {
    let of = |conditions: Value, pods: &[Value]| {
        let job = Job { name: name(), id: JobId("u1".to_owned()) };
        printed(&conditions, pods).states(&[job]).remove(0)
    };
    let waiting = |reason: &str| json!({ "phase": "Pending", "containerStatuses": [{ "state": { "waiting": { "reason": reason, "message": "no\u{1b}[8m image" } } }] });
    let running = json!({ "phase": "Running" });
    let ended = json!({ "phase": "Failed", "containerStatuses": [{ "state": { "terminated": { "exitCode": 3, "reason": "Error" } } }] });
    assert_eq!(of(json!([]), &[]), JobState::Waiting);
    assert_eq!(of(json!([]), &[waiting("ContainerCreating")]), JobState::Waiting);
    assert_eq!(of(json!([]), std::slice::from_ref(&running)), JobState::Running);
    // The controller has not counted it, or makes another pod.
    assert_eq!(of(json!([]), &[ended.clone(), waiting("ContainerCreating")]), JobState::Running);
    let complete = json!([{ "type": "Suspended", "status": "False" }, { "type": "Complete", "status": "True" }]);
    assert_eq!(of(complete, &[]), JobState::Ended("Complete".to_owned()));
    let failed = json!([{ "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded" }]);
    let said = "Failed, BackoffLimitExceeded, exit code 3, Error".to_owned();
    assert_eq!(of(failed, &[ended]), JobState::Ended(said));
    let said = "Pending, ImagePullBackOff, no [8m image".to_owned();
    assert_eq!(of(json!([]), &[waiting("ImagePullBackOff")]), JobState::Ended(said));
}

#[test]
fn job_of_the_same_name_and_another_id_is_another_job() {
    let objects = printed(&json!([]), &[]);
    let other = Job { name: name(), id: JobId("u2".to_owned()) };
    assert_eq!(objects.states(&[other]), [JobState::Unknown]);
    assert_eq!(objects.ids(&name()), [JobId("u1".to_owned())]);
    let run = "ffffffffffffffff".parse().unwrap();
    assert_eq!(objects.ids(&JobName { run, ..name() }), []);
}

#[test]
fn only_what_no_repetition_helps_is_a_refusal() {
    let is_refusal = |said: &str| matches!(error_of(said), SchedulerError::Refused(_));
    assert!(is_refusal(
        "Error from server (Forbidden): jobs.batch \"x\" is forbidden: violates PodSecurity"
    ));
    assert!(is_refusal(
        "The Job \"pf\" is invalid: spec.template.spec.restartPolicy: Required value"
    ));
    assert!(is_refusal(
        "error: error validating \"STDIN\": error validating data: unknown field \"x\""
    ));
    for transient in [
        "Error from server (Forbidden): error when creating \"STDIN\": jobs \"x\" is forbidden: exceeded quota: jobs",
        "Error from server (Forbidden): jobs.batch is forbidden: User \"x\" cannot create resource \"jobs\"",
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
        "error: You must be logged in to the server (Unauthorized)",
        "Error from server (AlreadyExists): jobs.batch \"pf\" already exists",
    ] {
        assert!(!is_refusal(transient), "{transient}");
    }
}
