//! Why namespaces are refused on this machine, and what a user can do about it.

use std::fs;

use pinfold_wire::Step;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::identity::caller_is_root;
use super::landlock;
use crate::LaunchError;

/// Restates a failed step as the machine's setting behind it, where there is one.
pub fn explain(error: LaunchError) -> LaunchError {
    match error {
        LaunchError::Step { step: Step::View, source, detail } => {
            LaunchError::View { path: detail, cause: view(&source) }
        }
        LaunchError::Step { step: Step::Engine, source, .. }
            if source.raw_os_error() == Some(Errno::ILSEQ.raw_os_error()) =>
        {
            LaunchError::Wall {
                what: "the name of something that is mounted inside is not UTF-8, which this container engine \
                       cannot mount; runc, crun and --boundary namespace can"
                    .to_owned(),
            }
        }
        LaunchError::Step { step: Step::Masks, source, detail }
            if source.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) =>
        {
            LaunchError::Wall {
                what: format!(
                    "the boundary landlock can neither hide nor protect {detail}, which lies in a directory that is granted: \
                     leave that grant out, grant only what is needed of it for reading, or choose another boundary"
                ),
            }
        }
        LaunchError::Step { step, source, detail } => {
            let errno = source.raw_os_error().map(Errno::from_raw_os_error);
            let refused = matches!(errno, Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS));
            let early = step <= Step::Root && detail.is_empty();
            match errno {
                Some(errno) if early && refused => namespaces(step, errno),
                _ => LaunchError::Step { step, source, detail },
            }
        }
        other => other,
    }
}

/// Rights by which root gives a sandbox an id of its own, shows files as that id's and makes some for it.
const OF_ROOT: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
];

/// Checks that root has the rights by which files are shown to a sandbox under another owner: root of a container may have
/// some of them, or none.
///
/// # Errors
/// Returns [`LaunchError::Namespaces`] for the first that is missing.
pub(super) fn check_root() -> Result<(), LaunchError> {
    let rights = rustix::thread::capabilities(None).map(|sets| sets.effective);
    // Where the kernel does not say, it refuses by itself.
    let rights = rights.unwrap_or(CapabilitySet::all());
    if let Some((_, missing)) = OF_ROOT.into_iter().find(|(right, _)| !rights.contains(*right)) {
        return Err(LaunchError::Namespaces {
            cause: format!(
                "this is root without {missing}, as in a container: its files cannot be shown to a sandbox under \
                 another owner"
            ),
            hint: "run pinfold as an ordinary user (Docker: --user; devcontainer.json: \"remoteUser\"; \
                   docs/guides/hosts.md has more)"
                .to_owned(),
        });
    }
    Ok(())
}

/// Checks that the kernel has calls which every session needs, before anything else fails for the lack of them.
///
/// # Errors
/// Returns [`LaunchError::Kernel`] without openat2(2).
pub fn check_kernel() -> Result<(), LaunchError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::empty()) {
        Err(Errno::NOSYS) => Err(without_calls()),
        _ => Ok(()),
    }
}

fn without_calls() -> LaunchError {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    LaunchError::Kernel { release }
}

/// Returns the error for namespaces that could not be made, or gave no rights.
pub(super) fn namespaces(step: Step, errno: Errno) -> LaunchError {
    if let Err(error) = check_kernel() {
        return error;
    }
    let (cause, hint) = match known_cause(step, errno) {
        Some((cause, hint)) => (cause.to_owned(), hint.to_owned()),
        None => (
            format!("{errno} while {}", step.words()),
            "run `pinfold doctor` to see what this machine allows".to_owned(),
        ),
    };
    let is_possible = landlock::abi() >= landlock::OLDEST_SCOPED && !caller_is_root();
    let hint = if step == Step::Identity && is_possible {
        format!(
            "{hint}; or choose the weaker `--boundary landlock --workspace overlay` (docs/guides/landlock.md says what it \
             lacks)"
        )
    } else {
        hint
    };
    LaunchError::Namespaces { cause, hint }
}

fn known_cause(step: Step, errno: Errno) -> Option<(&'static str, &'static str)> {
    let is = |setting: &str, value: &str| sysctl(setting).is_some_and(|found| found == value);
    if is("kernel/apparmor_restrict_unprivileged_userns", "1")
        && !rustix::process::geteuid().is_root()
    {
        return Some((
            "AppArmor takes their rights away (kernel.apparmor_restrict_unprivileged_userns=1, the \
             default of Ubuntu 24.04)",
            "allow it for pinfold alone: put\n  abi <abi/4.0>,\n  include <tunables/global>\n  \
             profile pinfold /**/pinfold flags=(unconfined) { userns, }\ninto \
             /etc/apparmor.d/pinfold and run `sudo apparmor_parser -r /etc/apparmor.d/pinfold`",
        ));
    }
    if is("kernel/unprivileged_userns_clone", "0") {
        return Some((
            "they are off for ordinary users (kernel.unprivileged_userns_clone=0)",
            "ask the administrator for `sudo sysctl kernel.unprivileged_userns_clone=1`",
        ));
    }
    if errno == Errno::NOSPC || is("user/max_user_namespaces", "0") {
        return Some((
            "their number is used up or set to zero (user.max_user_namespaces)",
            "ask the administrator for `sudo sysctl user.max_user_namespaces=15000`",
        ));
    }
    if step == Step::Root && errno == Errno::PERM {
        return Some((
            "a fresh /proc may not be mounted here: this is a container whose /proc is masked",
            "start the container with an unmasked /proc (Docker: --security-opt \
             systempaths=unconfined; Kubernetes: procMount: Unmasked)",
        ));
    }
    // Docker's filter answers clone3(2) with ENOSYS, so that the C library tries an older call.
    if step == Step::Identity && matches!(errno, Errno::PERM | Errno::NOSYS) {
        return Some((
            "the system call filter of a container, or a security module, refuses them",
            "start the container with a filter that allows them (Docker: --security-opt \
             seccomp=unconfined --security-opt systempaths=unconfined; docs/guides/hosts.md has more), or run pinfold \
             outside it",
        ));
    }
    None
}

/// Returns why overlayfs refused (`ovl_fill_super` in the kernel's fs/overlayfs).
fn view(source: &std::io::Error) -> String {
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NODEV) => {
            "the kernel has no overlayfs (`modprobe overlay` loads it)".to_owned()
        }
        Some(Errno::PERM) => {
            "the kernel lets only root mount overlayfs: Linux 5.11 is needed, and \
                              no security module that forbids it"
                .to_owned()
        }
        Some(Errno::INVAL) => "overlayfs takes one of the two file systems for no layer: changes \
                               cannot lie on another overlay (as in a container), on NFS or FUSE, \
                               or where `user.` attributes are off, and what root grants is shown \
                               under other owners, which it takes from Linux 5.19 on"
            .to_owned(),
        _ => format!("overlayfs says: {source}"),
    }
}

fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    Some(text.trim().to_owned())
}
