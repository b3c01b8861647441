//! The configuration of a container, as OCI runtimes read it.
//!
//! The tree comes as the bundle's root, with all that is mounted on it. What is said here is what the
//! engine adds: its own namespaces, a /proc of its own, and no right to anything.

use std::path::Path;

use super::config::{
    Annotations, Capabilities, Config, Linux, Mount, Namespace, Process, Root, User,
};
use super::listed::Listed;
use super::{INIT, SUBCOMMAND};
use crate::namespace::{HIDDEN_KERNEL_FILES, SEALED_KERNEL_FILES};

/// The version of the specification that says all of this.
const VERSION: &str = "1.0.2";

/// What an engine itself adds to the sandbox's view, and the mounts of the tree that must therefore be
/// listed for it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Makes<'a> {
    /// /proc.
    Proc,
    /// /dev too, with the usual devices of the host's. The rest is mounted at these paths below that of the engine's root.
    Devices(&'a [Listed]),
    /// Both, by a kernel of its own, which takes the tree for one mount and cannot be changed.
    Kernel(&'a [Listed]),
}

/// Returns the container of a tree at `root`, whose init has its channel at descriptor `channel` and is
/// to be the user `ids`.
///
/// The user is root of the namespace around the engine, which stands for the caller, or for an id that
/// owns nothing; init becomes the sandbox's user in a namespace of its own.
pub(super) fn container(
    root: &Path,
    hostname: &str,
    channel: u32,
    ids: (u32, u32),
    makes: Makes<'_>,
) -> Config {
    let numbers = [channel, ids.0, ids.1].map(|number| number.to_string());
    // A process that maps the root of a namespace into one below needs this right over it (Linux 5.12,
    // user_namespaces(7)). Init has it until it has done that, and nothing else runs before.
    let own = &["CAP_SETFCAP"];
    let process = Process {
        terminal: false,
        user: User { uid: 0, gid: 0 },
        args: [INIT.to_owned(), SUBCOMMAND.to_owned()].into_iter().chain(numbers).collect(),
        env: vec!["PATH=/"],
        cwd: "/",
        capabilities: Capabilities {
            bounding: own,
            effective: own,
            inheritable: &[],
            permitted: own,
            ambient: &[],
        },
        rlimits: [],
        no_new_privileges: true,
    };
    let of_kernel =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("/{name}")).collect() };
    let mut read_only = of_kernel(&SEALED_KERNEL_FILES);
    if matches!(makes, Makes::Devices(_)) {
        read_only.push("/dev".to_owned());
    }
    let namespaces = ["pid", "mount", "ipc", "uts", "cgroup"];
    Config {
        oci_version: VERSION,
        root: Root { path: root.to_owned(), readonly: true },
        mounts: mounts(root, makes),
        process,
        hostname: hostname.to_owned(),
        annotations: Annotations {},
        linux: Linux {
            namespaces: namespaces.map(|kind| Namespace { kind }).into(),
            devices: [],
            rootfs_propagation: "private",
            masked_paths: of_kernel(&HIDDEN_KERNEL_FILES),
            readonly_paths: read_only,
        },
    }
}

/// Returns what is mounted on the tree by the engine.
fn mounts(root: &Path, makes: Makes<'_>) -> Vec<Mount> {
    let mount = |to: &str, kind: &'static str, from: &Path, options: &[&'static str]| Mount {
        destination: to.to_owned(),
        kind,
        source: from.to_owned(),
        options: options.to_vec(),
    };
    let bound = |one: &Listed, above: &str, from: &Path, more: &[&'static str]| {
        let access = if one.is_read_only { "ro" } else { "rw" };
        let to = format!("{above}{}", one.path);
        let from = from.join(one.path.trim_start_matches('/'));
        // With what is mounted below: a mask that no list can name masks all the same.
        mount(&to, "bind", &from, &[&["rbind", access, "nosuid"], more].concat())
    };
    let mut all = vec![mount("/proc", "proc", "proc".as_ref(), &["nosuid", "nodev", "noexec"])];
    match makes {
        // With these in place, an engine makes none. All else is mounted on the root already.
        Makes::Proc => {
            let options = ["rbind", "ro", "nosuid", "noexec"];
            all.push(mount("/dev", "bind", &root.join("dev"), &options));
        }
        Makes::Devices(listed) => {
            let options = ["nosuid", "noexec", "mode=755", "size=64k"];
            all.push(mount("/dev", "tmpfs", "tmpfs".as_ref(), &options));
            for one in listed {
                all.push(bound(one, "/dev", "/dev".as_ref(), &[]));
            }
        }
        Makes::Kernel(listed) => {
            all.push(mount("/dev", "tmpfs", "tmpfs".as_ref(), &["nosuid"]));
            for one in listed {
                all.push(bound(one, "", root, &["nodev"]));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
