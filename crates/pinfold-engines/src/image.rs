//! Agents' container images (requirement 2.6): built from what [`pinfold_image`] reads, by an engine of
//! this machine, and only if none has the same content.

mod engine;
mod error;
mod refresh;
mod scratch;

use std::path::{Path, PathBuf};

use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_host::owned;
use pinfold_image::{
    AgentContext, AgentFiles, Base, Content, ContextError, ImageTag, Layer, Reference, Sha256, hash,
};
use pinfold_policy::project::ImageEngine;

pub use engine::{Engine, Listed, Stored};
pub use error::ImageError;

use self::engine::{Inspected, Recipe};
use self::refresh::Asked;
use self::scratch::Scratch;

/// The label that says what an image was made of.
const LABEL: &str = "dev.pinfold.content";

/// What an image is wanted of.
#[derive(Debug)]
pub struct Wanted {
    /// The agent's name.
    pub agent: String,
    /// Its files and extensions.
    pub context: AgentContext,
    /// What to build on instead of what the Dockerfile says.
    pub base: Option<Reference>,
    /// What the repository adds, with the repository's name.
    pub layer: Option<(Layer, String)>,
}

/// How to build.
#[derive(Debug, Default)]
pub struct How<'a> {
    /// Although there is one of the same content.
    pub rebuild: bool,
    /// Without asking a registry.
    pub offline: bool,
    /// The engine's network for what the build runs; its own default if absent.
    pub network: Option<&'a str>,
}

