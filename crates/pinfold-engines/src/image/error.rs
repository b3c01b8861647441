//! Why there is no image.

use std::io;
use std::path::PathBuf;

use pinfold_host::digest::ContentHash;
use pinfold_image::{ContextError, DockerfileError, LayerError, NoContext, NoName, Reference};
use pinfold_policy::path::Escaped;
use pinfold_policy::project::ImageEngine;
use thiserror::Error;

/// Returns an engine as one that is missing.
const fn is_not(engine: ImageEngine) -> &'static str {
    match engine {
        ImageEngine::Docker => "docker is not",
        ImageEngine::Podman => "podman is not",
    }
}

/// Why an image is not available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No engine, or not the one that is asked for.
    #[error("{} installed", .0.map_or("neither docker nor podman is", is_not))]
    NoEngine(Option<ImageEngine>),
    /// Its program is only where a session may have written.
    #[error("{engine} is not used: {error}")]
    LeftOut { engine: ImageEngine, error: io::Error },
    /// Files that others could change.
    #[error(transparent)]
    NotOwned(#[from] pinfold_host::owned::OwnedError),
    /// It is there and nobody serves it.
    #[error("{engine} does not run: {said}")]
    NotRunning {
        engine: ImageEngine,
        /// What it says.
        said: String,
    },
    /// It runs, and not for this user.
    #[error("you may not use {engine}: {said}")]
    NoAccess {
        engine: ImageEngine,
        /// What it says.
        said: String,
    },
    /// No space.
    #[error("{engine} has no space left on its disk")]
    DiskFull { engine: ImageEngine },
    /// What is to be built on.
    #[error("cannot get the image {reference}: {said}")]
    Missing {
        reference: Reference,
        /// What the engine says.
        said: String,
    },
    /// The image to build on is not there, and nobody is to be asked for it.
    #[error("the image {0} is not here")]
    NotHere(Reference),
    /// An image to run on that an engine does not have.
    #[error("{engine} has no image {name}")]
    NotStored {
        engine: ImageEngine,
        /// The image's name.
        name: String,
    },
    /// An image whose layers nobody can check.
    #[error("{engine} does not say what the layers of the image {name} are")]
    Unnamed {
        engine: ImageEngine,
        /// The image's name.
        name: String,
    },
    /// Something else.
    #[error("{engine} cannot {doing}: {said}")]
    Failed {
        engine: ImageEngine,
        /// What it was to do.
        doing: String,
        /// What it says.
        said: String,
    },
    /// The user ended it.
    #[error("ended by a signal ({0})")]
    Interrupted(i32),
    /// An agent that no image is known for.
    #[error("there is no Dockerfile for agent {agent}")]
    NoFiles {
        agent: String,
        /// Where one could be.
        place: PathBuf,
    },
    /// The agent's files.
    #[error(transparent)]
    Context(#[from] NoContext),
    /// What the repository adds.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// No name for an image.
    #[error(transparent)]
    Name(#[from] NoName),
    /// What the repository adds, and nobody has looked at.
    #[error("{} is not trusted as it is now, and building would execute it", Escaped(.path))]
    Untrusted { path: PathBuf },
    /// A hash was given, and the content has another.
    #[error("the content of {} is {found}, not {given}", Escaped(.path))]
    NotAsGiven {
        path: PathBuf,
        /// The hash that was given.
        given: ContentHash,
        /// The content's own.
        found: ContentHash,
    },
    /// Somebody writes there.
    #[error("the files for the image were changed while they were read")]
    Changed,
    /// A file of pinfold's own.
    #[error("cannot {doing} {}: {cause}", Escaped(.path))]
    Own {
        /// What was tried.
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
}

impl From<ContextError> for ImageError {
    fn from(error: ContextError) -> Self {
        Self::Context(error.into())
    }
}

impl From<DockerfileError> for ImageError {
    fn from(error: DockerfileError) -> Self {
        Self::Context(error.into())
    }
}

impl ImageError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoEngine(_) => {
                "install one of them (Debian: `apt install podman`, or docker.io), or say --engine \
                 if it is the other one that you have"
            }
            Self::LeftOut { .. } => "install it elsewhere, or put that directory before it in PATH",
            Self::NotRunning { engine: ImageEngine::Docker, .. } => {
                "start it (`sudo systemctl start docker`), name its socket in DOCKER_HOST, or say \
                 --engine podman"
            }
            Self::NotRunning { engine: ImageEngine::Podman, .. } => {
                "is CONTAINER_HOST right? without it, podman needs no service"
            }
            Self::NoAccess { engine: ImageEngine::Docker, .. } => {
                "who may use Docker's socket is root on this machine: use rootless Docker or \
                 --engine podman, or have yourself put into its group"
            }
            Self::NoAccess { engine: ImageEngine::Podman, .. } => {
                "rootless podman needs uidmap and a range for you in /etc/subuid and /etc/subgid"
            }
            Self::DiskFull { engine } => {
                return Some(format!(
                    "see `{engine} system df`; `{engine} image prune` frees some"
                ));
            }
            Self::Missing { .. } => {
                "check its name and the network; --offline builds on the one that is here, if one is, \
                 and --base-image on another"
            }
            Self::NotHere(_) => "leave --offline out, or load the image before",
            Self::NotStored { engine, .. } => {
                return Some(format!(
                    "see `{engine} image ls`, or build one with `pinfold image build`"
                ));
            }
            Self::Unnamed { .. }
            | Self::Failed { .. }
            | Self::Interrupted(_)
            | Self::Own { .. } => return None,
            Self::NoFiles { place, .. } => {
                return Some(format!("put one into {}", Escaped(place)));
            }
            Self::NotOwned(error) => return error.hint(),
            Self::Context(NoContext::Files(error)) => return error.hint(),
            Self::Context(NoContext::Dockerfile(error)) => return error.hint(),
            Self::Context(_) => return None,
            Self::Layer(error) => return error.hint(),
            Self::Name(_) => "rename the directory",
            Self::Untrusted { .. } => {
                "look at it with `pinfold trust --image`, or leave it out: `pinfold image build --agent-only`"
            }
            Self::NotAsGiven { .. } => {
                "look at it with `pinfold trust --image`, then give its hash"
            }
            Self::Changed => "try again when nothing writes there",
        };
        Some(hint.to_owned())
    }
}
