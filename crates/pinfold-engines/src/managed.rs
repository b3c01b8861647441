//! What manages the containers of sessions: Docker, Podman, Apple's `container` and plug-ins.
//!
//! The first two are used by their command lines, which agree on nearly everything, and which know by
//! themselves where a user's engine is and how it is reached.

mod apple;
mod arguments;
mod known;
mod plugin;

use std::path::{Path, PathBuf};

use pinfold_boundary::managed::{Container, Lacks, Manager};
use pinfold_boundary::{Finding, LaunchError};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::orphans;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::live_sessions;
use pinfold_policy::project::ImageEngine;

pub use self::apple::Apple;
use self::arguments::Machine;
use self::known::{Daemon, Known};
pub use self::plugin::Plugin;
use crate::image::{Engine, ImageError};

/// The label that says whose session a container is.
const LABEL: &str = "dev.pinfold.session";
/// An image with nothing in it: everything is mounted.
const EMPTY: &str = "pinfold-empty:1";

/// Docker or Podman.
#[derive(Debug)]
pub struct CommandLine {
    launcher: Launcher,
    engine: ImageEngine,
    /// Directories in which a sandbox may have written.
    not_in: Vec<PathBuf>,
}

impl CommandLine {
    /// Returns an engine; no program of it is taken from these directories.
    pub fn new(launcher: Launcher, engine: ImageEngine, not_in: Vec<PathBuf>) -> Self {
        Self { launcher, engine, not_in }
    }

    /// Returns whether its program is on this machine.
    pub fn is_installed(&self) -> bool {
        self.find().is_ok()
    }

    /// Finds the engine; what it does can be interrupted.
    fn find(&self) -> Result<Engine, ImageError> {
        self.found_by(&self.launcher.interruptible().unwrap_or_else(|_| self.launcher.clone()))
    }

    fn found_by(&self, launcher: &Launcher) -> Result<Engine, ImageError> {
        Engine::find(launcher, self.engine, &self.not_in)
    }

    /// Starts a container of an image that is named by its digest: what a name means, others can change.
    fn run(&self, container: &Container) -> Result<(), ImageError> {
        let engine = self.find()?;
        let start = |known: &Known| {
            let words = arguments::run(self.engine, container, known, &Machine::find());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            engine.command("start a container", &words).map(drop)
        };
        match Known::recall(&engine).as_ref().map(start) {
            None => {}
            Some(Err(ImageError::Failed { said, .. })) if is_missing(&said) => {}
            Some(started) => return started,
        }
        let image = self.import(&engine, container.seccomp.as_path())?;
        let known = Known { image, daemon: Daemon::ask(self.engine, &engine)? };
        known.remember(&engine);
        start(&known)
    }

    /// Returns which limits containers of this user's do not get, who is not root.
    fn lacks_of_user(&self) -> Result<Lacks, ImageError> {
        if self.engine == ImageEngine::Docker {
            let engine = self.find()?;
            // What was remembered wrongly is found out: what an engine sets is looked at.
            let daemon = match Known::recall(&engine) {
                Some(known) => known.daemon,
                None => Daemon::ask(self.engine, &engine)?,
            };
            if daemon == Daemon::Roots {
                return Ok(Lacks::default());
            }
            let driver =
                engine.command("ask for its driver", &["info", "--format={{.CgroupDriver}}"])?;
            if driver.trim() == "none" {
                let cause = "rootless docker bounds it only with control groups of version 2";
                let lacks = || Some(cause.to_owned());
                return Ok(Lacks { cpus: lacks(), memory: lacks() });
            }
        }
        Ok(delegated(self.engine))
    }

    fn failed(&self, error: &ImageError) -> LaunchError {
        let (said, hint) = (error.to_string(), error.hint());
        LaunchError::Engine { engine: self.name(), said, hint }
    }

    fn remove_named(&self, name: &str) {
        // One that is not there is what was wanted. It is removed, too, after an interrupt.
        if let Ok(engine) = self.found_by(&self.launcher) {
            let _ = engine.command("remove a container", &["rm", "--force", name]);
        }
    }