/// What is being done, for a user who waits.
#[derive(Debug)]
pub enum Event<'a> {
    /// This engine is used, since another one does not work.
    Instead(ImageEngine, &'a ImageError),
    /// What to build on is asked for.
    Pulling(&'a Reference),
    /// What to build on is old, and no registry has a newer one.
    Own(&'a Reference),
    /// An image is being built.
    Building(&'a ImageTag),
    /// An image is there already.
    There(&'a ImageTag),
    /// The engine says something.
    Output(&'a [u8]),
}

/// Names that follow from what there is.
#[derive(Debug)]
pub struct Tagged {
    /// The agent's image.
    pub agent: ImageTag,
    /// The same with what the repository adds.
    pub layer: Option<ImageTag>,
    /// What the agent's image builds on; none where that is left to be said.
    pub base: Option<Base>,
    /// The digest of that; empty where it cannot be known.
    pub digest: String,
    /// The hash of the extensions.
    pub extensions: Option<Sha256>,
}

impl Tagged {
    /// Returns the image that sessions would run on.
    #[must_use]
    pub fn last(&self) -> &ImageTag {
        self.layer.as_ref().unwrap_or(&self.agent)
    }
}

/// Whether somebody has looked at what a repository adds.
pub type IsTrusted<'a> = &'a dyn Fn(ContentHash) -> Result<(), ImageError>;

/// A user's images.
pub struct Images<'a> {
    engine: Engine,
    places: &'a Places,
    report: &'a dyn Fn(&Event<'_>),
}

/// Returns where an agent's files for its image are: the user's directory, the administrator's,
/// pinfold's own.
///
/// # Errors
/// Returns an error for none of them, or one that cannot be read.
pub fn files_of(agent: &str, places: &Places) -> Result<AgentFiles, ImageError> {
    let own = places.config.join("images").join(agent);
    for directory in [&own, &Path::new("/etc/pinfold/images").join(agent)] {
        if directory.is_dir() {
            owned::check_files(directory)?;
            return Ok(AgentFiles::of_directory(directory)?);
        }
    }
    AgentFiles::built_in(agent).ok_or_else(|| ImageError::NoFiles {
        agent: agent.to_owned(),
        place: own.join(AgentFiles::DOCKERFILE),
    })
}

/// Returns the folder of an agent's extensions, if the user has one.
#[must_use]
pub fn extensions_of(agent: &str, places: &Places) -> Option<PathBuf> {
    let own = places.config.join("extensions").join(agent);
    own.is_dir().then_some(own)
}

impl<'a> Images<'a> {
    /// Returns those of an engine; `report` is called before what takes time.
    #[must_use]
    pub fn new(engine: Engine, places: &'a Places, report: &'a dyn Fn(&Event<'_>)) -> Self {
        Self { engine, places, report }
    }

    /// Returns the names that the images would have now. What to build on need not be known, nor here.
    ///
    /// # Errors
    /// Returns an error for files that no image can be made of; an engine that cannot be asked.
    pub fn tag(&self, wanted: &Wanted) -> Result<Tagged, ImageError> {
        let context = &wanted.context;
        let base = match context.dockerfile().base(wanted.base.as_ref()) {
            Ok(base) => Some(base),
            Err(pinfold_image::DockerfileError::Unknown { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let found = base.as_ref().map(|base| self.look_at(base)).transpose()?.flatten();
        let digest = found.map(|found| found.digest).unwrap_or_default();
        let content = context.read(None)?;
        let agent = context.tag(&wanted.agent, &digest, content)?;
        let layer = match &wanted.layer {
            Some((layer, name)) => Some(layer.tag(&agent, name, layer.read(None)?)?),
            None => None,
        };
        Ok(Tagged { agent, layer, base, digest, extensions: content.listed })
    }

    /// Returns the image, built if none has this content.
    ///
    /// # Errors
    /// Returns why it is not available. What was begun for it is removed.
    pub fn build(
        &self,
        wanted: &Wanted,
        how: &How<'_>,
        is_trusted: IsTrusted<'_>,
    ) -> Result<ImageTag, ImageError> {
        let layer = match &wanted.layer {
            // Asked first: a build of minutes should not end with a question.
            Some((layer, name)) => {
                let content = layer.read(None)?;
                is_trusted(content.whole.bytes().into())?;
                Some((layer, name, content))
            }
            None => None,
        };
        let agent = self.agent(wanted, how)?;
        match layer {
            Some((layer, name, content)) => self.layer(&agent, layer, name, content, how),
            None => Ok(agent),
        }
    }

    fn agent(&self, wanted: &Wanted, how: &How<'_>) -> Result<ImageTag, ImageError> {
        let context = &wanted.context;
        let base = context.dockerfile().base(wanted.base.as_ref())?;
        let digest = self.fresh(&base, how)?;
        let content = context.read(None)?;
        let tag = context.tag(&wanted.agent, &digest, content)?;
        let image = Image {
            tag: &tag,
            dockerfile: AgentFiles::DOCKERFILE,
            content,
            base: (wanted.base.as_ref(), &digest),
            user: None,
        };
        self.ensure(&image, &|into| context.read(Some(into)), how)?;
        Ok(tag)
    }

    fn layer(
        &self,
        agent: &ImageTag,
        layer: &Layer,
        name: &str,
        content: Content,
        how: &How<'_>,
    ) -> Result<ImageTag, ImageError> {
        let (tag, base) = (layer.tag(agent, name, content)?, agent.reference());
        let found =
            self.engine.inspect(base.as_str())?.ok_or_else(|| ImageError::NotHere(base.clone()))?;
        let image = Image {
            tag: &tag,
            dockerfile: Layer::DOCKERFILE,
            content,
            base: (Some(&base), &found.digest),
            user: layer.packages().and(found.user.as_deref()),
        };
        self.ensure(&image, &|into| layer.read(Some(into)), how)?;
        Ok(tag)
    }

    /// Builds an image unless there is one that says that it was made of the same. A tag has too few
    /// digits to tell.
    fn ensure(
        &self,
        image: &Image<'_>,
        copy: &dyn Fn(&Path) -> Result<Content, ContextError>,
        how: &How<'_>,
    ) -> Result<(), ImageError> {
        let &Image { tag, dockerfile, content, base: (base, digest), user } = image;
        let label = hash::label(content.whole, digest).to_string();
        let found = self.engine.inspect(&tag.to_string())?;
        let is_same = found.is_some_and(|found| found.labels.get(LABEL) == Some(&label));
        if is_same && !how.rebuild {
            (self.report)(&Event::There(tag));
            return Ok(());
        }
        let scratch = Scratch::make(&self.places.cache.join("images/contexts"))?;
        // What is built is what was named and looked at, even if another process writes there
        // since.
        if copy(scratch.path())? != content {
            return Err(ImageError::Changed);
        }
        (self.report)(&Event::Building(tag));
        let recipe = Recipe {
            context: scratch.path(),
            dockerfile,
            tag: tag.to_string(),
            label: (LABEL, label),
            base,
            user,
            network: how.network,
            without_cache: how.rebuild,
        };
        self.engine.build(&recipe, &|said| (self.report)(&Event::Output(said)))
    }

    /// Returns the digest of what is to be built on, asked for if it is not here or old.
    fn fresh(&self, base: &Base, how: &How<'_>) -> Result<String, ImageError> {
        let Base::Image(reference) = base else { return Ok(String::new()) };
        let found = self.look_at(base)?;
        let asked = Asked::new(self.places);
        let is_old = |found: &Inspected| asked.is_old(&self.engine, reference, found);
        match found {
            Some(found) if how.offline || !is_old(&found) => return Ok(found.digest),
            Some(found) if !found.is_from_registry => {
                (self.report)(&Event::Own(reference));
                return Ok(found.digest);
            }
            None if how.offline => return Err(ImageError::NotHere(reference.clone())),
            Some(_) | None => {}
        }
        (self.report)(&Event::Pulling(reference));
        self.engine.pull(reference, &|said| (self.report)(&Event::Output(said)))?;
        asked.now(&self.engine, reference)?;
        let found = self.look_at(base)?;
        found.map(|found| found.digest).ok_or_else(|| ImageError::NotHere(reference.clone()))
    }

    fn look_at(&self, base: &Base) -> Result<Option<Inspected>, ImageError> {
        match base {
            Base::Scratch => Ok(None),
            Base::Image(reference) => self.engine.inspect(reference.as_str()),
        }
    }
}

/// An image that is to be there.
struct Image<'a> {
    tag: &'a ImageTag,
    dockerfile: &'static str,
    content: Content,
    /// What it builds on, if that is said to the build, and the digest of that in any case.
    base: (Option<&'a Reference>, &'a str),
    user: Option<&'a str>,
}

#[cfg(test)]
mod tests;
