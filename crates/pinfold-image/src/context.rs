//! The context of an agent's image.

use std::path::Path;

use crate::dockerfile::{Dockerfile, DockerfileError};
use crate::files::AgentFiles;
use crate::hash::{ContextDigest, ImageHash, Sha256};
use crate::tag::{ImageTag, NoName};
use crate::tree::{ContextError, Tree};

/// Where extensions lie in a context, each in a directory of its name.
pub const EXTENSIONS: &str = "packages";

/// Why there is no context.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoContext {
    /// A file that cannot be read, or can be no part of one.
    #[error(transparent)]
    Files(#[from] ContextError),
    /// A mistake in the Dockerfile.
    #[error(transparent)]
    Dockerfile(#[from] DockerfileError),
}

/// What a context held when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// What a tag has of the files next to the Dockerfile, if there are any: an agent's extensions,
    /// a repository's others.
    pub listed: Option<Sha256>,
    /// The hash of all of it.
    pub whole: Sha256,
}

/// The context of an agent's image: its files, and its extensions, if it has any.
#[derive(Debug)]
pub struct AgentContext {
    files: AgentFiles,
    dockerfile: Dockerfile,
    extensions: Option<Tree>,
}

impl AgentContext {
    /// Returns an agent's files, and the folder of its extensions: every directory there is one.
    ///
    /// # Errors
    /// Returns [`NoContext`].
    pub fn new(files: AgentFiles, extensions: Option<&Path>) -> Result<Self, NoContext> {
        let dockerfile = Dockerfile::parse(files.dockerfile().to_vec())?;
        let extensions =
            extensions.map(Tree::list_folders).transpose()?.filter(|tree| !tree.is_empty());
        Ok(Self { files, dockerfile, extensions })
    }

    /// Returns its Dockerfile.
    #[must_use]
    pub fn dockerfile(&self) -> &Dockerfile {
        &self.dockerfile
    }

    /// Reads every file once, and copies it into an empty directory if one is given.
    ///
    /// # Errors
    /// Returns the error of reading or writing.
    pub fn read(&self, into: Option<&Path>) -> Result<Content, ContextError> {
        let mut whole = ContextDigest::default();
        self.files.digest(&mut whole, into)?;
        let listed = self
            .extensions
            .as_ref()
            .map(|tree| tree.digest(EXTENSIONS, &mut whole, into))
            .transpose()?;
        Ok(Content { listed, whole: whole.finish() })
    }

    /// Returns the tag of its image. `base` is the digest of what it builds on, empty where that cannot
    /// be known.
    ///
    /// # Errors
    /// Returns an error for an agent's name without a letter or digit.
    pub fn tag(&self, agent: &str, base: &str, content: Content) -> Result<ImageTag, NoName> {
        let hash = ImageHash::of_agent(self.dockerfile.as_bytes(), base, content.listed);
        ImageTag::of_agent(agent, hash)
    }
}

#[cfg(test)]
mod tests;
