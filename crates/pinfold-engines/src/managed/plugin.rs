//! A boundary of somebody else's: an executable that is asked by a verb (requirement 2.10).
//!
//! Its first argument is the verb; the question is JSON on its input, and so is its answer on its output.
//! Whatever it does, it is waited for only so long, and only so much is read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_boundary::managed::{Container, Lacks, Manager};
use pinfold_boundary::{Finding, LaunchError};
use pinfold_host::Refusal;
use pinfold_host::launcher::{Bounds, Launcher};
use pinfold_host::within::leads_within;
use pinfold_policy::path::HostPath;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::leftovers;

/// The protocol's version, in every question and every answer.
const VERSION: u64 = 1;
/// Ends a container.
const STOP: &str = "stop";
/// Bytes of an answer, and of what is written to standard error with it.
const MOST: usize = 64 << 10;
/// How long a question may take, and how long something to be started.
const PATIENCE: Patience =
    Patience { quick: Duration::from_secs(10), long: Duration::from_secs(60) };

#[derive(Debug, Clone, Copy)]
struct Patience {
    quick: Duration,
    long: Duration,
}

/// A plug-in.
#[derive(Debug)]
pub struct Plugin {
    launcher: Launcher,
    program: HostPath,
    patience: Patience,
}

#[derive(Deserialize)]
struct Available {
    available: bool,
    reason: Option<String>,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Capabilities {
    cpus: bool,
    #[serde(default)]
    memory: bool,
}

#[derive(Deserialize)]
struct Listed {
    containers: Vec<String>,
}

#[derive(Deserialize)]
struct Done {}

#[derive(Serialize)]
struct Asked<'a> {
    name: &'a str,
    session: &'a str,
    user: Value,
    argv: &'a [String],
    mounts: Vec<Value>,
    seccomp: String,
    cpus: Option<f64>,
    memory: Option<u64>,
}

impl Plugin {
    /// Returns a plug-in; neither its program nor what that starts by name is taken from these directories.
    pub fn new(launcher: &Launcher, program: HostPath, not_in: &[PathBuf]) -> Self {
        let launcher = launcher.leaving_out(not_in);
        Self { launcher, program, patience: PATIENCE }
    }

    /// Asks it; what is wrong, in words that name it.
    fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        verb: &str,
        mut question: Value,
        patience: Duration,
    ) -> Result<T, Refusal> {
        let failed = |what: &str| {
            let what = plain(what);
            Refusal::new(format!("{}, asked to {verb}: {what}", self.program.escaped()))
        };
        let file = self.file().map_err(|what| failed(&what.to_string()))?;
        question["version"] = VERSION.into();
        let arguments = [verb.to_owned()];
        let question = question.to_string();
        let bounds = Bounds { patience, most: MOST };
        // After an interrupt a container is still stopped.
        let launcher = match self.launcher.interruptible() {
            Ok(launcher) if verb != STOP => launcher,
            _ => self.launcher.clone(),
        };
        let answer =
            launcher.ask(&file, &arguments, question.as_bytes(), bounds).map_err(|error| {
                match error.kind() {
                    std::io::ErrorKind::TimedOut => failed("it does not answer"),
                    std::io::ErrorKind::FileTooLarge => failed("it says more than 64 KiB"),
                    _ => failed(&error.to_string()),
                }
            })?;
        if answer.code != Some(0) {
            let said = String::from_utf8_lossy(&answer.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            return Err(failed(last.unwrap_or("it fails and says nothing")));
        }
        let value: Value = serde_json::from_slice(&answer.stdout)
            .map_err(|error| failed(&format!("its answer is not JSON: {error}")))?;
        if value["version"] != VERSION {
            return Err(failed(&format!("its answer is not of version {VERSION}")));
        }
        if let Some(error) = value["error"].as_str() {
            return Err(failed(error));
        }
        serde_json::from_value(value)
            .map_err(|error| failed(&format!("its answer lacks something: {error}")))
    }

    /// Returns its file, which no sandbox may have written or chosen.
    fn file(&self) -> Result<PathBuf, Refusal> {
        let path = self.program.as_path();
        let file = std::fs::canonicalize(path).map_err(Refusal::of)?;
        if leads_within(path, self.launcher.left_out()) {
            Err("it is in a workspace, where a session may have changed it".into())
        } else {
            Ok(file)
        }
    }

    fn error(&self, said: &Refusal) -> LaunchError {
        let said = said.to_string();
        let hint = "docs/guides/plugins.md says what a plug-in is asked".to_owned();
        LaunchError::Engine { engine: self.name(), said, hint: Some(hint) }
    }
}

/// Returns what can be shown of somebody else's text.
fn plain(said: &str) -> String {
    said.chars().filter(|c| !c.is_control()).take(400).collect()
}

/// Returns a container as it is asked for; paths that are not UTF-8 have been refused before.
fn asked(container: &Container) -> Asked<'_> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mounts = container.mounts.iter().map(|mount| {
        json!({
            "source": text(mount.from.as_path()),
            "target": mount.to,
            "writable": mount.is_writable,
        })
    });
    Asked {
        name: &container.name,
        session: &container.session,
        user: json!({ "uid": container.user.0, "gid": container.user.1 }),
        argv: &container.argv,
        mounts: mounts.collect(),
        seccomp: text(container.seccomp.as_path()),
        cpus: container.cpus.map(|share| f64::from(share) / 1000.0),
        memory: container.memory,
    }
}

impl Manager for Plugin {
    fn label(&self) -> &'static str {
        "external"
    }

    fn name(&self) -> &'static str {
        "external"
    }

    fn lacks(&self) -> Result<Lacks, LaunchError> {
        let asked = self.ask::<Capabilities>("capabilities", json!({}), self.patience.quick);
        let Capabilities { cpus, memory } = asked.map_err(|said| self.error(&said))?;
        let lacks =
            |has: bool| (!has).then(|| format!("{} does not enforce it", self.program.escaped()));
        Ok(Lacks { cpus: lacks(cpus), memory: lacks(memory) })
    }

    fn probe(&self) -> Vec<Finding> {
        let fatal = |what, hint| vec![Finding { what, hint, fatal: true }];
        match self.ask::<Available>("is_available", json!({}), self.patience.quick) {
            Err(what) => return fatal(what.to_string(), None),
            Ok(Available { available: false, reason, hint }) => {
                let reason = reason.unwrap_or_else(|| "it says no more".to_owned());
                let what =
                    format!("{} is not available: {}", self.program.escaped(), plain(&reason));
                return fatal(what, hint.as_deref().map(plain));
            }
            Ok(_) => {}
        }
        match self.ask::<Listed>("list", json!({}), self.patience.quick) {
            Err(what) => fatal(what.to_string(), None),
            Ok(Listed { containers }) => leftovers(containers.iter().map(String::as_str), |name| {
                format!(
                    "echo '{{\"version\":1,\"name\":\"{name}\"}}' | {} stop",
                    self.program.escaped()
                )
            }),
        }
    }

    fn start(&self, container: &Container) -> Result<(), LaunchError> {
        let ready = self.ask::<Done>("ensure_running", json!({}), self.patience.long);
        let Done {} = ready.map_err(|said| self.error(&said))?;
        let question = json!({ "container": asked(container) });
        let Done {} = self.ask("launch", question, self.patience.long).map_err(|said| {
            self.remove(container);
            self.error(&said)
        })?;
        Ok(())
    }

    fn remove(&self, container: &Container) {
        // One that is not there is what was wanted.
        let _ = self.ask::<Done>(STOP, json!({ "name": container.name }), self.patience.quick);
    }
}

#[cfg(test)]
mod tests;
