//! `snapshot`: what the sandbox's system is made from.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::limits::ByteSize;
use crate::network::NetworkRule;
use crate::origin::Valued;
use crate::path::{Escaped, InsidePath};

/// The `snapshot` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What it begins with; the host's own system if absent.
    pub base: Option<Valued<Base>>,
    /// What is run on it, in order, once.
    pub setup: Vec<Valued<String>>,
    /// Hosts that may be reached during a build, in addition to those that builds always may.
    pub hosts: Vec<Valued<NetworkRule>>,
    /// The space that a session may fill on top of it.
    pub size: Option<Valued<ByteSize>>,
    /// Who the session's user is in it; the agent if absent.
    pub user: Option<Valued<SystemUser>>,
    /// Empty directories of the session's own, directly below `/`.
    pub directories: Vec<Valued<TopDirectory>>,
}

crate::words! {
    /// Who a session's user is in a system of its own.
    SystemUser, "user of the system":
    /// An ordinary user.
    Agent = "agent",
    /// Root by name: changes of owners and ids succeed without effect.
    Root = "root",
}

/// A directory directly below `/` that no system has: `/app`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopDirectory(InsidePath);

/// Why a path is no [`TopDirectory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected `/` and a name of letters, digits, `.`, `_` and `-` that is not a directory of each system, such as /app"
)]
pub struct InvalidTopDirectory;

/// Directories that each system has (hier(7)), and those that a boundary makes.
const OF_EACH_SYSTEM: [&str; 23] = [
    "bin", "boot", "dev", "etc", "gnu", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt",
    "nix", "opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var",
];

impl TopDirectory {
    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &InsidePath {
        &self.0
    }
}

impl FromStr for TopDirectory {
    type Err = InvalidTopDirectory;

    fn from_str(text: &str) -> Result<Self, InvalidTopDirectory> {
        let name = text.strip_prefix('/').ok_or(InvalidTopDirectory)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.len() <= 255
            && name.bytes().all(is_plain)
            && !OF_EACH_SYSTEM.contains(&name);
        let path = is_name.then(|| InsidePath::new(text).ok()).flatten();
        path.map(Self).ok_or(InvalidTopDirectory)
    }
}

impl fmt::Display for TopDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Snapshot {
    /// MoltNet's space on top of a snapshot: 3 GiB.
    pub const DEFAULT_SIZE: ByteSize = ByteSize::from_bytes(3 << 30);

    /// Returns whether the session's user is root by name.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.value == SystemUser::Root)
    }

    /// Returns whether the session runs on the host's own system as it is.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.setup.is_empty()
            && !self.is_root()
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
    /// An image that an engine of this machine has: `docker-daemon:IMAGE` or
    /// `containers-storage:IMAGE` (containers-transports(5)).
    Stored(ImageEngine, String),
    /// A directory, absolute or relative to the file that names it.
    Directory(PathBuf),
    /// A tarball, likewise; by its name, which ends in `.tar`, `.tar.gz`, `.tgz`, `.tar.xz` or
    /// `.tar.zst`.
    Tarball(PathBuf),
}

/// An engine that builds images and keeps them on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageEngine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl ImageEngine {
    /// Both, in the order in which they are looked for.
    pub const ALL: [Self; 2] = [Self::Docker, Self::Podman];

    /// Returns its name, which is its program's.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Returns how a base that is its image begins, without the colon: the names of
    /// containers-transports(5).
    #[must_use]
    pub const fn transport(self) -> &'static str {
        match self {
            Self::Docker => "docker-daemon",
            Self::Podman => "containers-storage",
        }
    }
}

impl fmt::Display for ImageEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text names no engine that keeps images.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", ImageEngine::ALL.map(ImageEngine::as_str).join(" or "))]
pub struct ImageEngineError;

impl FromStr for ImageEngine {
    type Err = ImageEngineError;

    fn from_str(text: &str) -> Result<Self, ImageEngineError> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == text);
        found.ok_or(ImageEngineError)
    }
}

/// Why a text names no base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected host, alpine, debian, an image (NAME:TAG of a registry, docker-daemon:NAME:TAG of Docker's, \
     containers-storage:NAME:TAG of Podman's), or a directory or tarball whose path begins with / or ./"
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
        for engine in ImageEngine::ALL {
            let name =
                text.strip_prefix(engine.transport()).and_then(|rest| rest.strip_prefix(':'));
            if let Some(name) = name {
                let is_name = is_image_name(name);
                return is_name.then(|| Self::Stored(engine, name.to_owned())).ok_or(BaseError);
            }
        }
        if is_image_name(text) { Ok(Self::Image(text.to_owned())) } else { Err(BaseError) }
    }
}

/// Returns whether it can be an image's name, and no engine's option.
fn is_image_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Alpine => f.write_str("alpine"),
            Self::Debian => f.write_str("debian"),
            Self::Image(name) => f.write_str(name),
            Self::Stored(engine, name) => write!(f, "{}:{name}", engine.transport()),
            Self::Directory(path) | Self::Tarball(path) => Escaped(path).fmt(f),
        }
    }
}
