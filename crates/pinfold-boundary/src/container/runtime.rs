//! From a complete tree to the engine: the child becomes the engine, with the tree as a bundle.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use pinfold_init::Failure;
use pinfold_wire::{Channel, Step};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::engine::Engine;
use super::engine_root::{self, BUNDLE, ROOT, STATE};
use super::program::Program;
use super::spec::{self, Makes};
use super::{listed, outlets};
use crate::namespace::Root;
use crate::plan::LaunchPlan;
use crate::{LaunchError, sys};

/// What every container has (<https://github.com/opencontainers/runtime-spec>, "Default Devices").
const USUAL_DEVICES: [&str; 6] = ["/full", "/null", "/random", "/tty", "/urandom", "/zero"];
const CONTAINER: &str = "pinfold";

/// An engine that is to be started.
#[derive(Debug)]
pub(crate) struct Runtime {
    engine: Engine,
    program: Program,
    /// What it writes, and init until it has a channel.
    said: OwnedFd,
    /// Where sockets and terminals are asked for, if its init cannot pass any, and where that is heard.
    outlets: Option<(Channel, Channel)>,
}

/// What an engine has said, for who waits for its init.
#[derive(Debug)]
pub(crate) struct Said {
    engine: Engine,
    file: OwnedFd,
}

impl Runtime {
    pub(super) fn new(engine: Engine, program: Program) -> Result<Self, LaunchError> {
        let said = rustix::fs::memfd_create("said", MemfdFlags::CLOEXEC).map_err(|errno| {
            LaunchError::System { what: "cannot make a file in memory", source: errno.into() }
        })?;
        let outlets = engine.has_own_kernel().then(Channel::pair).transpose()?;
        Ok(Self { engine, program, said, outlets })
    }

    /// Whether the inside's system calls are answered by a kernel of its own.
    pub(crate) fn has_own_kernel(&self) -> bool {
        self.engine.has_own_kernel()
    }

    /// Where sockets and terminals are asked for, if that is not its init.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn outlets(&self) -> std::io::Result<Option<Channel>> {
        let ours = self.outlets.as_ref().map(|(ours, _)| ours.as_fd().try_clone_to_owned());
        Ok(ours.transpose()?.map(Channel::from))
    }

    /// Where it can be read what this engine says.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn said(&self) -> std::io::Result<Said> {
        Ok(Said { engine: self.engine, file: self.said.try_clone()? })
    }

    /// The descriptors that a child needs for it.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        // Both ends: the child drops this value, too, if it does not become the engine.
        let outlets = self.outlets.iter().flat_map(|(ours, theirs)| [ours.as_fd(), theirs.as_fd()]);
        [self.program.file.as_fd(), self.said.as_fd()].into_iter().chain(outlets).collect()
    }

    /// Becomes the engine, which runs init in a container of this tree.
    ///
    /// # Errors
    /// What the mount calls and execveat(2) say.
    pub(crate) fn take_over(
        self,
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
        let init = (self.engine.channel() as u32, user);
        let spec = spec::container(ROOT.as_ref(), &plan.hostname, init, makes);
        let saved = spec.save(&Path::new(BUNDLE).join("config.json"));
        saved.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
        rustix::process::chdir(BUNDLE)
    }

    fn execute(&self, channel: &Channel) -> Result<Infallible, Errno> {
        let text = |word: &str| CString::new(word).map_err(|_| Errno::INVAL);
        let words = self.engine.arguments(STATE, CONTAINER);
        let words = words.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        // Some ask these two where they keep what is temporary, and whether they are root.
        let environment = [text("PATH=/usr/sbin:/usr/bin:/sbin:/bin")?, text("HOME=/nonexistent")?];
        rustix::stdio::dup2_stdout(&self.said)?;
        rustix::stdio::dup2_stderr(&self.said)?;
        let in_root = self.program.in_current_root()?;
        sys::execute(
            in_root.as_ref().unwrap_or(&self.program.file).as_fd(),
            &words,
            &environment,
            (channel.as_fd(), self.engine.channel()),
        )
    }
}

impl Said {
    /// Waits until init has said something, or its end was closed.
    ///
    /// # Errors
    /// An engine that has not started it for so long.
    pub(crate) fn wait(&self, channel: &Channel) -> Result<(), LaunchError> {
        const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
        let mut ready = [PollFd::new(channel, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&PATIENCE)));
        match ready {
            Ok(0) => Err(self.with("it has not started init within 30 seconds")),
            Ok(_) => Ok(()),
            Err(errno) => {
                Err(LaunchError::System { what: "cannot wait for init", source: errno.into() })
            }
        }
    }

    /// The error of an engine that has ended before its init said anything.
    pub(crate) fn error(&self) -> LaunchError {
        self.with("it ended and has not started init")
    }

    /// In words, that the container has ended before what runs in it.
    pub(crate) fn gone(&self) -> String {
        let engine = self.engine.name();
        self.joined(&format!(
            "the container ended before the command did: {engine}, or what {engine} has started for it, \
             was killed or failed"
        ))
    }

    /// What is wrong, with what the engine says about it.
    fn with(&self, what: &str) -> LaunchError {
        let cure = "`pinfold doctor` shows which engines work here".to_owned();
        let said = self.joined(what);
        LaunchError::Engine { engine: self.engine.name(), said, cure: Some(cure) }
    }

    fn joined(&self, what: &str) -> String {
        let said = self.read().unwrap_or_default();
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        std::iter::once(what).chain(lines).collect::<Vec<_>>().join("; ")
    }

    /// The first of what it has said.
    fn read(&self) -> std::io::Result<String> {
        const MOST: u64 = 4096;
        let mut file = File::from(self.file.try_clone()?);
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect())
    }
}
