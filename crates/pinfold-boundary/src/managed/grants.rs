//! What of the host a container gets, and the plan as seen from in there.

use std::path::PathBuf;

use pinfold_policy::path::HostPath;
use rustix::fs::FileType;

use super::errand::Look;
use super::remains::Remains;
use super::{Mount, OWN};
use crate::LaunchError;
use crate::namespace;
use crate::plan::{Changes, LaunchPlan, Lower, Place};

/// Whose the files of the host are that the sandbox owns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// The caller's.
    Caller(u32, u32),
    /// Root's, which are to look as if they belonged to nobody else (`namespace::inside_owner`).
    Root(u32, u32),
}

impl Owner {
    /// Returns the grants as the caller may give them.
    ///
    /// # Errors
    /// Returns an error for root of a namespace, whose ids others do not know by these numbers.
    pub(super) fn of_caller() -> Result<Self, &'static str> {
        match (namespace::inside_owner(), namespace::caller_ids()) {
            (Some((uid, gid)), _) => Ok(Self::Root(uid, gid)),
            (None, (0, _)) => Err("the root of a user namespace cannot say who it is outside"),
            (None, (uid, gid)) => Ok(Self::Caller(uid, gid)),
        }
    }

    pub(super) fn ids(self) -> (u32, u32) {
        match self {
            Self::Caller(uid, gid) | Self::Root(uid, gid) => (uid, gid),
        }
    }

    pub(super) fn is_root(self) -> bool {
        matches!(self, Self::Root(..))
    }
}

/// The grants of a plan.
pub(super) struct Grants {
    pub(super) mounts: Vec<Mount>,
    pub(super) looks: Vec<Look>,
    pub(super) remains: Option<Remains>,
}

struct Making<'s> {
    session: &'s str,
    owner: Owner,
    grants: Grants,
}

impl Grants {
    /// Lists them, and puts the container's paths into the plan. What root owns and the sandbox is to
    /// own is mounted on the host as somebody else's (mount_setattr(2), `MOUNT_ATTR_IDMAP`, Linux 5.12).
    ///
    /// # Errors
    /// Returns an error for a path that is not there, to which a link leads, or that no configuration
    /// can name.
    pub(super) fn make(
        plan: &mut LaunchPlan,
        session: &str,
        owner: Owner,
    ) -> Result<Self, LaunchError> {
        let none = Self { mounts: Vec::new(), looks: Vec::new(), remains: None };
        let mut making = Making { session, owner, grants: none };
        for entry in &mut plan.tree {
            match &mut entry.place {
                Place::ReadOnly(host) => making.read_only(host)?,
                Place::System(host) => making.grant(host, false)?,
                Place::Writable(host) => making.grant(host, true)?,
                Place::Overlay { lower, changes } => {
                    for layer in lower {
                        match layer {
                            Lower::Owned(host) => making.owned(host)?,
                            Lower::Foreign(host) => making.grant(host, false)?,
                        }
                    }
                    if let Changes::Kept(host) = changes {
                        making.grant(host, true)?;
                    }
                }
                Place::Private | Place::File { .. } | Place::Symlink(_) => {}
            }
        }
        Ok(making.grants)
    }
}

impl Making<'_> {
    /// Gives a layer of a view, to which nothing writes, to the sandbox's user.
    fn owned(&mut self, host: &mut HostPath) -> Result<(), LaunchError> {
        self.put(host, false, self.owner.is_root())
    }

    /// Lists what nothing writes to. What is closed to others is shown to the sandbox's user, if its file system can
    /// do that.
    fn read_only(&mut self, host: &mut HostPath) -> Result<(), LaunchError> {
        let is_shown = self.owner.is_root()
            && namespace::is_closed(host)
            && namespace::clone_owned(host).is_ok();
        self.put(host, false, is_shown)
    }

    fn grant(&mut self, host: &mut HostPath, is_writable: bool) -> Result<(), LaunchError> {
        self.put(host, is_writable, is_writable && self.owner.is_root())
    }

    fn put(
        &mut self,
        host: &mut HostPath,
        is_writable: bool,
        mounted_again: bool,
    ) -> Result<(), LaunchError> {
        let failed = |source| LaunchError::Source { path: host.to_string(), source };
        // A process that follows the name later, or a link that was put on the way since, comes to another file.
        let found = namespace::open_host(host.as_path())
            .and_then(rustix::fs::fstat)
            .map_err(|errno| failed(errno.into()))?;
        let identity = (found.st_dev, found.st_ino);
        let is_directory = FileType::from_raw_mode(found.st_mode).is_dir();
        let from = if mounted_again { self.mount(host, is_directory)? } else { host.clone() };
        if from.as_path().to_str().is_none() {
            let what = "its name is not UTF-8, which container engines cannot pass on";
            return Err(failed(std::io::Error::other(what)));
        }
        let to = format!("{OWN}/grants/{}", self.grants.mounts.len());
        self.grants.looks.push(Look { path: PathBuf::from(&to), identity });
        *host = HostPath::new(&to).map_err(|error| failed(std::io::Error::other(error)))?;
        self.grants.mounts.push(Mount { from, to, is_writable });
        Ok(())
    }

    fn mount(&mut self, host: &HostPath, is_directory: bool) -> Result<HostPath, LaunchError> {
        let mount = namespace::clone_owned(host)?;
        let remains = match &mut self.grants.remains {
            Some(remains) => remains,
            none => none.insert(Remains::begin(self.session)?),
        };
        remains.put(mount, is_directory)
    }
}
