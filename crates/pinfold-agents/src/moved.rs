//! Files of an agent on the host that a variable of the caller moves, as the agent's own program has it.

use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::profile::{AgentProfile, HostDirectory};
use crate::registry::AgentError;
use pinfold_policy::env::EnvName;

/// Where a path really is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedPath {
    pub variable: EnvName,
    /// The directory that it names.
    pub directory: PathBuf,
    pub path: PathBuf,
}

impl AgentProfile {
    /// Returns where a path relative to the home is, if a variable of the host moves it.
    ///
    /// # Errors
    /// Returns a variable whose value is not an absolute path.
    pub fn moved(&self, path: &Path, host: &dyn Host) -> Result<Option<MovedPath>, AgentError> {
        let above = self.host_directories.iter().filter(|one| path.starts_with(&one.path));
        let Some(nearest) = above.max_by_key(|one| one.path.components().count()) else {
            return Ok(None);
        };
        let HostDirectory { variable, below, .. } = nearest;
        let Some(directory) = host.variable(variable).map(PathBuf::from) else { return Ok(None) };
        if !directory.is_absolute() {
            return Err(AgentError::OnHost {
                what: format!("{variable} is not an absolute path"),
                hint: format!("make {variable} one, or unset it"),
            });
        }
        let rest = path.strip_prefix(&nearest.path).unwrap_or(Path::new(""));
        // By components, so that nothing is joined to it with a slash at the end.
        let path = directory.iter().chain(below).chain(rest).collect();
        Ok(Some(MovedPath { variable: variable.clone(), directory, path }))
    }
}
