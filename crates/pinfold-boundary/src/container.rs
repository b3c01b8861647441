//! The `container` boundary: a container engine runs the sandbox.
//!
//! An OCI runtime gets a bundle whose root is the tree that the `namespace` boundary would stand on:
//! same grants, views, masks and network, made by the same code, so the verdicts are the same. The
//! engine then makes a container of it, in namespaces of the engine's own below those in which the
//! tree was made, and starts this program as process 1. Nothing of the engine's lies on the
//! host: bundle and state are in the memory of a mount namespace that ends with the container.

mod backing;
mod config;
mod engine;
mod engine_root;
mod enter;
mod listed;
mod machine;
mod program;
mod runtime;
mod spec;

pub use engine::Engine;
pub use enter::run_as_init;
pub use machine::{Birth, init_path, open_doors, start_init};

use std::path::{Path, PathBuf};

use pinfold_policy::path::{HostPath, InsidePath};

use self::program::LeftOut;
use self::runtime::Runtime;
use crate::namespace::{self, Wall};
use crate::plan::{Entry, Landlock, LaunchPlan, Place};
use crate::{Boundary, Feature, Inside, LaunchError, Probe, Session};

/// Where init lies inside, in a directory that nothing there can write to.
const INIT: &str = "/run/pinfold/init";
/// The word after which the engine tells it the number of its channel.
const SUBCOMMAND: &str = "container-init";

/// A container engine of this machine.
#[derive(Debug, Clone)]
pub struct Container {
    engine: Engine,
    init: HostPath,
    not_in: LeftOut,
}

impl Container {
    /// Returns the boundary that this engine makes. `init` is the static executable that it starts
    /// inside, which calls [`run_as_init`].
    #[must_use]
    pub fn new(engine: Engine, init: HostPath) -> Self {
        Self { engine, init, not_in: LeftOut::NOTHING }
    }

    /// Returns the same, with no engine's program taken from these directories, in which a sandbox may
    /// have written. `leads_within` says whether a path leads into one of them, or through a link in one.
    #[must_use]
    pub fn not_in(
        self,
        directories: Vec<PathBuf>,
        leads_within: fn(&Path, &[PathBuf]) -> bool,
    ) -> Self {
        Self { not_in: LeftOut::new(directories, leads_within), ..self }
    }
}

impl Boundary for Container {
    fn name(&self) -> &'static str {
        self.engine.label()
    }

    fn lacks(&self) -> &'static [Feature] {
        if self.engine.has_own_kernel() {
            &[Feature::Landlock, Feature::Nested, Feature::Root]
        } else {
            &[Feature::Nested, Feature::Root]
        }
    }

    fn probe(&self) -> Probe {
        match self.engine.find(&self.not_in) {
            Ok(_) => namespace::probe(self),
            Err(error) => Probe::unusable(&error),
        }
    }

    fn launch(&self, mut plan: LaunchPlan, session: Session<'_>) -> Result<Inside, LaunchError> {
        let program = self.engine.find(&self.not_in)?;
        if self.engine.has_own_kernel() {
            plan.landlock = without_landlock(plan.landlock)?;
        }
        if self.engine.takes_paths_as_text() {
            are_text(&plan)?;
        }
        let failed = |source| LaunchError::System { what: "cannot name the path of init", source };
        let path = InsidePath::new(INIT).map_err(|error| failed(std::io::Error::other(error)))?;
        plan.tree.push(Entry { path, place: Place::ReadOnly(self.init.clone()) });
        let runtime = Runtime::new(self.engine, program, session.own_interrupt()?)?;
        namespace::launch(plan, Wall::Other(Box::new(runtime)))
    }
}

/// Checks that a plan's paths can all be expressed to an engine.
///
/// # Errors
/// Returns an error for the path that is not UTF-8 text.
fn are_text(plan: &LaunchPlan) -> Result<(), LaunchError> {
    let other = plan.tree.iter().find(|entry| entry.path.as_path().to_str().is_none());
    match other {
        None => Ok(()),
        Some(entry) => Err(LaunchError::Source {
            path: entry.path.to_string(),
            source: std::io::Error::other(
                "its name is not UTF-8, which this container engine cannot mount; runc, crun and \
                 --boundary namespace can",
            ),
        }),
    }
}

/// Returns how much of the second wall a plan has behind a kernel that lacks it: none.
///
/// # Errors
/// Returns an error for a plan that requires it.
fn without_landlock(asked: Landlock) -> Result<Landlock, LaunchError> {
    match asked {
        Landlock::BestEffort | Landlock::AtMost(_) => Ok(Landlock::AtMost(0)),
        Landlock::Required => Err(LaunchError::Wall {
            what: "the policy requires Landlock, which the kernel of this engine does not have; \
                   runc and crun run on one that may have it"
                .to_owned(),
        }),
    }
}
