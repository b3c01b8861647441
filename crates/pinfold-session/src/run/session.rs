//! What a run keeps from its start to its end.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Boundary, Feature, Inside, Session as OfSession};
use pinfold_host::sessions::SessionState;
use pinfold_mcp::MemoryDoor;
use pinfold_policy::path::HostPath;
use pinfold_rootfs::userland;

use crate::boundaries;
use crate::design::{self, Design};
use crate::outcome::RunError;
use crate::request::Request;

use super::caller::Caller;

/// A session of this process.
pub(super) struct Session {
    pub(super) design: Design,
    /// Its entry among the live sessions, and its private directory.
    pub(super) state: SessionState,
    pub(super) boundary: Box<dyn Boundary>,
    pub(super) request: Request,
    /// The door to a diary, once it is served.
    pub(super) memory: Option<MemoryDoor>,
}

impl Session {
    /// Decides what the sandbox will be, and makes it.
    ///
    /// # Errors
    /// Returns what the machine, the settings or the workspace do not allow.
    pub(super) fn begin(mut request: Request, caller: &Caller) -> Result<(Self, Inside), RunError> {
        let boundary = design::settle(&mut request)?;
        let wants = [
            (caller.wants_terminal, Feature::Terminal),
            (!request.settings.publish.is_empty(), Feature::Publish),
            (request.nested, Feature::Nested),
            (request.works_on_checkout(), Feature::Checkout),
            (request.wants_doors(), Feature::Doors),
            (request.stack.is_some(), Feature::System),
            (request.stack.as_ref().is_some_and(|stack| stack.is_root), Feature::Root),
        ];
        for (_, feature) in wants.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            boundaries::insist(boundary.as_ref(), feature, &request.launcher)?;
        }
        let (design, state, plan) = design::make(&request)?;
        request.timeline.done("plans the sandbox");
        // Before there is anything that somebody might have to find by it.
        state.set_boundary(boundary.name()).map_err(RunError::System)?;
        let writable: Vec<&Path> = design.authority.writable().map(HostPath::as_path).collect();
        state.set_writable(&writable).map_err(RunError::System)?;
        // What is started from here on, such as the command of a secret that is rotated, is found while the sandbox may write.
        let writable: Vec<PathBuf> = writable.into_iter().map(Path::to_owned).collect();
        request.launcher = request.launcher.leaving_out(&writable);
        let of_session = OfSession {
            name: state.id().as_str(),
            directory: state.private(),
            configuration: request.configuration.as_ref(),
            interrupt: Some(caller.interrupt.as_fd()),
        };
        let inside = boundary.launch(plan, of_session)?;
        request.timeline.done("clones init");
        Ok((Self { design, state, boundary, request, memory: None }, inside))
    }

    /// Returns the directories of the host that the sandbox gets.
    pub(super) fn granted(&self) -> Vec<PathBuf> {
        let grants = self.design.authority.grants();
        grants.map(|grant| grant.root.host.as_path().to_owned()).collect()
    }

    /// Returns the directories whose missing files tools report as missing: the workspace, the grants and the
    /// session's private directories. A missing path elsewhere may exist on the host, and escapes.
    pub(super) fn roots(&self) -> Vec<Vec<u8>> {
        let granted = self.design.authority.grants().map(|grant| grant.root.inside.as_path());
        // An empty workspace and the private directories are no grants.
        let directories = &self.request.settings.snapshot.directories;
        let private = userland::PRIVATE.iter().map(Path::new);
        let private = private.chain(directories.iter().map(|own| own.value.path().as_path()));
        let all = granted.chain([self.request.workspace.root.as_path()]).chain(private);
        all.map(|path| path.as_os_str().as_bytes().to_vec()).collect()
    }
}
