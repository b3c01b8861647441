//! From a complete tree to the engine: the child becomes the engine, with the tree as a bundle.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use pinfold_init::Failure;
use pinfold_wire::{Channel, LastSteps, Step};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::backing::{EngineBacking, Said};
use super::engine::Engine;
use super::engine_root::{self, BUNDLE, ROOT, STATE};
use super::listed;
use super::program::Program;
use super::spec::{self, Makes};
use crate::backing::Backing;
use crate::group::Group;
use crate::namespace::{Root, Takeover};
use crate::plan::LaunchPlan;
use crate::{LaunchError, outlets, sys};

/// What every container has (<https://github.com/opencontainers/runtime-spec>, "Default Devices").
const USUAL_DEVICES: [&str; 6] = ["/full", "/null", "/random", "/tty", "/urandom", "/zero"];
const CONTAINER: &str = "pinfold";

/// An engine that is to be started.
#[derive(Debug)]
pub(super) struct Runtime {
    engine: Engine,
    program: Program,
    /// What it writes, and init until it has a channel.
    said: OwnedFd,
    /// Where sockets and terminals are asked for, if its init cannot pass any, and where that is heard.
    outlets: Option<(Channel, Channel)>,
    /// Readable once the user wants the start to end.
    interrupt: Option<OwnedFd>,
}

impl Runtime {
    pub(super) fn new(
        engine: Engine,
        program: Program,
        interrupt: Option<OwnedFd>,
    ) -> Result<Self, LaunchError> {
        let said = rustix::fs::memfd_create("said", MemfdFlags::CLOEXEC).map_err(|errno| {
            LaunchError::System { what: "cannot make a file in memory", source: errno.into() }
        })?;
        let outlets = engine.has_own_kernel().then(Channel::pair).transpose()?;
        Ok(Self { engine, program, said, outlets, interrupt })
    }

    /// Returns where sockets and terminals are asked for, if that is not its init.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    fn outlets(&self) -> std::io::Result<Option<Channel>> {
        let ours = self.outlets.as_ref().map(|(ours, _)| ours.as_fd().try_clone_to_owned());
        Ok(ours.transpose()?.map(Channel::from))
    }

    /// Returns where it can be read what this engine says.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    fn said(&self) -> std::io::Result<Said> {
        let interrupt = self.interrupt.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Said { engine: self.engine, file: self.said.try_clone()?, interrupt })
    }

    fn stage(&self, root: &Root, plan: &LaunchPlan) -> Result<(), Errno> {
        engine_root::enter(root, self.engine.sees_control_groups())?;
        let listed;
        let makes = if self.engine.has_own_kernel() {
            listed = listed::below(ROOT, &["/proc", "/dev"])?;
            Makes::Kernel(&listed)
        } else if self.engine.makes_devices() {
            listed::are_text()?;
            listed = listed::below("/dev", &USUAL_DEVICES)?;
            Makes::Devices(&listed)
        } else {
            Makes::Proc
        };
        let user = (plan.identity.uid, plan.identity.gid);
        let channel = self.engine.channel() as u32;
        let spec = spec::container(ROOT.as_ref(), &plan.hostname, channel, user, makes);
        let saved = spec.save(&Path::new(BUNDLE).join("config.json"));
        saved.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
        rustix::process::chdir(BUNDLE)
    }

    fn execute(&self, channel: &Channel) -> Result<Infallible, Errno> {
        let text = |word: &str| CString::new(word).map_err(|_| Errno::INVAL);
        let words = self
            .engine
            .arguments(STATE, CONTAINER)
            .into_iter()
            .map(text)
            .collect::<Result<Vec<_>, _>>()?;
        // Some ask these two where they keep what is temporary, and whether they are root.
        let environment = [text("PATH=/usr/sbin:/usr/bin:/sbin:/bin")?, text("HOME=/nonexistent")?];
        rustix::stdio::dup2_stdout(&self.said)?;
        rustix::stdio::dup2_stderr(&self.said)?;
        let in_root = self.program.in_current_root()?;
        sys::execute(
            in_root.as_ref().unwrap_or(&self.program.file).as_fd(),
            &words,
            &environment,
            channel.as_fd(),
            self.engine.channel(),
        )
    }
}

impl Takeover for Runtime {
    fn has_own_kernel(&self) -> bool {
        self.engine.has_own_kernel()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        // Both ends: the child drops this value, too, if it does not become the engine.
        let outlets = self.outlets.iter().flat_map(|(ours, theirs)| [ours.as_fd(), theirs.as_fd()]);
        let kept = [self.program.file.as_fd(), self.said.as_fd()].into_iter().chain(outlets);
        kept.chain(self.interrupt.as_ref().map(OwnedFd::as_fd)).collect()
    }

    fn backing(
        &self,
        group: Option<Group>,
        steps: LastSteps,
    ) -> Result<Box<dyn Backing>, LaunchError> {
        let failed =
            |source| LaunchError::System { what: "cannot keep what the engine says", source };
        let (said, outlets) = (self.said().map_err(failed)?, self.outlets().map_err(failed)?);
        Ok(Box::new(EngineBacking::new(group, steps, said, outlets)))
    }

    fn take_over(
        self: Box<Self>,
        root: &Root,
        plan: &LaunchPlan,
        channel: &Channel,
    ) -> Result<Infallible, Failure> {
        let failed = Failure::at(Step::Engine);
        let left = || match &self.outlets {
            Some((_, theirs)) => outlets::leave_behind(theirs, channel),
            None => Ok(()),
        };
        let staged = self.stage(root, plan).and_then(|()| left());
        staged.and_then(|()| self.execute(channel)).map_err(failed)
    }
}
