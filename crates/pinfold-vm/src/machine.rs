//! What a sandbox needs of a machine, whichever program runs it.
//!
//! [`QemuMachine`](crate::QemuMachine) is the one that there is. The sandbox, its doors and ports, templates and the
//! guest know this trait alone, so another program is one more implementation, and one more choice in
//! [`Vm`](crate::Vm).

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use pinfold_boundary::Inside;
use pinfold_boundary::namespace::FileServer;
use thiserror::Error;

use crate::spec::Spec;

/// Serves who connects to a socket.
pub type Server = fn(OwnedFd) -> Box<dyn FileServer>;

/// A machine that runs. Dropping it ends it, with everything of it.
pub trait Machine: fmt::Debug + Send + Sized + 'static {
    /// The program that runs it.
    type Program: fmt::Debug;

    /// Returns what a template of such a machine depends on.
    fn origin(program: &Self::Program, spec: &Spec) -> Origin;

    /// Boots a machine. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if its program cannot be used or does not start. An error in the kernel comes later: the channel
    /// ends then, and [`Self::end`] returns what was said.
    fn boot(program: &Self::Program, spec: &Spec) -> Result<Self, MachineError>;

    /// Boots a machine until it waits for its host, takes its memory and devices, and ends it. A tree is served to it in
    /// which nothing is. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if it does not come so far.
    fn snapshot(
        program: &Self::Program,
        spec: &Spec,
        server: Server,
    ) -> Result<Snapshot, MachineError>;

    /// Starts a machine with the memory of a snapshot, which sleeps until [`Self::wake`]. The memory may be filled until
    /// then. The calling process must have one thread.
    ///
    /// # Errors
    /// Returns an error if its program does not start.
    fn restore(program: &Self::Program, spec: &Spec, memory: OwnedFd)
    -> Result<Self, MachineError>;

    /// Gives the devices of a restored machine the state that they had in the snapshot, and has it run.
    ///
    /// # Errors
    /// Returns [`MachineError::State`] if the program refuses that state, and another error if it cannot take it.
    fn wake(&mut self, devices: &[u8]) -> Result<(), MachineError>;

    /// Waits for the byte channel to the guest, which ends when the machine does. Call it once.
    ///
    /// # Errors
    /// Returns an error if the program ends instead, or takes too long.
    fn channel(&mut self) -> Result<OwnedFd, MachineError>;

    /// Takes the socket at which the program connects to the file server, if the machine has a tree.
    fn files(&mut self) -> Option<OwnedFd>;

    /// Returns the sandbox that holds the program, with its control group.
    fn process(&self) -> &Inside;

    /// Ends the machine. Returns the last lines of what its program and the guest's console said, without control
    /// characters.
    fn end(&self) -> String;
}

/// What a template depends on: with another one of these, it is another template.
#[derive(Debug)]
pub struct Origin {
    /// The command line, or whatever else says what the machine is.
    pub words: Vec<OsString>,
    /// Files, as they are now.
    pub files: Vec<PathBuf>,
}

/// A machine that waits for its host to speak.
#[derive(Debug)]
pub struct Snapshot {
    pub memory: OwnedFd,
    /// What its program says of its devices.
    pub devices: Vec<u8>,
}

/// Why there is no machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The program does not take the state of the devices, or does not give it.
    #[error("{0}")]
    State(String),
    /// It cannot be used, does not start, or has ended.
    #[error("{what}")]
    Failed {
        what: String,
        /// What a user can do about it.
        hint: Option<String>,
    },
}

impl MachineError {
    /// Returns what a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::State(_) => None,
            Self::Failed { hint, .. } => hint.as_deref(),
        }
    }
}
