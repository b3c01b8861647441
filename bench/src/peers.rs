//! The same inside made by others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command;

/// What pinfold shows of the host by default; see `userland.rs` of pinfold-session.
const SHOWN: [&str; 34] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/bash_completion.d",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/inputrc",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/maven",
    "/etc/mime.types",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl",
    "/etc/terminfo",
];

/// Files that pinfold writes; bubblewrap binds the host's, which costs no less.
const WRITTEN: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
];

/// Returns bubblewrap with the namespaces and mounts of `pinfold run`.
pub(super) fn bwrap(workspace: &Path, argv: &[&str]) -> Command {
    let mut bwrap = command("bwrap");
    bwrap.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
    bwrap.args(["--setenv", "PATH", "/usr/bin:/bin", "--proc", "/proc", "--dev", "/dev"]);
    for path in ["/tmp", "/var/tmp", "/dev/shm", "/home/agent"] {
        bwrap.args(["--tmpfs", path]);
    }
    for path in SHOWN.iter().chain(&WRITTEN) {
        match fs::symlink_metadata(path) {
            Ok(entry) if entry.is_symlink() => {
                if let Ok(target) = fs::read_link(path) {
                    bwrap.arg("--symlink").arg(target).arg(path);
                }
            }
            Ok(_) => {
                bwrap.args(["--ro-bind", path, path]);
            }
            Err(_) => {}
        }
    }
    bwrap.arg("--bind").arg(workspace).arg(workspace).arg("--chdir").arg(workspace);
    bwrap.arg("--").args(argv);
    bwrap
}

/// Returns bubblewrap as people call it by hand: the system read-only, the workspace, and nothing else.
pub(super) fn bwrap_of_dotfiles(workspace: &Path, argv: &[&str]) -> Command {
    let mut bwrap = command("bwrap");
    bwrap.args(["--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]);
    bwrap.args(["--tmpfs", "/tmp"]);
    for path in ["/usr", "/bin", "/lib", "/lib64", "/etc", "/opt"] {
        bwrap.args(["--ro-bind-try", path, path]);
    }
    let git = workspace.join(".git");
    bwrap.arg("--bind").arg(workspace).arg(workspace).arg("--ro-bind").arg(&git).arg(&git);
    bwrap.arg("--chdir").arg(workspace).arg("--").args(argv);
    bwrap
}

/// Returns whether a program can be started.
pub(super) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

/// Returns the pinned sandbox-runtime, or why it is missing; `scripts/srt` installs it.
///
/// # Errors
/// The script cannot be started.
pub(super) fn srt() -> std::io::Result<Result<PathBuf, String>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/srt");
    let output = command(script).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(if output.status.success() {
        Ok(text(&output.stdout).into())
    } else {
        Err(text(&output.stderr))
    })
}
