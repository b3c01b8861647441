//! Mounts that somebody with more rights has made for an init.

use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_policy::path::HostPath;
use rustix::io::Errno;

use super::detached::Source;
use crate::plan::{Changes, LaunchPlan, Lower, Place};

/// Where the paths of a plan lie that stand for these mounts, each by its number. Nothing lies there.
pub(crate) const HANDED: &str = "/run/pinfold/handed";

/// The mounts, each to be taken once.
#[derive(Debug, Default)]
pub(crate) struct Handed(Vec<Option<OwnedFd>>);

impl Handed {
    /// Takes them over.
    pub(crate) fn new(mounts: Vec<OwnedFd>) -> Self {
        Self(mounts.into_iter().map(Some).collect())
    }

    /// Returns where each entry of a plan comes from.
    ///
    /// # Errors
    /// Returns `EBADF` for a number that no mount has, or one that was taken.
    pub(super) fn sources(&mut self, plan: &LaunchPlan) -> Result<Vec<Source>, Errno> {
        let source = |place: &Place| match place {
            Place::ReadOnly(host) | Place::System(host) | Place::Writable(host) => {
                Ok(self.take(host)?.map_or(Source::Child, Source::Detached))
            }
            Place::Overlay { lower, changes } => self.layers(lower, changes),
            Place::Private | Place::File { .. } | Place::Symlink(_) => Ok(Source::Child),
        };
        plan.tree.iter().map(|entry| &entry.place).map(source).collect()
    }

    /// Layers that are all handed over, or none of them is: this process may clone no mount itself.
    fn layers(&mut self, lower: &[Lower], changes: &Changes) -> Result<Source, Errno> {
        let lower: Vec<Option<OwnedFd>> =
            lower.iter().map(|layer| self.take(layer.host())).collect::<Result<_, _>>()?;
        let changes = match changes {
            Changes::Kept(host) => Some(self.take(host)?),
            Changes::Private => None,
        };
        if lower.iter().all(Option::is_none) && changes.iter().all(Option::is_none) {
            return Ok(Source::Child);
        }
        let lower = lower.into_iter().collect::<Option<Vec<_>>>().ok_or(Errno::BADF)?;
        let changes = changes.map(|changes| changes.ok_or(Errno::BADF)).transpose()?;
        Ok(Source::Layers { lower, changes })
    }

    /// Takes the mount that a path stands for; none for a path that is one.
    fn take(&mut self, host: &HostPath) -> Result<Option<OwnedFd>, Errno> {
        let Ok(number) = host.as_path().strip_prefix(Path::new(HANDED)) else { return Ok(None) };
        let number = number.to_str().and_then(|number| number.parse::<usize>().ok());
        let mount = number.and_then(|number| self.0.get_mut(number)).and_then(Option::take);
        mount.map(Some).ok_or(Errno::BADF)
    }
}
