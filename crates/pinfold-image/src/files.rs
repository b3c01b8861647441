//! An agent's own files for its image.

use std::path::Path;

use crate::dockerfile::LARGEST;
use crate::hash::ContextDigest;
use crate::tree::{ContextError, Tree, put, take_in};

/// What an agent's Dockerfile is called.
const DOCKERFILE: &str = "Dockerfile";

/// The files of agents that come with pinfold. They are data: a user's directory of the agent's
/// name replaces them.
const BUILT_IN: [(&str, BuiltIn); 4] = [
    ("claude", BuiltIn::plain(include_bytes!("../../../agents/images/claude/Dockerfile"))),
    ("codex", BuiltIn::plain(include_bytes!("../../../agents/images/codex/Dockerfile"))),
    ("opencode", BuiltIn::plain(include_bytes!("../../../agents/images/opencode/Dockerfile"))),
    (
        "pi",
        BuiltIn {
            dockerfile: include_bytes!("../../../agents/images/pi/Dockerfile"),
            others: &[("settings.json", include_bytes!("../../../agents/images/pi/settings.json"))],
        },
    ),
];

#[derive(Clone, Copy, Debug)]
struct BuiltIn {
    dockerfile: &'static [u8],
    others: &'static [(&'static str, &'static [u8])],
}

impl BuiltIn {
    const fn plain(dockerfile: &'static [u8]) -> Self {
        Self { dockerfile, others: &[] }
    }
}

/// An agent's own files: a Dockerfile, and what it copies.
#[derive(Debug)]
pub struct AgentFiles(Source);

#[derive(Debug)]
enum Source {
    BuiltIn(BuiltIn),
    Directory { dockerfile: Vec<u8>, tree: Tree },
}

impl AgentFiles {
    /// What the Dockerfile is called, here and in a context.
    pub const DOCKERFILE: &str = DOCKERFILE;

    /// Returns those that come with pinfold.
    #[must_use]
    pub fn built_in(agent: &str) -> Option<Self> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == agent);
        found.map(|(_, files)| Self(Source::BuiltIn(*files)))
    }

    /// Returns the agents for which there are some.
    pub fn agents() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(agent, _)| *agent)
    }

    /// Returns those of a user's directory.
    ///
    /// # Errors
    /// Returns what cannot be read, or can be no part of an image.
    pub fn of_directory(path: &Path) -> Result<Self, ContextError> {
        let tree = Tree::list(path)?;
        let dockerfile = tree.read(DOCKERFILE, LARGEST)?;
        Ok(Self(Source::Directory { dockerfile, tree: tree.without(DOCKERFILE) }))
    }

    /// Returns the Dockerfile's bytes.
    pub(crate) fn dockerfile(&self) -> &[u8] {
        match &self.0 {
            Source::BuiltIn(BuiltIn { dockerfile, .. }) => dockerfile,
            Source::Directory { dockerfile, .. } => dockerfile,
        }
    }

    /// Takes the files into a hash, and puts them into a directory if one is given.
    ///
    /// # Errors
    /// Returns the error of reading or writing.
    pub(crate) fn digest(
        &self,
        whole: &mut ContextDigest,
        into: Option<&Path>,
    ) -> Result<(), ContextError> {
        let one = |name: &str, bytes: &[u8], whole: &mut ContextDigest| match into {
            Some(into) => put(into, name, bytes, whole),
            None => {
                take_in(name, bytes, whole);
                Ok(())
            }
        };
        one(DOCKERFILE, self.dockerfile(), whole)?;
        match &self.0 {
            Source::BuiltIn(BuiltIn { others, .. }) => {
                others.iter().try_for_each(|(name, bytes)| one(name, bytes, whole))
            }
            Source::Directory { tree, .. } => tree.digest("", whole, into).map(drop),
        }
    }
}
