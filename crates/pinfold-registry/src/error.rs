//! Everything that can go wrong with an image.

use std::io;
use std::path::PathBuf;

use http::StatusCode;

use pinfold_egress::DownloadError;

/// Why an image is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Something could not be fetched.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// No image has this name.
    #[error("there is no image {image} in its registry")]
    NoImage { image: String },
    /// It is not given to everybody.
    #[error("the registry does not give {image} without an account, which pinfold does not use")]
    Account { image: String },
    /// The registry has another answer.
    #[error("the registry answers {status} for {image}")]
    Status { image: String, status: StatusCode },
    /// A manifest that says nothing of use.
    #[error("the manifest of {image} cannot be used: {what}")]
    Manifest {
        image: String,
        /// What is wrong.
        what: String,
    },
    /// Not the content that was asked for.
    #[error("the registry gives {found} for {image}, not {expected}; nothing of it was used")]
    WrongContent {
        image: String,
        /// The digest that was asked for.
        expected: String,
        /// The digest of what came.
        found: String,
    },
    /// A layer could not be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

impl RegistryError {
    /// Returns the hint, where the message does not say it already.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Account { .. } => {
                Some("export it to a tarball, and name that as the base".to_owned())
            }
            Self::NoImage { .. } => Some(
                "check the name, or name a directory by a path that begins with ./; \
                 `pinfold snapshot build --refresh` looks up a tag again"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
