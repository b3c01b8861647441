//! `vfs.shadow`: paths of the workspace that are replaced inside.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use crate::path::Escaped;

/// A path below the workspace, normalised: without `.`, `..` and a first slash. Whether a link lies
/// on the way is not known here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShadowPath(PathBuf);

/// Why a path cannot be shadowed; MoltNet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShadowPathError {
    /// It is absolute or leads out.
    #[error("path escapes workspace: {}", Escaped(.0))]
    Escapes(PathBuf),
    /// It is the workspace itself.
    #[error("names the workspace itself; name something in it")]
    Workspace,
}

impl ShadowPath {
    /// Returns the path, relative to the workspace.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for ShadowPath {
    type Err = ShadowPathError;

    fn from_str(text: &str) -> Result<Self, ShadowPathError> {
        let path = Path::new(text);
        let mut normal = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => normal.push(name),
                Component::CurDir => {}
                Component::ParentDir if normal.pop() => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(ShadowPathError::Escapes(path.to_owned()));
                }
            }
        }
        if normal.as_os_str().is_empty() {
            Err(ShadowPathError::Workspace)
        } else {
            Ok(Self(normal))
        }
    }
}

impl fmt::Display for ShadowPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}
