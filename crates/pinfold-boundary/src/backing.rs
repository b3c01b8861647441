//! What stands behind a running sandbox.

use std::fmt;
use std::os::fd::OwnedFd;

use pinfold_wire::{Channel, ChannelError, LastSteps};

use crate::group::Group;
use crate::launch_error::LaunchError;
use crate::plan::Stdio;

/// What a boundary keeps of a running sandbox, and what it alone can say or do about it.
///
/// Each boundary has its own. [`crate::Inside`] holds one and knows nothing else of the boundary. Dropping
/// it releases what the boundary made for the sandbox, once everything in there has ended.
pub trait Backing: fmt::Debug + Send {
    /// Returns whether this process is init's parent and has to reap it.
    fn is_parent(&self) -> bool;

    /// Returns the control group that bounds the sandbox.
    fn group(&self) -> Option<&Group>;

    /// Returns whether the end of the channel ends the sandbox, because this process may send it no
    /// signal.
    fn ends_with_channel(&self) -> bool {
        false
    }

    /// Returns where init's parent takes orders, if it has to do what this process may not.
    fn attendant(&self) -> Option<&Channel> {
        None
    }

    /// Returns the error of a start that ended before init said anything.
    fn silence(&self) -> LaunchError {
        LaunchError::Silent
    }

    /// Returns what to report if the first process of the sandbox failed after everything else had ended.
    fn unsettled(&self) -> Option<String> {
        None
    }

    /// Returns what to tell the user if the sandbox ended by itself before its command did.
    fn gone(&self) -> Option<String> {
        None
    }

    /// Returns what the user should know of how the sandbox was made, in words.
    fn note(&self) -> Option<&str> {
        None
    }

    /// Returns where sockets and terminals of the sandbox are asked for, if that is not init.
    fn outlets(&self) -> Option<&Channel> {
        None
    }

    /// Returns a stream to a port of the sandbox's loopback, if no socket of its network can leave it.
    fn stream_to(&self, _port: u16) -> Option<Result<OwnedFd, ChannelError>> {
        None
    }

    /// Returns whether a kernel of its own answers the sandbox's system calls. No control group of the
    /// host's then holds a part of it alone.
    fn has_own_kernel(&self) -> bool {
        false
    }

    /// Returns whether the streams of programs are copied to the sandbox, because no descriptor gets there.
    fn copies_streams(&self) -> bool {
        false
    }

    /// Returns whether what the command wrote may come after the report of its end. The sandbox ends by itself when
    /// everything has come.
    fn delivers_late(&self) -> bool {
        false
    }

    /// Keeps the command for an init that is started later. Returns the command if init can hear it now.
    fn keep_command(&mut self, command: InitCommand) -> Option<InitCommand> {
        Some(command)
    }

    /// Waits for an init that is started only after the tree was sealed. Returns what it has to be sent, or
    /// nothing if init was there from the beginning.
    ///
    /// # Errors
    /// Returns why it was not started.
    fn await_init(&mut self, _channel: &Channel) -> Result<Option<LateInit>, LaunchError> {
        Ok(None)
    }

    /// Takes the mount namespace that was made after the tree was sealed. `None` if there is no such one; the
    /// inner value is `None` where it cannot be joined from outside.
    fn take_mounts(&mut self) -> Option<Option<OwnedFd>> {
        None
    }
}

/// A command with its streams.
#[derive(Debug)]
pub struct InitCommand {
    pub(crate) program: pinfold_wire::Program,
    pub(crate) stdio: Stdio,
}

/// What an init that is started late has to be sent.
#[derive(Debug)]
pub struct LateInit {
    /// The steps that are left to it.
    pub steps: LastSteps,
    /// The command, if there is one already.
    pub command: Option<InitCommand>,
    /// The channel to it, if that is another one than before.
    pub channel: Option<Channel>,
}
