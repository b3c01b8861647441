//! Names of images.

use std::fmt;
use std::str::FromStr;

use crate::hash::ImageHash;

/// The longest name of an agent or repository in a tag, in bytes: an image's whole name may have 255
/// (distribution's reference grammar).
const LONGEST: usize = 80;

/// The name of an image of ours: `agent-loop-sandbox-<agent>:v<hash>`, or
/// `agent-loop-sandbox-<agent>-<repository>:v<hash>` with what a repository adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTag {
    repository: String,
    hash: ImageHash,
}

/// What names an image, in the grammar of registries: `name`, `host/name:tag`, `name@sha256:…`, or an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference(String);

/// A text names no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not the name of an image, such as node:22-slim", .0.escape_debug())]
pub struct InvalidReference(pub String);

/// A name has nothing that an image's could be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" has no letter or digit that an image could be named by", .0.escape_debug())]
pub struct NoName(pub String);

impl ImageTag {
    /// What every image of ours begins with.
    pub const PREFIX: &str = "agent-loop-sandbox-";

    /// Returns the tag of an agent's image.
    ///
    /// # Errors
    /// Returns an error for a name without a letter or digit.
    pub fn of_agent(agent: &str, hash: ImageHash) -> Result<Self, NoName> {
        Ok(Self { repository: format!("{}{}", Self::PREFIX, component(agent)?), hash })
    }

    /// Returns the name without its hash, which every version of the agent's image has.
    ///
    /// # Errors
    /// Returns an error for a name without a letter or digit.
    pub fn repository_of(agent: &str) -> Result<String, NoName> {
        Ok(format!("{}{}", Self::PREFIX, component(agent)?))
    }

    /// Returns the tag of the agent's image with what the repository of this name adds.
    ///
    /// # Errors
    /// Returns an error for a name without a letter or digit.
    pub fn with_layer(&self, repository: &str, hash: ImageHash) -> Result<Self, NoName> {
        Ok(Self { repository: format!("{}-{}", self.repository, component(repository)?), hash })
    }

    /// Returns the same as what names an image.
    #[must_use]
    pub fn reference(&self) -> Reference {
        Reference(self.to_string())
    }
}

impl fmt::Display for ImageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:v{}", self.repository, self.hash)
    }
}

impl Reference {
    /// Returns the name with its registry, as Docker reads a name without one: `node` is `docker.io/library/node`.
    #[must_use]
    pub fn with_registry(&self) -> String {
        const REGISTRY: &str = "docker.io";
        let is_registry = |part: &str| part.contains(['.', ':']) || part == "localhost";
        match self.0.split_once('/') {
            Some((first, _)) if is_registry(first) => self.0.clone(),
            Some(_) => format!("{REGISTRY}/{}", self.0),
            None => format!("{REGISTRY}/library/{}", self.0),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        // An engine must not take it for an option, nor for a path.
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.len() <= 512 && text.chars().all(is_plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidReference(text.to_owned()))
        }
    }
}

/// Returns a part of an image's name: lower-case letters and digits, parted by single `.`, `_` or `-`.
/// What is one stays as it is.
fn component(name: &str) -> Result<String, NoName> {
    let mut text = String::new();
    for c in name.chars() {
        let c = c.to_ascii_lowercase();
        match c {
            'a'..='z' | '0'..='9' => text.push(c),
            _ if text.is_empty() || text.ends_with(['.', '_', '-']) => {}
            '.' | '_' => text.push(c),
            _ => text.push('-'),
        }
        if text.len() == LONGEST {
            break;
        }
    }
    let text = text.trim_end_matches(['.', '_', '-']);
    if text.is_empty() { Err(NoName(name.to_owned())) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests;
