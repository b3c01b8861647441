//! The engines, by what sets one apart from another.

use std::fmt;
use std::path::{Path, PathBuf};

use pinfold_policy::path::Escaped;

use super::program::{self, LeftOut, Missing, Program};
use crate::LaunchError;

/// A container engine. Those of this list are OCI runtimes: they take a bundle and need no daemon
/// (<https://github.com/opencontainers/runtime-spec>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The runtime below Docker and containerd.
    Runc,
    /// The runtime below Podman on many systems.
    Crun,
    /// A runtime in Rust.
    Youki,
    /// gVisor's: the sandbox's system calls are answered by a kernel of its own, in user space.
    Runsc,
}

impl Engine {
    /// Every engine, in the order in which one is chosen where nobody names one.
    pub const ALL: [Self; 4] = [Self::Runc, Self::Crun, Self::Youki, Self::Runsc];

    /// Returns the program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runc => "runc",
            Self::Crun => "crun",
            Self::Youki => "youki",
            Self::Runsc => "runsc",
        }
    }

    /// Returns how the boundary that it makes is called, in `ps`, the audit log and inside.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Runc => "container (runc)",
            Self::Crun => "container (crun)",
            Self::Youki => "container (youki)",
            Self::Runsc => "container (runsc)",
        }
    }

    /// Returns whether its program is on this machine, and in none of these directories.
    #[must_use]
    pub fn is_installed(
        self,
        not_in: Vec<PathBuf>,
        leads_within: fn(&Path, &[PathBuf]) -> bool,
    ) -> bool {
        program::find(self.name(), &LeftOut::new(not_in, leads_within)).is_ok()
    }

    /// Opens its program, which is taken from none of the directories that are left out.
    ///
    /// # Errors
    /// Returns an error if it is not installed elsewhere.
    pub(super) fn find(self, not_in: &LeftOut) -> Result<Program, LaunchError> {
        program::find(self.name(), not_in).map_err(|missing| LaunchError::Engine {
            engine: self.name(),
            said: match missing {
                Missing::NotInstalled => "it is not installed, or not on PATH".to_owned(),
                Missing::LeftOut(path) => {
                    format!("PATH leads to {}, where a session may have written", Escaped(&path))
                }
            },
            hint: Some(self.hint()),
        })
    }

    fn hint(self) -> String {
        match self {
            Self::Runc | Self::Crun | Self::Runsc => format!(
                "install it (Debian, Ubuntu: `sudo apt install {self}`), or choose another with \
                 --engine; `pinfold doctor` shows those that work here"
            ),
            Self::Youki => "install it from https://github.com/youki-dev/youki, or choose another \
                            with --engine; `pinfold doctor` shows those that work here"
                .to_owned(),
        }
    }

    /// Returns the arguments by which it runs the bundle in the current directory to its end, with its
    /// state in this directory, and hands on one descriptor at [`Self::channel`].
    pub(super) fn arguments(self, state: &'static str, id: &'static str) -> Vec<&'static str> {
        // It has no rights over the host's control groups, and limits are those that it was born
        // with; each engine has its own word for that. And the child has left its caller's keyring
        // already: one with the container's name says more.
        let (before, after): (&[&str], &[&str]) = match self {
            Self::Runc => (
                &["runc", "--rootless", "true", "--root", state],
                &["--preserve-fds", "1", "--no-new-keyring"],
            ),
            Self::Crun => (
                &["crun", "--cgroup-manager=disabled", "--root", state],
                &["--preserve-fds", "1", "--no-new-keyring"],
            ),
            Self::Youki => {
                (&["youki", "--log-level", "error", "--root", state], &["--preserve-fds", "1"])
            }
            // Its network is the one that the child has made, with nobody in it but the doors.
            Self::Runsc => (
                &[
                    "runsc",
                    "--rootless",
                    "--network=host",
                    "--ignore-cgroups",
                    "--overlay2=none",
                    "--file-access=shared",
                    "--host-uds=open",
                    "--root",
                    state,
                ],
                &[],
            ),
        };
        let run = ["run", "--bundle", "."];
        before.iter().copied().chain(run).chain(after.iter().copied()).chain([id]).collect()
    }

    /// Returns the number at which init finds its channel: the first that an engine hands on.
    pub(super) fn channel(self) -> i32 {
        match self {
            Self::Runc | Self::Crun | Self::Youki => 3,
            // It hands on the standard streams alone.
            Self::Runsc => 0,
        }
    }

    /// Returns whether the sandbox's system calls are answered by a kernel of the engine's.
    pub(super) fn has_own_kernel(self) -> bool {
        self == Self::Runsc
    }

    /// Returns whether it makes the usual devices, wherever they come from, and fails where they are
    /// already.
    pub(super) fn makes_devices(self) -> bool {
        self == Self::Youki
    }

    /// Returns whether it takes the paths of mounts for UTF-8 text, and fails at any other path.
    pub(super) fn takes_paths_as_text(self) -> bool {
        matches!(self, Self::Runsc | Self::Youki)
    }

    /// Returns whether it starts nothing where it sees no control groups. The others see none: they
    /// could write to none, and end therefore (youki), or because there are some of both versions (crun
    /// before 1.9).
    pub(super) fn sees_control_groups(self) -> bool {
        self == Self::Runc
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
