//! How a run ended, and why one could not be.

use std::io;

use pinfold_boundary::LaunchError;
use pinfold_host::Refusal;
use pinfold_host::note::Note;
use pinfold_host::session_id::SessionId;
use pinfold_hostexec::EntriesError;
use pinfold_policy::network::NetworkRule;
use pinfold_wire::{Ended, Step};
use pinfold_workspace::GuardError;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::doors::records::Used;
use crate::spec::ReturnedSpec;
use crate::timeline::Timeline;
use pinfold_rootfs::search_path;

/// A limit that ended or hindered a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitReached {
    /// The wall-clock time was over.
    Timeout,
    /// The tree used more memory than it may.
    Memory,
    /// A process or thread was refused.
    Pids,
    /// The private directories were full.
    Disk,
    /// A process had as many open files as it may have.
    Files,
    /// What may be changed in the session's system was full.
    Overlay,
    /// More was written to the disk than a build may.
    Build,
    /// So little was left of the disk that others need it.
    Room,
}

impl LimitReached {
    /// Returns the limit's name in settings, messages and the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::Overlay => "overlaySize",
            Self::Build => "build",
            Self::Room => "free disk space",
        }
    }

    /// Returns whether reaching it ended the run.
    pub fn ended_the_run(self) -> bool {
        matches!(self, Self::Timeout | Self::Memory | Self::Build | Self::Room)
    }
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The exit status for the caller: the command's own, 124 if the time limit ended it, or 128 + the
    /// signal that did.
    pub status: u8,
    /// The limit that ended or hindered it.
    pub limit: Option<LimitReached>,
    /// Whether the user interrupted it at the terminal.
    pub interrupted: bool,
    /// Where the time went.
    pub timeline: Timeline,
    /// What a user should know of the end, and of the files that the sandbox changed.
    pub notes: Vec<Note>,
    /// Which session it was.
    pub session: Option<SessionId>,
    /// The smallest rules for the hosts that were reached.
    pub reached: Vec<NetworkRule>,
    /// What it used of models.
    pub used: Used,
    /// What came back of a specification, if there was one.
    pub spec: Option<ReturnedSpec>,
}

/// The exit status of a command that the time limit ended, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// Returns the exit status for a process that waits. A command that a limit ended has not succeeded,
/// whatever it made of that.
pub(crate) fn status(ended: Ended, limit: Option<LimitReached>) -> u8 {
    let signalled = |signal: u8| 128_u8.saturating_add(signal);
    match ended {
        _ if limit == Some(LimitReached::Timeout) => TIMED_OUT,
        Ended::Code(0) if limit.is_some_and(LimitReached::ended_the_run) => {
            signalled(libc::SIGTERM as u8)
        }
        Ended::Code(code) => code,
        Ended::Signal(signal) => signalled(signal),
    }
}

impl Outcome {
    pub(crate) fn new(ended: Option<Ended>, limit: Option<LimitReached>) -> Self {
        // Ended from outside: by a limit, or with its init.
        let status = status(ended.unwrap_or(Ended::Signal(libc::SIGKILL as u8)), limit);
        let interrupted = ended == Some(Ended::Signal(libc::SIGINT as u8));
        Self {
            status,
            limit,
            interrupted,
            timeline: Timeline::default(),
            notes: Vec::new(),
            session: None,
            reached: Vec::new(),
            used: Used::default(),
            spec: None,
        }
    }
}

/// Why a run could not be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The sandbox could not be made.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The command is not there.
    #[error("command not found inside: {0}")]
    NotFound(String),
    /// The command is there and cannot be executed.
    #[error("cannot execute {command} inside: {source}")]
    NotExecutable {
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command of the repository's that comes before failed; MoltNet's words.
    #[error("resume step \"resumeCommands[{index}]\" failed (exit {status}):\n{tail}")]
    Resume {
        /// The place in the list, from 0.
        index: usize,
        /// Its status, 128 + the signal that ended it.
        status: u8,
        /// The end of its output.
        tail: String,
    },
    /// No live session is meant by the name.
    #[error(transparent)]
    NoSession(Refusal),
    /// The caller's terminal cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(io::Error),
    /// The settings or grants contradict each other or the machine.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The system refused something that a run needs.
    #[error(transparent)]
    System(io::Error),
}

impl From<GuardError> for RunError {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::Refused(refusal) => Self::Refused(refusal),
            GuardError::System(error) => Self::System(error),
        }
    }
}

impl From<EntriesError> for RunError {
    fn from(error: EntriesError) -> Self {
        match error {
            EntriesError::System(error) => Self::System(error),
            EntriesError::OwnProgram(_) | EntriesError::Path(_) => Self::refused(error, None),
        }
    }
}

impl RunError {
    pub(crate) fn terminal(errno: Errno) -> Self {
        Self::Terminal(errno.into())
    }

    pub(crate) fn thread(error: io::Error) -> Self {
        Self::System(error)
    }

    pub(crate) fn refused(what: impl ToString, hint: Option<String>) -> Self {
        Refusal::new(what).with_hint(hint).into()
    }

    /// Makes the error of a command for which execve(2) failed, or chdir(2) for its directory.
    pub(crate) fn not_begun(step: Step, errno: i32, detail: &[u8]) -> Self {
        let command = detail.escape_ascii().to_string();
        match Errno::from_raw_os_error(errno) {
            errno if step == Step::Directory => {
                let error = io::Error::from(errno);
                Self::refused(format!("cannot enter the directory {command} inside: {error}"), None)
            }
            Errno::NOENT | Errno::NOTDIR => Self::NotFound(command),
            errno => Self::NotExecutable { command, source: errno.into() },
        }
    }

    /// Returns the hint, if there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Launch(error) => error.hint().map(str::to_owned),
            Self::NotFound(command) => Some(search_path::hint(command)),
            Self::Refused(refusal) | Self::NoSession(refusal) => refusal.hint().map(str::to_owned),
            Self::Resume { .. } => Some(
                "the commands run with what the session has: see what waits for `pinfold trust`, \
                 and which hosts are allowed"
                    .to_owned(),
            ),
            Self::NotExecutable { .. } | Self::Terminal(_) | Self::System(_) => None,
        }
    }
}
