//! Paths that nobody grants because each sandbox has its own there.

use std::path::Path;

use pinfold_boundary::landlock::KERNEL;
use pinfold_boundary::namespace::DEVICES;
use pinfold_policy::access::Access;
use pinfold_policy::authority::{Explanation, Verdict};
use pinfold_policy::settings::BoundaryName;

use crate::{chromium, etc_files, userland};

/// What a sandbox has of its own at a path.
#[derive(Debug, Clone, Copy)]
enum Own {
    /// A directory that is empty at the start.
    Private,
    /// A file of `/etc` that describes the sandbox.
    Generated,
    Device,
    /// Something of `/proc`, which shows the sandbox's processes.
    Processes,
    /// A place of `/sys` where files say what the session may use up.
    Limits,
    /// Something else of `/dev` and `/sys`.
    Missing,
}

/// Where programs look for limits.
const LIMITS: [&str; 2] = ["/sys/fs/cgroup", "/sys/devices/system/cpu"];

impl Own {
    fn of(path: &Path, is_private: bool) -> Option<Self> {
        let device = path.strip_prefix("/dev").ok();
        if is_private || userland::is_private(path) {
            Some(Self::Private)
        } else if etc_files::is_generated(path) || chromium::is_settings(path) {
            Some(Self::Generated)
        } else if device.is_some_and(is_device) {
            Some(Self::Device)
        } else if path.starts_with("/proc") {
            Some(Self::Processes)
        } else if LIMITS.iter().any(|limits| path.starts_with(limits)) {
            Some(Self::Limits)
        } else if device.is_some() || path.starts_with("/sys") {
            Some(Self::Missing)
        } else {
            None
        }
    }
}

/// Returns whether each sandbox has this name in `/dev`.
fn is_device(name: &Path) -> bool {
    /// Terminals and the streams of a process.
    const OTHERS: [&str; 6] = ["fd", "stdin", "stdout", "stderr", "ptmx", "pts"];
    DEVICES.iter().chain(&OTHERS).any(|own| Path::new(own) == name)
}

/// Explains a path that nobody granted, if each sandbox behind this boundary has its own there. `is_private` is a path of
/// a workspace that is.
pub fn explain(
    explanation: &mut Explanation,
    asked: Access,
    boundary: Option<BoundaryName>,
    is_private: bool,
) {
    if explanation.grant.is_some() {
        return;
    }
    let Some(own) = Own::of(explanation.inside.as_path(), is_private) else { return };
    let has_own_root = boundary != Some(BoundaryName::Landlock);
    let reads = asked == Access::READ;
    let is_of_kernel = KERNEL.iter().any(|file| explanation.inside.as_path().starts_with(file));
    let (is_allowed, text) = match own {
        Own::Private if has_own_root || is_private => {
            (true, "it is private to the session, empty at its start and gone at its end")
        }
        Own::Private => (
            false,
            "behind landlock the session's private directories are elsewhere: $HOME and $TMPDIR name them",
        ),
        Own::Generated if has_own_root => {
            (reads, "pinfold makes it for the session, in place of the host's, read-only")
        }
        Own::Generated => (reads, "behind landlock it is the machine's"),
        Own::Device => (asked != Access::EXECUTE, "each sandbox has this device"),
        Own::Processes if has_own_root => (
            reads,
            "it is of the sandbox's own /proc, of which the kernel decides and not the policy",
        ),
        Own::Processes if is_of_kernel => {
            (reads, "it is the machine's, and says nothing of processes")
        }
        Own::Processes => (false, "behind landlock programs have no /proc of processes"),
        Own::Limits if has_own_root => {
            (reads, "it is of the sandbox's own /sys, which shows its limits and is read-only")
        }
        Own::Limits | Own::Missing => {
            (false, "no sandbox has it: of /dev and /sys there is what programs need")
        }
    };
    (explanation.hint, explanation.exists) = (None, !matches!(own, Own::Missing));
    if is_allowed {
        explanation.verdict = Verdict::Allow;
        (explanation.reason, explanation.note) = (None, Some(text.to_owned()));
    } else {
        explanation.verdict = Verdict::Deny;
        explanation.reason = Some(text.to_owned());
    }
}
