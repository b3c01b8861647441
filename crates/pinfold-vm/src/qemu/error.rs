//! Why QEMU cannot be used.

use std::path::PathBuf;

use pinfold_boundary::LaunchError;
use pinfold_policy::path::PathError;
use rustix::io::Errno;
use thiserror::Error;

use crate::architecture::Architecture;
use crate::machine::MachineError;
use crate::said::one_line;
use crate::template::MemoryError;

/// The oldest version that moves a machine with a vhost-user file system.
const OLDEST: Version = Version { major: 8, minor: 2 };

/// Why QEMU cannot be used.
#[derive(Debug, Error)]
pub enum QemuError {
    /// It is not there.
    #[error("{program} does not exist")]
    Missing { program: PathBuf, architecture: &'static Architecture },
    /// It is too old.
    #[error("QEMU {found} is too old; version {OLDEST} or newer is needed")]
    TooOld { found: Version, architecture: &'static Architecture },
    /// It does not say which version it is.
    #[error("{program} does not say its version: {said}")]
    NoVersion {
        program: PathBuf,
        /// What it says.
        said: String,
    },
    /// It has no device for file systems.
    #[error("QEMU {found} was built without the device vhost-user-fs-pci")]
    NoFileSystems { found: Version, architecture: &'static Architecture },
    /// The system refused a socket.
    #[error("cannot start QEMU: {0}")]
    System(#[from] Errno),
    /// A path cannot be granted to it.
    #[error("cannot start QEMU: {0}")]
    Path(#[from] PathError),
    /// It ended, or did not connect the channel in time.
    #[error("QEMU did not start: {0}")]
    Refused(String),
    /// Its sandbox did not start.
    #[error("cannot start QEMU: {0}")]
    Launch(#[from] LaunchError),
    /// There is no memory for a machine.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// It does not do what its monitor asks for.
    #[error("QEMU's monitor: {0}")]
    Monitor(String),
    /// It does not take the state of a machine's devices, or does not give it.
    #[error("QEMU's monitor: {0}")]
    State(String),
}

impl QemuError {
    /// Adds what QEMU and the guest said to what the monitor did.
    pub(super) fn with_words(self, said: &str) -> Self {
        let add = |what: String| match one_line(&without_registers(said)) {
            said if said.is_empty() => what,
            said => format!("{what}; {said}"),
        };
        match self {
            Self::Monitor(what) => Self::Monitor(add(what)),
            Self::State(what) => Self::State(add(what)),
            error => error,
        }
    }

    /// Returns what a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing {
                architecture: Architecture { packages: [debian, fedora], .. }, ..
            } => Some(format!(
                "install {debian} (Debian, Ubuntu) or {fedora} (Fedora), or unpack such packages and set `qemu` to \
                     their directory in pinfold's config.toml"
            )),
            Self::TooOld { architecture: Architecture { packages: [debian, _], .. }, .. } => {
                Some(format!(
                    "take it from backports (Debian 12: `apt-get install -t bookworm-backports {debian}`), or unpack \
                     newer packages and set `qemu` to their directory in pinfold's config.toml"
                ))
            }
            Self::NoFileSystems {
                architecture: Architecture { packages: [debian, _], .. },
                ..
            } => Some(format!(
                "install the distribution's own package, such as {debian} (Debian, Ubuntu)"
            )),
            Self::Memory(MemoryError::Limit { .. }) => {
                let hint = "raise `ulimit -f`, or give the machine less memory (`--memory`)";
                Some(hint.to_owned())
            }
            Self::NoVersion { .. }
            | Self::Memory(MemoryError::System(_))
            | Self::System(_)
            | Self::Path(_)
            | Self::Refused(_)
            | Self::Launch(_)
            | Self::Monitor(_)
            | Self::State(_) => None,
        }
    }
}

/// Leaves out the processor's registers, and all after them, which QEMU shows of a guest that KVM cannot run.
fn without_registers(said: &str) -> String {
    let is_register =
        |line: &str| ["RAX=", "EAX=", " PC="].iter().any(|name| line.starts_with(name));
    said.lines()
        .take_while(|line| !is_register(line))
        .fold(String::new(), |text, line| text + line + "\n")
}

impl From<QemuError> for MachineError {
    fn from(error: QemuError) -> Self {
        match error {
            QemuError::State(_) => Self::State(error.to_string()),
            error => Self::Failed { what: error.to_string(), hint: error.hint() },
        }
    }
}

/// The version of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    pub(super) fn is_new_enough(self) -> bool {
        self >= OLDEST
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Reads `QEMU emulator version 10.0.2 (Debian …)`.
pub(super) fn version(said: &str) -> Option<Version> {
    let (_, rest) = said.split_once("QEMU emulator version ")?;
    let mut numbers = rest.split(|character: char| !character.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some(Version { major: next()?, minor: next()? })
}
