//! `snapshot`: what the inside's system is made from.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::limits::ByteSize;
use crate::network::NetworkRule;
use crate::origin::Valued;
use crate::path::Escaped;

/// The `snapshot` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What it begins with; the host's own system if absent.
    pub base: Option<Valued<Base>>,
    /// What is run on it, in order, once.
    pub setup: Vec<Valued<String>>,
    /// Hosts that may be reached meanwhile, beside those that builds always may.
    pub hosts: Vec<Valued<NetworkRule>>,
    /// The space that a session may fill on top of it.
    pub size: Option<Valued<ByteSize>>,
}

impl Snapshot {
    /// MoltNet's space on top of a snapshot: 3 GiB.
    pub const DEFAULT_SIZE: ByteSize = ByteSize::from_bytes(3 << 30);

    /// Whether the session runs on the host's own system as it is.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.setup.is_empty()
            && matches!(self.base.as_ref(), None | Some(Valued { value: Base::Host, .. }))
    }
}

/// What a snapshot begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The host's own system, read-only.
    Host,
    /// A small Alpine Linux.
    Alpine,
    /// A small Debian.
    Debian,
    /// An image of a registry: `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`.
    Image(String),
    /// A directory, absolute or relative to the file that names it.
    Directory(PathBuf),
    /// A tarball, likewise; by its name, which ends in `.tar`, `.tar.gz`, `.tgz`, `.tar.xz` or
    /// `.tar.zst`.
    Tarball(PathBuf),
}

/// Why a text names no base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected host, alpine, debian, an image (NAME:TAG), or a directory or tarball whose path begins \
     with / or ./"
)]
pub struct BaseError;

const TARBALLS: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"];

impl FromStr for Base {
    type Err = BaseError;

    fn from_str(text: &str) -> Result<Self, BaseError> {
        match text {
            "host" => return Ok(Self::Host),
            "alpine" => return Ok(Self::Alpine),
            "debian" => return Ok(Self::Debian),
            _ => {}
        }
        let is_path = ["/", "./", "../"].iter().any(|start| text.starts_with(start));
        if is_path {
            let is_tarball = TARBALLS.iter().any(|end| text.ends_with(end));
            return Ok(if is_tarball {
                Self::Tarball(text.into())
            } else {
                Self::Directory(text.into())
            });
        }
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
        let is_image =
            text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(inner);
        if is_image { Ok(Self::Image(text.to_owned())) } else { Err(BaseError) }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Alpine => f.write_str("alpine"),
            Self::Debian => f.write_str("debian"),
            Self::Image(name) => f.write_str(name),
            Self::Directory(path) | Self::Tarball(path) => Escaped(path).fmt(f),
        }
    }
}
