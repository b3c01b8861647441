//! When an image to build on is asked for again: after seven days (requirement 2.6).

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pinfold_host::digest::name_of;
use pinfold_host::directories::Places;
use pinfold_image::Reference;

use super::engine::{Engine, Inspected};
use super::error::ImageError;

/// How old what is built on may be.
const MOST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// When images were asked for last: files, whose times say it.
#[derive(Debug)]
pub(super) struct Asked {
    directory: PathBuf,
}

impl Asked {
    pub(super) fn new(places: &Places) -> Self {
        Self { directory: places.cache.join("images/bases") }
    }

    /// Returns whether an image is older than what is built on may be: since it was made, or since a
    /// registry was asked whether there is a newer one.
    pub(super) fn is_old(&self, engine: &Engine, reference: &Reference, found: &Inspected) -> bool {
        let asked = fs::metadata(self.path(engine, reference)).and_then(|found| found.modified());
        is_old(SystemTime::now(), found.created, asked.ok())
    }

    /// Notes that a registry has just been asked for an image.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub(super) fn now(&self, engine: &Engine, reference: &Reference) -> Result<(), ImageError> {
        let path = self.path(engine, reference);
        let written = Places::make_private(&self.directory).and_then(|()| {
            let file = fs::File::create(&path)?;
            file.set_modified(SystemTime::now())
        });
        written.map_err(|cause: io::Error| ImageError::Own { doing: "write", path, cause })
    }

    fn path(&self, engine: &Engine, reference: &Reference) -> PathBuf {
        self.directory.join(name_of(format!("{} {reference}", engine.name()).as_bytes()))
    }
}

/// Returns a time in the future makes nothing old.
fn is_old(now: SystemTime, created: Option<SystemTime>, asked: Option<SystemTime>) -> bool {
    let since = created.max(asked);
    since.is_none_or(|since| now.duration_since(since).is_ok_and(|age| age > MOST))
}

#[cfg(test)]
mod tests;
