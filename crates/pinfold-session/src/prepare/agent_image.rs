//! An agent's container image: what it is made of here, and whether what the repository adds is trusted.

use std::path::{Path, PathBuf};

use pinfold_agents::Selection;
use pinfold_engines::image::{
    Engine, Event, How, ImageError, Images, Tagged, Wanted, extensions_of, files_of,
};
use pinfold_host::Host;
use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_image::{AgentContext, AgentFiles, ImageTag, Layer, Reference};
use pinfold_policy::project::{Base, ImageEngine};
use pinfold_policy::settings::{Attendance, EngineName, FlagScalars, Flags, Settings, Trust};
use pinfold_repository::{Repository, TrustStore};
use pinfold_worktree::workspace::Workspace;

use super::settings::{is_trusted, left_out, workspace};
use super::settings_files::SettingsFiles;
use crate::agent;
use crate::outcome::RunError;

/// An image that is asked for.
#[derive(Debug, Clone, Default)]
pub struct AgentImage {
    pub agent: String,
    /// The engine; none for the first that works.
    pub engine: Option<ImageEngine>,
    /// What it builds on, in place of the provider's image.
    pub base_image: Option<Reference>,
    /// The provider whose image it builds on.
    pub provider: Option<String>,
    /// The directory of the agent's Dockerfile and what it copies.
    pub files: Option<PathBuf>,
    /// The directory of the agent's extensions.
    pub extensions: Option<PathBuf>,
    /// Whether the repository's additions are left out.
    pub agent_only: bool,
    /// The hash of the additions that are trusted in this run.
    pub trust_image: Option<ContentHash>,
}

impl AgentImage {
    /// Returns the image of the agent that these settings name.
    fn of_settings(settings: &Settings) -> Result<Self, RunError> {
        let agent = settings.scalars.agent.as_ref().ok_or_else(|| {
            let hint = "say `pinfold run --agent-image AGENT`".to_owned();
            RunError::refused("--agent-image: no agent is named", Some(hint))
        })?;
        let engine = settings.scalars.engine.as_ref().and_then(|engine| match engine.value {
            EngineName::Docker => Some(ImageEngine::Docker),
            EngineName::Podman => Some(ImageEngine::Podman),
            _ => None,
        });
        Ok(Self {
            agent: agent.value.clone(),
            engine,
            provider: settings.scalars.provider.as_ref().map(|provider| provider.value.clone()),
            ..Self::default()
        })
    }

    /// Returns the tag that the image would have, without building it.
    ///
    /// # Errors
    /// Returns an error for an agent, an engine or a file that is not available.
    pub fn tag(&self, host: Host<'_>, report: &dyn Fn(&Event<'_>)) -> Result<Tagged, RunError> {
        let places = host.places;
        let workspace = self.workspace(places)?;
        let wanted = self.wanted(places, workspace.as_ref())?;
        let engine = engine(self.engine, host, report)?;
        Ok(Images::new(engine, places, report).tag(&wanted)?)
    }

    /// Builds the image if it is not there. Returns whose it is, and its tag.
    ///
    /// # Errors
    /// Returns why it is not available. [`ImageError::Interrupted`] is reported to `interrupted` first.
    pub fn build(
        &self,
        how: &How<'_>,
        host: Host<'_>,
        report: &dyn Fn(&Event<'_>),
        interrupted: &dyn Fn(i32),
    ) -> Result<(ImageEngine, ImageTag), RunError> {
        let places = host.places;
        let workspace = self.workspace(places)?;
        let wanted = self.wanted(places, workspace.as_ref())?;
        let engine = engine(self.engine, host, report)?;
        let name = engine.name();
        let is_trusted = |found: ContentHash| {
            let path = wanted.layer.as_ref().map(|(layer, _)| layer.path()).unwrap_or_default();
            check(found, self.trust_image, workspace.as_ref(), path, places)
        };
        let built = Images::new(engine, places, report).build(&wanted, how, &is_trusted);
        if let Err(ImageError::Interrupted(signal)) = &built {
            interrupted(*signal);
        }
        Ok((name, built?))
    }

    fn wanted(&self, places: &Places, workspace: Option<&Workspace>) -> Result<Wanted, RunError> {
        let refused = |error: &dyn std::fmt::Display| RunError::refused(error, None);
        let layer = workspace.map(image_layer).transpose()?.flatten();
        let profiles = agent::AgentFiles::read(places)?;
        let profile = profiles.registry().load(&self.agent).map_err(|error| refused(&error))?;
        let provider = self.provider(places, workspace)?;
        let selection = Selection { provider: provider.as_deref(), ..Selection::default() };
        let terms = profile.resolve(selection).map_err(|error| refused(&error))?.terms;
        let context = self.context(places)?;
        let provided = terms
            .base_image
            .filter(|_| context.dockerfile().takes_base())
            .map(|name| name.parse())
            .transpose()
            .map_err(|error| refused(&error))?;
        let name = workspace.map(|workspace| name_of(workspace.root.as_path()));
        Ok(Wanted {
            agent: self.agent.clone(),
            context,
            base: self.base_image.clone().or(provided),
            layer: layer.zip(name),
        })
    }

    /// Returns the provider that sessions of the agent have here.
    fn provider(
        &self,
        places: &Places,
        workspace: Option<&Workspace>,
    ) -> Result<Option<String>, RunError> {
        let read = |workspace| Repository::read(workspace, None);
        let repository = workspace.map(read).transpose()?.unwrap_or_default();
        let (agent, provider) = (Some(self.agent.clone()), self.provider.clone());
        let scalars = FlagScalars { agent, provider, ..FlagScalars::default() };
        let flags = Flags { scalars, ..Flags::default() };
        let files = SettingsFiles::read(places)?;
        let resolve =
            |trust| files.settings(flags.clone(), Attendance::Attended, &repository, trust);
        let mut settings = resolve(Trust::default())?;
        if let Some(workspace) = workspace
            && is_trusted(&settings, &repository, places, workspace)?
        {
            settings = resolve(Trust::Trusted)?;
        }
        Ok(settings.scalars.provider.map(|provider| provider.value))
    }

    fn context(&self, places: &Places) -> Result<AgentContext, ImageError> {
        let files = match &self.files {
            Some(directory) => AgentFiles::of_directory(directory)?,
            None => files_of(&self.agent, places)?,
        };
        let extensions = self.extensions.clone().or_else(|| extensions_of(&self.agent, places));
        Ok(AgentContext::new(files, extensions.as_deref())?)
    }

    /// Returns where a repository could add something.
    fn workspace(&self, places: &Places) -> Result<Option<Workspace>, RunError> {
        if self.agent_only { Ok(None) } else { workspace(places).map(Some) }
    }
}

