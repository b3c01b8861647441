//! Where on the host a command of the sandbox's may run.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::beneath::open_directory;
use pinfold_policy::authority::{Authority, Effect, RootKind};
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The granted directories of a session, opened at its start.
#[derive(Debug)]
pub struct PathMap {
    roots: Vec<Root>,
    authority: Authority,
    /// Directories of the host that the sandbox can write to.
    writable: Vec<PathBuf>,
    /// The root of which the sandbox has a view, where files may not be what the host has.
    view: Option<HostPath>,
}

#[derive(Debug)]
struct Root {
    inside: InsidePath,
    host: HostPath,
    directory: OwnedFd,
}

/// A directory on the host, found and held.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Where it is.
    pub(crate) path: PathBuf,
    pub(crate) descriptor: OwnedFd,
}

/// Why a command cannot run in a directory inside.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NoDirectory {
    #[error(
        "the working directory {0} is not in the workspace, nor in anything else that was granted"
    )]
    NotGranted(String),
    #[error("the working directory {0} leads through a symbolic link")]
    Link(String),
    #[error("the working directory {0} is not on the host")]
    Missing(String),
    #[error("the working directory {0} holds something else inside than on the host")]
    Differs(String),
    #[error("the working directory {0} cannot be opened on the host: {1}")]
    System(String, Errno),
}

impl PathMap {
    /// Returns the directories that an authority grants of the workspace and by name.
    pub fn new(authority: Authority, view: Option<HostPath>) -> Self {
        let is_place = |kind: RootKind| matches!(kind, RootKind::Workspace | RootKind::Knowledge);
        let root = |grant: &pinfold_policy::authority::Grant| {
            let directory = open_directory(grant.root.host.as_path()).ok()?;
            let (inside, host) = (grant.root.inside.clone(), grant.root.host.clone());
            Some(Root { inside, host, directory })
        };
        let places = authority.grants().filter(|grant| is_place(grant.root.kind));
        let mut roots: Vec<Root> = places.filter_map(root).collect();
        // The innermost first.
        roots.sort_by_key(|root| std::cmp::Reverse(root.inside.depth()));
        let writable = authority.writable().map(|host| host.as_path().to_owned()).collect();
        Self { roots, authority, writable, view }
    }

    /// Returns the directories that the sandbox can write to.
    pub fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// Returns the directory of the host that is at a path inside. No link is followed, and nothing is
    /// looked up again.
    ///
    /// # Errors
    /// Returns why no directory corresponds.
    pub(crate) fn directory(&self, inside: &[u8]) -> Result<Directory, NoDirectory> {
        let shown = || Escaped(Path::new(std::ffi::OsStr::from_bytes(inside))).to_string();
        let path = InsidePath::from_bytes(inside).map_err(|_| NoDirectory::NotGranted(shown()))?;
        let root = self
            .roots
            .iter()
            .find(|root| path.starts_with(&root.inside))
            .ok_or_else(|| NoDirectory::NotGranted(shown()))?;
        let below = path.strip_prefix(&root.inside).unwrap_or(Path::new(""));
        let host = root.host.join(below).map_err(|_| NoDirectory::NotGranted(shown()))?;
        let differs = self
            .authority
            .restriction_of(&host)
            .is_some_and(|found| matches!(found.effect, Effect::Hide | Effect::Private));
        if differs {
            return Err(NoDirectory::Differs(shown()));
        }
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&root.directory, below, flags, Mode::empty(), how) {
            Ok(descriptor) => Ok(Directory { path: host.into_path_buf(), descriptor }),
            Err(Errno::LOOP | Errno::XDEV) => Err(NoDirectory::Link(shown())),
            Err(Errno::NOENT) if self.view.is_some() => Err(NoDirectory::Differs(shown())),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(NoDirectory::Missing(shown())),
            Err(errno) => Err(NoDirectory::System(shown(), errno)),
        }
    }
}
