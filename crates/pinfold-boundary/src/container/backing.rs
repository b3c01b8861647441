//! What is kept of a sandbox that an engine runs, from before its init is started.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::{Channel, LastSteps, Report};
use rustix::event::Timespec;

use super::engine::Engine;
use crate::LaunchError;
use crate::backing::{Backing, InitCommand, LateInit};
use crate::group::Group;
use crate::launch_error::failure;
use crate::wait::{Waited, wait};

/// What waits until an engine has started init, and what the engine says.
#[derive(Debug)]
pub(super) struct EngineBacking {
    group: Option<Group>,
    steps: LastSteps,
    command: Option<InitCommand>,
    said: Said,
    /// Where sockets and terminals are asked for, if that is not init.
    outlets: Option<Channel>,
    /// The mount namespace that the engine made.
    mounts: Option<OwnedFd>,
}

impl EngineBacking {
    /// Prepares for an engine that is about to be started: what it will say, and where sockets and terminals
    /// are asked for.
    pub(super) fn new(
        group: Option<Group>,
        steps: LastSteps,
        said: Said,
        outlets: Option<Channel>,
    ) -> Self {
        Self { group, steps, command: None, said, outlets, mounts: None }
    }
}

impl Backing for EngineBacking {
    fn is_parent(&self) -> bool {
        true
    }

    fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    fn silence(&self) -> LaunchError {
        self.said.error()
    }

    fn gone(&self) -> Option<String> {
        Some(self.said.gone())
    }

    fn outlets(&self) -> Option<&Channel> {
        self.outlets.as_ref()
    }

    fn has_own_kernel(&self) -> bool {
        self.steps.own_kernel
    }

    fn keep_command(&mut self, command: InitCommand) -> Option<InitCommand> {
        self.command = Some(command);
        None
    }

    fn await_init(&mut self, channel: &Channel) -> Result<Option<LateInit>, LaunchError> {
        let command = self.command.take();
        self.said.wait(channel)?;
        match channel.receive::<Report>() {
            Ok(Some(received)) if received.message == Report::Born => {
                self.mounts = received.descriptors.into_iter().next();
            }
            Ok(Some(received)) => return Err(failure(received.message)),
            Ok(None) | Err(_) => return Err(self.silence()),
        }
        Ok(Some(LateInit { steps: self.steps.clone(), command, channel: None }))
    }

    fn take_mounts(&mut self) -> Option<Option<OwnedFd>> {
        Some(self.mounts.take())
    }
}

/// What an engine has said, for the caller that waits for its init.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) engine: Engine,
    pub(super) file: OwnedFd,
    /// Readable once the user wants the start to end.
    pub(super) interrupt: Option<OwnedFd>,
}

impl Said {
    /// Waits until init has said something, or its end was closed.
    ///
    /// # Errors
    /// Returns an error for an engine that has not started it for so long; that the user ended the start.
    fn wait(&self, channel: &Channel) -> Result<(), LaunchError> {
        const PATIENCE: Timespec = Timespec { tv_sec: 90, tv_nsec: 0 };
        let interrupt = self.interrupt.as_ref().map(OwnedFd::as_fd);
        match wait(&[channel.as_fd()], interrupt, PATIENCE) {
            Ok(Waited::TimedOut) => Err(self.with("it has not started init within 90 seconds")),
            Ok(Waited::Interrupted) => Err(LaunchError::Interrupted),
            Ok(Waited::Ready(_)) => Ok(()),
            Err(errno) => {
                Err(LaunchError::System { what: "cannot wait for init", source: errno.into() })
            }
        }
    }

    /// Returns the error of an engine that has ended before its init said anything.
    fn error(&self) -> LaunchError {
        self.with("it ended and has not started init")
    }

    /// Returns the message that the container has ended before what runs in it.
    fn gone(&self) -> String {
        let engine = self.engine.name();
        self.joined(&format!(
            "the container ended before the command did: {engine}, or what {engine} has started for it, \
             was killed or failed"
        ))
    }

    /// Returns what is wrong, with what the engine says about it.
    fn with(&self, what: &str) -> LaunchError {
        let hint = "`pinfold doctor` shows which engines work here".to_owned();
        let said = self.joined(what);
        LaunchError::Engine { engine: self.engine.name(), said, hint: Some(hint) }
    }

    fn joined(&self, what: &str) -> String {
        let said = self.read().unwrap_or_default();
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        std::iter::once(what).chain(lines).collect::<Vec<_>>().join("; ")
    }

    /// Returns the first of what it has said.
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
