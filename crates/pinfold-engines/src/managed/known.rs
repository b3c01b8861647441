//! What is known of an engine before it is asked: each question costs as much as a container's start.

use pinfold_host::directories::Places;
use pinfold_host::memo::Memo;
use pinfold_policy::project::ImageEngine;

use crate::image::{Engine, ImageError};

/// Whose the daemon is that makes containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Daemon {
    /// A daemon that runs as root, or an engine without a daemon, which maps users as its arguments say.
    Roots,
    /// A user's own (rootless mode): in its containers that user is root, by name.
    Users,
}

/// What is remembered of the engine at a place.
#[derive(Debug)]
pub(super) struct Known {
    /// The digest of the image without files that it has.
    pub(super) image: String,
    /// Whose its daemon is.
    pub(super) daemon: Daemon,
}

impl Daemon {
    /// Asks an engine.
    ///
    /// # Errors
    /// Returns an error if it cannot be asked.
    pub(super) fn ask(kind: ImageEngine, engine: &Engine) -> Result<Self, ImageError> {
        // Root's own containers are root's, and Podman has no daemon.
        if kind == ImageEngine::Podman || rustix::process::geteuid().is_root() {
            return Ok(Self::Roots);
        }
        let words = ["info", "--format={{.SecurityOptions}}"];
        let options = engine.command("ask whose its daemon is", &words)?;
        Ok(if options.contains("name=rootless") { Self::Users } else { Self::Roots })
    }
}

impl Known {
    /// Returns what was remembered, if it was.
    pub(super) fn recall(engine: &Engine) -> Option<Self> {
        let places = Places::find().ok()?;
        let of = |daemon| {
            let image = memo(&places, daemon).get(&engine.place())?;
            Some(Self { image, daemon })
        };
        of(Daemon::Roots).or_else(|| of(Daemon::Users))
    }

    /// Remembers it, and nothing else of this place.
    pub(super) fn remember(&self, engine: &Engine) {
        let Ok(places) = Places::find() else { return };
        let other = match self.daemon {
            Daemon::Roots => Daemon::Users,
            Daemon::Users => Daemon::Roots,
        };
        memo(&places, other).forget(&engine.place());
        // What is not remembered is asked again.
        let _ = memo(&places, self.daemon).put(&engine.place(), &self.image);
    }
}

fn memo(places: &Places, daemon: Daemon) -> Memo {
    match daemon {
        Daemon::Roots => Memo::of_roots_empty_images(places),
        Daemon::Users => Memo::of_users_empty_images(places),
    }
}
