//! From what a front end asks for to the request of a run.
//!
//! A front end parses, calls and prints; what it asks for is decided here, the same for all of them:
//! which files are read, what of the repository's is trusted, which agent and system a run has, and what
//! its environment is.

mod agent_image;
mod environment;
mod permissions;
mod presence;
mod request;
mod settings;
mod settings_files;

use pinfold_engines::image;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::Settings;
use pinfold_provision as provision;
use pinfold_worktree::dedicated::Dedicated;
use pinfold_worktree::workspace::Workspace;

use crate::agent::AgentFiles;
use crate::boundaries::written;
use crate::doors::questions;
use crate::outcome::RunError;
use crate::snapshot;

pub use self::agent_image::{AgentImage, engine, image_layer};
pub use self::environment::describing;
pub use self::presence::{Circumstances, Presence};
pub use self::request::Wanted;
pub use self::settings::{Asked, everything, in_mode, left_out, plain_settings, workspace};
pub use self::settings_files::SettingsFiles;

/// Returns the names of the agents that can be run.
///
/// # Errors
/// Returns an error for an agent's file that cannot be read.
pub fn agents(places: &Places) -> Result<Vec<String>, RunError> {
    Ok(AgentFiles::read(places)?.registry().names())
}

/// What a front end shows while a request is prepared.
pub trait Progress {
    /// Reports on the agent's layer.
    fn agent(&self, event: provision::Event);

    /// Reports on the system that the session runs on.
    fn system(&self, event: &snapshot::Event<'_>);

    /// Reports that the system is there, or cannot be made.
    fn system_ended(&self);

    /// Reports on the agent's container image.
    fn image(&self, event: &image::Event<'_>);

    /// Reports a signal that ended a program of the preparation: the front end ends of the same.
    fn interrupted(&self, signal: i32);
}

/// A run that is being prepared.
pub struct Preparation {
    places: Places,
    launcher: Launcher,
    project: Workspace,
    /// Where the run works, if that is known already.
    workspace: Option<Workspace>,
    settings: Settings,
    asked: Asked,
    /// Whether the agent's program is the one of the image that the run begins with.
    is_of_image: bool,
}

impl Preparation {
    /// Finds the workspace of the current directory, and the settings of a run in it.
    ///
    /// # Errors
    /// Returns an error for a workspace that cannot be granted, for a file that cannot be read, or a mistake
    /// in one, with file, line, key and a hint.
    pub fn find(places: Places, launcher: Launcher, asked: Asked) -> Result<Self, RunError> {
        pinfold_boundary::namespace::check_kernel()?;
        let project = workspace(&places)?;
        let mut settings = settings::settings(&asked, &places, &project)?;
        questions::add_saved_rules(&mut settings, &project, &places)?;
        let launcher = launcher.leaving_out(&written(&settings, project.root.as_path()));
        let (workspace, is_of_image) = (None, false);
        Ok(Self { places, launcher, project, workspace, settings, asked, is_of_image })
    }

    fn host(&self) -> Host<'_> {
        Host { places: &self.places, launcher: &self.launcher }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the workspace of the current directory.
    pub fn workspace(&self) -> &Workspace {
        &self.project
    }

    /// Has the run begin with the agent's container image, which is built if it is not there.
    ///
    /// # Errors
    /// Returns an error if no agent is named, or its image is not available.
    pub fn begin_with_image(&mut self, progress: &dyn Progress) -> Result<(), RunError> {
        let report = |event: &image::Event<'_>| progress.image(event);
        let interrupted = |signal| progress.interrupted(signal);
        let base = agent_image::base_of(&self.settings, self.host(), &report, &interrupted)?;
        let origin = Origin::Flag { name: "--agent-image" };
        self.settings.snapshot.base = Some(Valued::new(base, origin));
        self.is_of_image = true;
        Ok(())
    }

    /// Lets the run reach every public host.
    ///
    /// # Errors
    /// Returns an error if the administrator's policy forbids that.
    pub fn allow_every_name(&mut self, by: &'static str) -> Result<(), RunError> {
        self.settings.allow_every_name(by).map_err(|error| RunError::refused(error, None))
    }

    /// Makes the worktree that the run works in, if the settings want one and it is not there.
    ///
    /// # Errors
    /// Returns an error if it cannot be made, or what the user trusted is something else there.
    pub fn dedicated(&mut self) -> Result<Option<Dedicated>, RunError> {
        let opened = Dedicated::open(&self.project, &self.settings, self.host());
        let Some(dedicated) = opened.map_err(|error| settings::no_workspace(error.into()))? else {
            return Ok(None);
        };
        let there = dedicated.workspace(&self.project).map_err(settings::no_workspace);
        let trusted = there.and_then(|there| {
            settings::check_trust(&self.asked, &self.project, there, &self.settings, &self.places)
        });
        match trusted {
            Ok(there) => self.workspace = Some(there),
            Err(error) => {
                dedicated.take_back().map_err(|error| settings::no_workspace(error.into()))?;
                return Err(error);
            }
        }
        Ok(Some(dedicated))
    }
}
