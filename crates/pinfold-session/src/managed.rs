//! What manages the containers of sessions: Docker, Podman, Apple's `container` and plug-ins.
//!
//! The first two are used by their command lines, which agree on nearly everything, and which know by themselves
//! where a person's engine is and how it is reached.

mod apple;
mod arguments;
mod plugin;

use std::path::{Path, PathBuf};

use pinfold_boundary::managed::{Container, Lacks, Manager};
use pinfold_boundary::{Finding, LaunchError};

pub(crate) use self::apple::Apple;
use self::arguments::Machine;
pub(crate) use self::plugin::Plugin;
use crate::image::{Engine, ImageError};
use crate::places::Places;
use crate::state::{SessionId, live_sessions};
use crate::system::Memo;
use pinfold_policy::project::ImageEngine;

/// The label that says whose session a container is.
const LABEL: &str = "dev.pinfold.session";
/// An image with nothing in it: everything is mounted.
const EMPTY: &str = "pinfold-empty:1";

/// Docker or Podman.
#[derive(Debug)]
pub(crate) struct CommandLine {
    engine: ImageEngine,
    /// Directories in which an inside may have written.
    not_in: Vec<PathBuf>,
}

impl CommandLine {
    pub(crate) fn new(engine: ImageEngine, not_in: Vec<PathBuf>) -> Self {
        Self { engine, not_in }
    }

    /// Whether its program is on this machine.
    pub(crate) fn is_installed(engine: ImageEngine) -> bool {
        Engine::find(Some(engine), &[]).is_ok()
    }

    fn find(&self) -> Result<Engine, ImageError> {
        Engine::find(Some(self.engine), &self.not_in)
    }

    /// From an image that is named by its digest: what a name means, others can change.
    fn run(&self, container: &Container) -> Result<(), ImageError> {
        let engine = self.find()?;
        let start = |image: &str| {
            let words = arguments::run(self.engine, container, image, &Machine::find());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            engine.command("start a container", &words).map(drop)
        };
        let memo = Places::find().ok().map(|places| Memo::of_empty_images(&places));
        let known = memo.as_ref().and_then(|memo| memo.get(&engine.place()));
        match known.map(|image| start(&image)) {
            None => {}
            Some(Err(ImageError::Failed { said, .. })) if is_missing(&said) => {}
            Some(started) => return started,
        }
        let image = self.import(&engine, container.seccomp.as_path())?;
        if let Some(memo) = memo {
            // One that is not remembered is made again.
            let _ = memo.put(&engine.place(), &image);
        }
        start(&image)
    }

    fn remove_named(&self, name: &str) {
        // One that is not there is what was wanted.
        if let Ok(engine) = self.find() {
            let _ = engine.command("remove a container", &["rm", "--force", name]);
        }
    }

    /// Makes the image from an archive without files, which is two blocks of zeros (tar(5)); its digest.
    fn import(&self, engine: &Engine, beside: &Path) -> Result<String, ImageError> {
        let doing = "make an empty image";
        let archive = beside.with_file_name("empty.tar");
        let own = |cause| ImageError::Own { doing: "write", path: archive.clone(), cause };
        std::fs::write(&archive, [0; 1024]).map_err(own)?;
        let path = archive.display().to_string();
        let said = engine.command(doing, &["import", &path, EMPTY])?;
        let digits = said.lines().last().unwrap_or_default().trim().trim_start_matches("sha256:");
        let is_digest = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_digest {
            true => Ok(format!("sha256:{digits}")),
            false => Err(ImageError::Unnamed { engine: self.engine, name: EMPTY.to_owned() }),
        }
    }
}

/// Removes the container of a session that is no more, where an engine was kept from doing so. No program
/// of an engine's is taken from these directories.
pub(crate) fn sweep(boundary: &str, session: &str, not_in: &[PathBuf]) {
    let of = |engine| CommandLine::new(engine, not_in.to_vec());
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
        cure: Some(format!("if no other user has it: `{}`", line(name))),
        fatal: false,
    });
    left.collect()
}

/// Whether an image is not there, as both say it.
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
        let user = rustix::process::geteuid();
        if self.engine == ImageEngine::Docker || user.is_root() {
            return Ok(Lacks::default());
        }
        // What systemd delegates to a user's manager (systemd.resource-control(5)).
        let id = user.as_raw();
        let own = format!(
            "/sys/fs/cgroup/user.slice/user-{id}.slice/user@{id}.service/cgroup.controllers"
        );
        let controllers = std::fs::read_to_string(own).unwrap_or_default();
        let lacks = |controller: &str| {
            let has = controllers.split_whitespace().any(|one| one == controller);
            (!has).then(|| {
                format!(
                    "rootless podman bounds it only where systemd delegates the {controller} controller \
                     of control groups of version 2"
                )
            })
        };
        Ok(Lacks { cpus: lacks("cpu"), memory: lacks("memory") })
    }

    fn probe(&self) -> Vec<Finding> {
        const NAMES: [&str; 5] =
            ["ps", "--all", "--filter", "label=dev.pinfold.session", "--format"];
        let words = [&NAMES[..], &["{{.Names}}"]].concat();
        match self.find().and_then(|engine| engine.command("list its containers", &words)) {
            Ok(names) => {
                leftovers(names.lines(), |name| format!("{} rm --force {name}", self.engine))
            }
            Err(error) => {
                vec![Finding { what: error.to_string(), cure: error.hint(), fatal: true }]
            }
        }
    }

    fn start(&self, container: &Container) -> Result<(), LaunchError> {
        self.run(container).map_err(|error| {
            self.remove(container);
            LaunchError::Engine { engine: self.name(), said: error.to_string(), cure: error.hint() }
        })
    }

    fn remove(&self, container: &Container) {
        self.remove_named(&container.name);
    }
}
