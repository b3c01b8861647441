//! The settings of Kubernetes: the table `[kubernetes]` of `cluster.toml`.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Fields of a pod that pinfold sets itself, or that would give the pod a key of the cluster's (PodSpec of core/v1).
const OWN_OF_POD: [&str; 9] = [
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "containers",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostPID",
    "restartPolicy",
    "shareProcessNamespace",
    "terminationGracePeriodSeconds",
];
/// Fields of its container that pinfold sets itself, or by which a secret would get into a job (Container of core/v1).
const OWN_OF_CONTAINER: [&str; 9] =
    ["args", "command", "env", "envFrom", "image", "lifecycle", "name", "stdin", "tty"];

/// How attempts are placed as jobs of Kubernetes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesSettings {
    /// The image of the pods. It has git, `/usr/bin/env` and what the repositories' tests need.
    pub image: String,
    /// The namespace of the jobs; that of the context by default.
    pub namespace: Option<String>,
    /// The context of the user's kubectl; the current one by default.
    pub context: Option<String>,
    /// The home directory in the pods; that of this machine by default.
    pub home: Option<PathBuf>,
    /// Fields of each pod in Kubernetes' own words: volumes, tolerations, a node selector.
    #[serde(default)]
    pub pod: Map<String, Value>,
    /// Fields of its container: volume mounts, resources, a security context.
    #[serde(default)]
    pub container: Map<String, Value>,
}

impl KubernetesSettings {
    /// Returns what is wrong with the values.
    pub(super) fn wrong(&self) -> Option<String> {
        if self.image.is_empty() || self.image.contains(char::is_whitespace) {
            return Some("`kubernetes.image` has to be the name of an image".to_owned());
        }
        let words = [("namespace", &self.namespace), ("context", &self.context)];
        for (name, word) in words {
            if word.as_deref().is_some_and(|word| word.is_empty() || word.starts_with('-')) {
                return Some(format!("`kubernetes.{name}` has to be a name"));
            }
        }
        if self.home.as_deref().is_some_and(std::path::Path::is_relative) {
            return Some("`kubernetes.home` has to be an absolute path".to_owned());
        }
        let own = [
            ("pod", &self.pod, &OWN_OF_POD[..]),
            ("container", &self.container, &OWN_OF_CONTAINER[..]),
        ];
        for (table, fields, own) in own {
            if let Some(field) = fields.keys().find(|field| own.contains(&field.as_str())) {
                return Some(format!("pinfold sets `kubernetes.{table}.{field}` itself"));
            }
        }
        let lists = [
            ("pod.volumes", self.pod.get("volumes")),
            ("container.volumeMounts", self.container.get("volumeMounts")),
        ];
        let broken = lists.iter().find(|(_, list)| list.is_some_and(|list| !list.is_array()));
        if let Some((name, _)) = broken {
            return Some(format!("`kubernetes.{name}` has to be a list"));
        }
        let resources = self.container.get("resources");
        if resources.is_some_and(|resources| !resources.is_object()) {
            return Some("`kubernetes.container.resources` has to be a table".to_owned());
        }
        None
    }
}