/// Returns what the repository adds to agents' images, if it adds anything.
///
/// # Errors
/// Returns a mistake in it.
pub fn image_layer(workspace: &Workspace) -> Result<Option<Layer>, RunError> {
    Ok(Layer::find(workspace.root.as_path()).map_err(ImageError::from)?)
}

/// Returns the image of the agent that these settings name, as what a run begins with. Builds it if it is not
/// there.
///
/// # Errors
/// Returns an error if no agent is named, or why its image is not available.
pub(super) fn base_of(
    settings: &Settings,
    host: Host<'_>,
    report: &dyn Fn(&Event<'_>),
    interrupted: &dyn Fn(i32),
) -> Result<Base, RunError> {
    let how = How { rebuild: false, offline: false, network: None };
    let quietly = |event: &Event<'_>| match event {
        Event::There(_) => {}
        event => report(event),
    };
    let image = AgentImage::of_settings(settings)?;
    let (engine, tag) = image.build(&how, host, &quietly, interrupted)?;
    Ok(Base::Stored(engine, tag.to_string()))
}

/// Finds the engine that is asked for, or one that works, and no program of that name that lies in the workspace.
///
/// # Errors
/// Returns an error if none is installed.
pub fn engine(
    asked: Option<ImageEngine>,
    host: Host<'_>,
    report: &dyn Fn(&Event<'_>),
) -> Result<Engine, RunError> {
    let not_in = left_out(Some(host.places));
    let found = match asked {
        Some(name) => Engine::find(host.launcher, name, &not_in),
        None => Engine::choose(host.launcher, &not_in, report),
    };
    Ok(found?)
}

/// Checks that what a repository adds is trusted, by the hash that was given or by what was looked at.
fn check(
    found: ContentHash,
    given: Option<ContentHash>,
    workspace: Option<&Workspace>,
    path: PathBuf,
    places: &Places,
) -> Result<(), ImageError> {
    match given {
        Some(given) if given == found => return Ok(()),
        Some(given) => return Err(ImageError::NotAsGiven { path, given, found }),
        None => {}
    }
    let store = TrustStore::new(places);
    let is_trusted = workspace.map(|workspace| store.is_trusted(workspace, found)).transpose();
    match is_trusted {
        Ok(Some(true)) => Ok(()),
        Ok(_) => Err(ImageError::Untrusted { path }),
        Err(cause) => Err(ImageError::Own { doing: "read what is trusted in", path, cause }),
    }
}

impl From<ImageError> for RunError {
    fn from(error: ImageError) -> Self {
        let hint = error.hint();
        Self::refused(error, hint)
    }
}

/// Returns what a repository is called: its directory's name.
fn name_of(root: &Path) -> String {
    root.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
