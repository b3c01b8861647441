//! What is kept of a sandbox whose first process is a reaper.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::backing::Backing;
use crate::group::Group;

/// The control group, and where the changes to a view are kept.
#[derive(Debug)]
pub(super) struct LandlockBacking {
    pub(super) group: Option<Group>,
    pub(super) kept: Option<PathBuf>,
}

impl Backing for LandlockBacking {
    fn is_parent(&self) -> bool {
        true
    }

    fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    // A signal would end the reaper alone, and nobody would end the rest.
    fn ends_with_channel(&self) -> bool {
        true
    }

    fn take_mounts(&mut self) -> Option<Option<OwnedFd>> {
        Some(None)
    }

    fn unsettled(&self) -> Option<String> {
        let kept = self.kept.as_ref()?;
        Some(format!(
            "what the session changed could not be collected: it lies in {}",
            kept.join(super::copy::COPY).display()
        ))
    }
}
