//! Why a sandbox could not be made.

use std::io;

use pinfold_wire::{ChannelError, Step};
use rustix::io::Errno;
use thiserror::Error;

/// Why a sandbox could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The kernel does not have calls that every sandbox needs.
    #[error("this kernel ({release}) does not have calls that pinfold needs, such as openat2")]
    Kernel {
        /// Its release, as `uname -r` prints it.
        release: String,
    },
    /// The kernel refused new namespaces.
    #[error("cannot make a user namespace: {cause}")]
    Namespaces {
        /// Why, in words.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// A source of a grant cannot be used.
    #[error("cannot grant {path}: {source}")]
    Source {
        /// The host path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A limit that was asked for cannot be enforced here.
    #[error("cannot enforce the {limit} limit: {cause}")]
    Limit { limit: &'static str, cause: String },
    /// The boundary cannot have a limit that was asked for, whatever the machine.
    #[error("cannot enforce the {limit} limit: {cause}")]
    BoundaryLimit {
        limit: &'static str,
        cause: String,
        /// What to do.
        hint: &'static str,
    },
    /// A wall that the policy requires is missing.
    #[error("{what}")]
    Wall {
        /// Which, and why.
        what: String,
    },
    /// The kernel or a file system cannot make a copy-on-write view.
    #[error("cannot make a copy-on-write view of {path}: {cause}")]
    View {
        path: String,
        /// Why, in words.
        cause: String,
    },
    /// A step inside failed.
    #[error("failed while {}{}: {source}", step.words(), detail_words(detail))]
    Step {
        step: Step,
        /// The path or value that it was about.
        detail: String,
        /// What the system said.
        source: io::Error,
    },
    /// A container engine cannot run the sandbox.
    #[error("the container engine {engine} cannot be used: {said}")]
    Engine {
        engine: &'static str,
        /// Why, in words, or what it said itself.
        said: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A machine is not available, or does not run the sandbox.
    #[error("{what}")]
    Machine {
        /// Why, in words, or what it said itself.
        what: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The program that root runs for users does not start the sandbox.
    #[error("pinfold-runner: {what}")]
    Runner {
        /// Why, in words.
        what: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The user ended the start while an engine was waited for.
    #[error("the start was interrupted")]
    Interrupted,
    /// Init ended without a word.
    #[error("init ended during the start without a word")]
    Silent,
    /// The doors' sockets, or the terminal, could not be handed over.
    #[error("what init has opened could not be handed over: too many open files")]
    HandOver,
    /// The control channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// Anything else that the system said.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

const OLD_KERNEL: &str = "use Linux 5.15 or newer (`uname -r` shows it); where it is, a filter around pinfold hides its calls";

fn detail_words(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail})") }
}

impl LaunchError {
    /// Returns what a user can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            // What gVisor's kernel says of itself, whatever its own version (pkg/sentry/syscalls/linux).
            Self::Kernel { release } if release.starts_with("4.4.0") => Some(
                "this looks like gVisor, in which no sandbox can be made: run pinfold outside it, or choose another \
                 runtime for this container (Docker: --runtime runc; docs/guides/hosts.md has more)",
            ),
            Self::Kernel { .. } => Some(OLD_KERNEL),
            Self::Namespaces { hint, .. } => Some(hint),
            Self::BoundaryLimit { hint, .. } => Some(hint),
            Self::Engine { hint, .. } | Self::Machine { hint, .. } | Self::Runner { hint, .. } => {
                hint.as_deref()
            }
            // systemd(1) hands groups on; a container that pinfold runs in needs the same from its engine.
            Self::Limit { .. } => Some(
                "start pinfold in a control group that you may divide (`systemd-run --user --scope -p \
                 Delegate=yes pinfold run …`), choose a container engine that can (`--engine`), or leave that \
                 limit out",
            ),
            Self::HandOver => Some(
                "raise `ulimit -n`, or end what of yours keeps many descriptors on their way between \
                 processes (ETOOMANYREFS, unix(7))",
            ),
            Self::Source { source, .. } | Self::Step { step: Step::Grants, source, .. }
                if Errno::from_io_error(source) == Some(Errno::LOOP) =>
            {
                Some(
                    "a symbolic link was put there after the path was looked at: see who writes there",
                )
            }
            Self::Step { step: Step::Grants, source, .. }
                if Errno::from_io_error(source) == Some(Errno::ACCESS) =>
            {
                Some(
                    "a directory above it is closed to others, and root's nested sandboxes see such a grant only where nothing \
                     of the host's can be written to: work in a view (`--workspace overlay`), or leave that grant out",
                )
            }
            Self::Step { step: Step::Masks, source, .. }
                if matches!(Errno::from_io_error(source), Some(Errno::NOENT | Errno::NOTDIR)) =>
            {
                Some(
                    "another program removed it while the session was starting: run it again, or once that program has \
                     ended",
                )
            }
            Self::Source { source, .. } | Self::Step { source, .. }
                if Errno::from_io_error(source) == Some(Errno::NOSYS) =>
            {
                Some(OLD_KERNEL)
            }
            _ => None,
        }
    }
}

/// Returns the error behind a report that should not have come.
pub(crate) fn failure(report: pinfold_wire::Report) -> LaunchError {
    match report {
        pinfold_wire::Report::Failed { step, errno, detail } => step_failed(step, errno, &detail),
        _ => LaunchError::Silent,
    }
}

/// Returns a step's failure as init reported it.
pub fn step_failed(step: Step, errno: i32, detail: &[u8]) -> LaunchError {
    LaunchError::Step {
        step,
        detail: detail.escape_ascii().to_string(),
        source: io::Error::from_raw_os_error(errno),
    }
}