    /// Makes the image from an archive without files, which is two blocks of zeros (tar(5)); its digest.
    fn import(&self, engine: &Engine, scratch: &Path) -> Result<String, ImageError> {
        let doing = "make an empty image";
        let archive = scratch.with_file_name("empty.tar");
        let own = |cause| ImageError::Own { doing: "write", path: archive.clone(), cause };
        std::fs::write(&archive, [0; 1024]).map_err(own)?;
        let path = archive.display().to_string();
        let said = engine.command(doing, &["import", &path, EMPTY])?;
        let digits = said.lines().last().unwrap_or_default().trim().trim_start_matches("sha256:");
        let is_digest = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_digest {
            Ok(format!("sha256:{digits}"))
        } else {
            Err(ImageError::Unnamed { engine: self.engine, name: EMPTY.to_owned() })
        }
    }
}

/// Removes the container of a session that is no more, where an engine was kept from doing so. No program
/// of an engine's is taken from these directories.
pub fn sweep(launcher: &Launcher, boundary: &str, session: &str, not_in: &[PathBuf]) {
    let of = |engine| CommandLine::new(launcher.clone(), engine, not_in.to_vec());
    let all = [ImageEngine::Docker, ImageEngine::Podman].map(of);
    if let Some(engine) = all.into_iter().find(|engine| engine.label() == boundary) {
        engine.remove_named(&format!("pinfold-{session}"));
    }
}

/// Containers of sessions that are no more, with the line that removes one.
fn leftovers<'n>(
    names: impl Iterator<Item = &'n str>,
    line: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let Ok(places) = Places::find() else { return Vec::new() };
    let live = live_sessions(&places);
    let is_left = |name: &&str| {
        let session = name.strip_prefix("pinfold-");
        session.is_some_and(|id| SessionId::parse(id).is_some() && !live.contains(id))
    };
    let left = names.filter(is_left).map(|name| Finding {
        what: format!("the container {name} is of no session that lives here"),
        hint: Some(format!("if no other user has it: `{}`", line(name))),
        fatal: false,
    });
    left.collect()
}

/// Limits that systemd delegates no controller for to this user's manager
/// (systemd.resource-control(5)), so that an engine of the user's own does not set them.
fn delegated(engine: ImageEngine) -> Lacks {
    let id = rustix::process::geteuid().as_raw();
    let own =
        format!("/sys/fs/cgroup/user.slice/user-{id}.slice/user@{id}.service/cgroup.controllers");
    let controllers = std::fs::read_to_string(own).unwrap_or_default();
    let lacks = |controller: &str| {
        let has = controllers.split_whitespace().any(|one| one == controller);
        (!has).then(|| {
            format!(
                "rootless {engine} bounds it only where systemd delegates the {controller} controller \
                 of control groups of version 2"
            )
        })
    };
    Lacks { cpus: lacks("cpu"), memory: lacks("memory") }
}

/// Returns whether an image is not there, as both say it.
fn is_missing(said: &str) -> bool {
    let said = said.to_lowercase();
    ["unable to find image", "no such image", "image not known"]
        .iter()
        .any(|text| said.contains(text))
}

impl Manager for CommandLine {
    fn label(&self) -> &'static str {
        match self.engine {
            ImageEngine::Docker => "container (docker)",
            ImageEngine::Podman => "container (podman)",
        }
    }

    fn name(&self) -> &'static str {
        self.engine.as_str()
    }

    fn lacks(&self) -> Result<Lacks, LaunchError> {
        if rustix::process::geteuid().is_root() {
            return Ok(Lacks::default());
        }
        self.lacks_of_user().map_err(|error| self.failed(&error))
    }

    fn probe(&self) -> Vec<Finding> {
        const NAMES: [&str; 5] =
            ["ps", "--all", "--filter", "label=dev.pinfold.session", "--format"];
        let words = [&NAMES[..], &["{{.Names}}"]].concat();
        let list = || self.find().and_then(|engine| engine.command("list its containers", &words));
        // A user's own Podman leaves a process that keeps a namespace for later commands, and none may follow.
        let is_users = self.engine == ImageEngine::Podman && !rustix::process::geteuid().is_root();
        match if is_users { orphans::end_those_of(list) } else { list() } {
            Ok(names) => {
                leftovers(names.lines(), |name| format!("{} rm --force {name}", self.engine))
            }
            Err(error) => {
                vec![Finding { what: error.to_string(), hint: error.hint(), fatal: true }]
            }
        }
    }

    fn start(&self, container: &Container) -> Result<(), LaunchError> {
        self.run(container).map_err(|error| {
            self.remove(container);
            self.failed(&error)
        })
    }

    fn remove(&self, container: &Container) {
        self.remove_named(&container.name);
    }
}
