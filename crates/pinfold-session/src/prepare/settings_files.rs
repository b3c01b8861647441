//! The settings files of the administrator and the user.

use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_host::owned;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::{Attendance, Flags, Layers, Settings, Trust};
use pinfold_repository::Repository;

use crate::outcome::RunError;

/// The administrator's ceiling.
const CEILING: &str = "/etc/pinfold/policy.toml";

/// A settings file that was read.
struct Found {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Found {
    fn as_file(&self) -> SettingsFile<'_> {
        SettingsFile { path: &self.path, bytes: &self.bytes }
    }
}

/// Reads a settings file that need not be there.
fn read(path: &Path) -> Result<Option<Found>, RunError> {
    let bytes = owned::read(path).map_err(|error| {
        let hint = error.hint();
        RunError::refused(error, hint)
    })?;
    Ok(bytes.map(|bytes| Found { path: path.to_owned(), bytes }))
}

/// The files of the administrator and the user.
pub struct SettingsFiles {
    ceiling: Option<Found>,
    user: Option<Found>,
    home: HostPath,
}

impl SettingsFiles {
    /// Reads those that are there.
    ///
    /// # Errors
    /// Returns an error for one that is there and cannot be read.
    pub fn read(places: &Places) -> Result<Self, RunError> {
        Ok(Self {
            ceiling: read(CEILING.as_ref())?,
            user: read(&places.config.join("config.toml"))?,
            home: HostPath::new(&places.home).map_err(RunError::path)?,
        })
    }

    /// Returns the settings that these, a repository's files and the flags give together.
    ///
    /// # Errors
    /// Returns a mistake in one of them.
    pub fn settings(
        &self,
        flags: Flags,
        attendance: Attendance,
        repository: &Repository,
        trust: Trust,
    ) -> Result<Settings, RunError> {
        let layers = Layers {
            home: Some(&self.home),
            attendance,
            ceiling: self.ceiling.as_ref().map(Found::as_file),
            user: self.user.as_ref().map(Found::as_file),
            project: repository.file.as_ref().map(|file| file.project.clone()),
            trust,
            agent_loop: repository.agent_loop.clone(),
            flags,
        };
        Settings::resolve(layers).map_err(RunError::settings)
    }

    /// Returns what the files say, wherever this is.
    ///
    /// # Errors
    /// Returns a mistake in one of them.
    pub fn own(&self) -> Result<Settings, RunError> {
        let (flags, repository) = (Flags::default(), Repository::default());
        self.settings(flags, Attendance::Attended, &repository, Trust::default())
    }
}
