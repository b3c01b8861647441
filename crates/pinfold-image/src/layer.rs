//! What a repository adds to an agent's image: `.agent-loop/Dockerfile.sandbox`, which may copy what lies
//! next to it, else the packages that `.agent-loop/dependencies` names.
//!
//! Anyone who can write to the repository can write these, and building executes them. So only what
//! somebody has looked at is built. [`Layer::read`] gives the hash for that.

use std::path::{Path, PathBuf};

use crate::context::Content;
use crate::dependencies::{DependencyError, Package, dependencies};
use crate::dockerfile::{BASE_ARGUMENT, Dockerfile, DockerfileError, LARGEST};
use crate::hash::{ContextDigest, ImageHash};
use crate::tag::{ImageTag, NoName};
use crate::tree::{ContextError, Tree, put, take_in};

/// The directory of a repository.
pub(crate) const DIRECTORY: &str = ".agent-loop";
/// The Dockerfile there.
const DOCKERFILE: &str = "Dockerfile.sandbox";
/// The list of packages there.
const DEPENDENCIES: &str = "dependencies";
/// The build argument that says whose user the agent's image runs as.
pub const USER_ARGUMENT: &str = "BASE_USER";

/// Why there is no layer where one is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// A file that cannot be read, or can be no part of an image.
    #[error(transparent)]
    Files(#[from] ContextError),
    /// A mistake in the Dockerfile.
    #[error("{}: {cause}", name(DOCKERFILE).display())]
    Dockerfile {
        #[from]
        cause: DockerfileError,
    },
    /// A Dockerfile that skips the agent's image.
    #[error(
        "{} does not build on the agent's image: its last FROM is not ${{{BASE_ARGUMENT}}}",
        name(DOCKERFILE).display()
    )]
    NotOnAgent,
    /// A list of packages that is no text.
    #[error("{} is not UTF-8 text", name(DEPENDENCIES).display())]
    NoText,
    /// A line that names no package.
    #[error("{}: {cause}", name(DEPENDENCIES).display())]
    Dependencies {
        #[from]
        cause: DependencyError,
    },
}

impl LayerError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Files(error) => error.hint(),
            Self::Dockerfile { cause } => cause.hint(),
            Self::NotOnAgent => {
                Some(format!("begin it with `ARG {BASE_ARGUMENT}` and `FROM ${{{BASE_ARGUMENT}}}`"))
            }
            Self::NoText | Self::Dependencies { .. } => Some(
                "write one package a line, as `apt-get install` takes it, with # before comments"
                    .to_owned(),
            ),
        }
    }
}

/// Returns a file in the repository's directory.
fn name(file: &str) -> PathBuf {
    Path::new(DIRECTORY).join(file)
}

/// What a repository adds to an agent's image.
#[derive(Debug)]
pub struct Layer {
    dockerfile: Dockerfile,
    from: From,
}

#[derive(Debug)]
enum From {
    /// The files next to the Dockerfile.
    Directory(Tree),
    Packages(Vec<Package>),
}

impl Layer {
    /// What the Dockerfile is called, in a repository and in a context.
    pub const DOCKERFILE: &str = DOCKERFILE;

    /// Returns what the repository at `root` adds, if it adds anything.
    ///
    /// # Errors
    /// Returns [`LayerError`].
    pub fn find(root: &Path) -> Result<Option<Self>, LayerError> {
        let Some(tree) = Tree::list_below(root, DIRECTORY)? else { return Ok(None) };
        if tree.has(DOCKERFILE) {
            let dockerfile = Dockerfile::parse(tree.read(DOCKERFILE, LARGEST)?)?;
            if !dockerfile.takes_base() {
                return Err(LayerError::NotOnAgent);
            }
            let from = From::Directory(tree.without(DOCKERFILE));
            return Ok(Some(Self { dockerfile, from }));
        }
        if !tree.has(DEPENDENCIES) {
            return Ok(None);
        }
        let text = String::from_utf8(tree.read(DEPENDENCIES, LARGEST)?);
        let packages = dependencies(&text.map_err(|_| LayerError::NoText)?)?;
        let dockerfile = Dockerfile::parse(installing(&packages).into_bytes())?;
        Ok(Some(Self { dockerfile, from: From::Packages(packages) }))
    }

    /// Returns where it was found, in the repository.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self.from {
            From::Directory(_) => name(DOCKERFILE),
            From::Packages(_) => name(DEPENDENCIES),
        }
    }

    /// Returns the Dockerfile that is built from.
    #[must_use]
    pub fn dockerfile(&self) -> &Dockerfile {
        &self.dockerfile
    }

    /// Returns the packages, if it is a list of them.
    #[must_use]
    pub fn packages(&self) -> Option<&[Package]> {
        match &self.from {
            From::Packages(packages) => Some(packages),
            From::Directory(_) => None,
        }
    }

    /// Returns the other files of its context, below the repository's root.
    pub fn others(&self) -> impl Iterator<Item = PathBuf> {
        let tree = match &self.from {
            From::Directory(tree) => Some(tree),
            From::Packages(_) => None,
        };
        tree.into_iter().flat_map(Tree::paths).map(|path| Path::new(DIRECTORY).join(path))
    }

    /// Reads every file once, and copies it into an empty directory if one is given.
    ///
    /// # Errors
    /// Returns the error of reading or writing.
    pub fn read(&self, into: Option<&Path>) -> Result<Content, ContextError> {
        let mut whole = ContextDigest::default();
        let text = self.dockerfile.as_bytes();
        match into {
            Some(into) => put(into, DOCKERFILE, text, &mut whole)?,
            None => take_in(DOCKERFILE, text, &mut whole),
        }
        let listed = match &self.from {
            From::Directory(tree) if !tree.is_empty() => Some(tree.digest("", &mut whole, into)?),
            _ => None,
        };
        Ok(Content { listed, whole: whole.finish() })
    }

    /// Returns the tag of an agent's image with it.
    ///
    /// # Errors
    /// Returns an error for a repository's name without a letter or digit.
    pub fn tag(
        &self,
        agent: &ImageTag,
        repository: &str,
        content: Content,
    ) -> Result<ImageTag, NoName> {
        let hash = ImageHash::of_layer(agent, self.dockerfile.as_bytes(), content.listed);
        agent.with_layer(repository, hash)
    }
}

/// Returns a Dockerfile that installs packages, and leaves the user as it was.
fn installing(packages: &[Package]) -> String {
    let mut text = format!("ARG {BASE_ARGUMENT}\nFROM ${{{BASE_ARGUMENT}}}\n");
    if !packages.is_empty() {
        text.push_str(
            "USER root\nRUN set -eu; export DEBIAN_FRONTEND=noninteractive; apt-get update; \\\n",
        );
        text.push_str("    apt-get install --yes --no-install-recommends");
        for package in packages {
            text.push_str(&format!(" \\\n        {package}"));
        }
        text.push_str("; \\\n    rm -rf /var/lib/apt/lists/*\n");
        text.push_str(&format!("ARG {USER_ARGUMENT}=root\nUSER ${{{USER_ARGUMENT}}}\n"));
    }
    text
}

#[cfg(test)]
mod tests;
