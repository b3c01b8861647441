//! The runner's policy file, as a set-up changes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pinfold_runner::Refusal;
use pinfold_runner::policy::{PATH, Policy};
use pinfold_runner_client::checked;
use serde_json::{Map, Value, json};

use crate::machine::Machine;

/// A policy's text as JSON: what a set-up does not know is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PolicyFile(Map<String, Value>);

impl PolicyFile {
    /// Reads that of a machine, if there is one.
    ///
    /// # Errors
    /// Returns that it is not valid.
    pub(crate) fn read(machine: &Machine) -> Result<Option<Self>, Refusal> {
        let Some(text) = machine.read(Path::new(PATH))? else { return Ok(None) };
        checked(Policy::parse(&text)?)?;
        let object = serde_json::from_slice(&text)
            .map_err(|error| Refusal::plain(format!("{PATH}: {error}")))?;
        Ok(Some(Self(object)))
    }

    /// Returns one without host users.
    pub(crate) fn new(user: &str, state_dir: &Path, program: &Path) -> Self {
        let object = json!({
            "user": user,
            "stateDir": state_dir,
            "program": program,
            "hostUsers": {},
        });
        let Value::Object(object) = object else { return Self(Map::new()) };
        Self(object)
    }

    /// Returns the service user.
    pub(crate) fn user(&self) -> &str {
        self.0.get("user").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the directory of the service users' directories.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.0.get("stateDir").and_then(Value::as_str).unwrap_or_default().into()
    }

    /// Sets pinfold's executable.
    pub(crate) fn set_program(&mut self, program: &Path) {
        self.0.insert("program".to_owned(), json!(program));
    }

    /// Has units show no other processes, where systemd knows how.
    pub(crate) fn hide_processes(&mut self) {
        self.0.insert("privatePids".to_owned(), json!(true));
    }

    /// Sets the project roots of host users. Others stay as they are. One that is new gets a service user of its own
    /// if somebody has that of the policy.
    pub(crate) fn set_roots(&mut self, users: &BTreeMap<String, Vec<String>>) {
        let service = self.user().to_owned();
        let all = self.0.entry("hostUsers").or_insert_with(|| json!({}));
        let Value::Object(all) = all else { return };
        for (name, roots) in users {
            let is_taken = all.values().any(|user| user.get("user").is_none());
            let user = all.entry(name.clone()).or_insert_with(|| {
                if is_taken { json!({ "user": format!("{service}-{name}") }) } else { json!({}) }
            });
            if let Value::Object(user) = user {
                user.insert("projectRoots".to_owned(), json!(roots));
            }
        }
    }

    /// Returns the user that sessions of a host user run as.
    pub(crate) fn service(&self, host_user: &str) -> &str {
        let host_user = self.0.get("hostUsers").and_then(|all| all.get(host_user));
        let own = host_user.and_then(|user| user.get("user")).and_then(Value::as_str);
        own.unwrap_or_else(|| self.user())
    }

    /// Returns the host users, each with its project roots.
    pub(crate) fn host_users(&self) -> Vec<(String, Vec<String>)> {
        let all = self.0.get("hostUsers").and_then(Value::as_object);
        let roots = |user: &Value| {
            let roots = user.get("projectRoots").and_then(Value::as_array);
            roots.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        all.into_iter().flatten().map(|(name, user)| (name.clone(), roots(user))).collect()
    }

    /// Returns its text, which the runner takes.
    ///
    /// # Errors
    /// Returns why the runner would not.
    pub(crate) fn text(&self) -> Result<Vec<u8>, Refusal> {
        let mut text = serde_json::to_vec_pretty(&self.0).map_err(Refusal::plain)?;
        text.push(b'\n');
        checked(Policy::parse(&text)?)?;
        Ok(text)
    }
}
