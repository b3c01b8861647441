//! What rootless Podman needs in a sandbox that may have sandboxes of its own.
//!
//! One user and group exist inside, so files of images all belong to them. Control groups are pinfold's. The network is the sandbox's,
//! with its doors, unless a container asks for one of its own, as clients of Docker's do: that one has mapped ports and no way out,
//! which would need a packet filter and the device of tunnels.

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

/// Files with their modes: containers.conf(5), containers-storage.conf(5), containers-policy.json(5), containers-registries.conf(5).
const FILES: [(&str, &str, u32); 6] = [
    (
        "/etc/containers/containers.conf",
        "[containers]\nnetns = \"host\"\ncgroupns = \"host\"\ncgroups = \"disabled\"\nkeyring = false\n\
         default_sysctls = []\n\n\
         [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
         network_cmd_path = \"/run/pinfold/nested/slirp4netns\"\n\n\
         [network]\nfirewall_driver = \"none\"\nnetwork_config_dir = \"/etc/containers/networks\"\n",
        0o644,
    ),
    // Podman's own default without a packet filter (CNI's plug-in `bridge`, podman-network(1)).
    ("/etc/containers/networks/87-podman.conflist", include_str!("podman/network.conflist"), 0o644),
    ("/run/pinfold/nested/slirp4netns", include_str!("podman/slirp4netns.sh"), 0o755),
    // Podman has defaults for both directories, and Buildah wants them named.
    (
        "/etc/containers/storage.conf",
        "[storage]\ndriver = \"overlay\"\nrunroot = \"/tmp/.podman/storage\"\n\
         graphroot = \"/home/agent/.local/share/containers/storage\"\n\n\
         [storage.options.overlay]\nignore_chown_errors = \"true\"\n",
        0o644,
    ),
    (
        "/etc/containers/policy.json",
        "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}\n",
        0o644,
    ),
    ("/etc/containers/registries.conf", "unqualified-search-registries = [\"docker.io\"]\n", 0o644),
];

/// Returns its configuration.
///
/// # Errors
/// Returns no error: the paths are constants.
pub fn entries() -> Result<Vec<Entry>, PathError> {
    let entry = |(path, content, mode): (&str, &str, u32)| {
        let content = content.as_bytes().to_vec();
        let place = Place::File { content, mode, keep: false };
        Ok(Entry { path: InsidePath::new(path)?, place })
    };
    FILES.into_iter().map(entry).collect()
}

/// Returns a script that runs a program of Podman's family as root of a user namespace, the same one for all calls: what one call
/// mounts and starts the next one finds. Without subordinate ids they do not make one themselves, or not all versions do.
#[must_use]
pub fn program(program: &str) -> String {
    format!(
        r#"#!/bin/sh
# The user namespace is that of a process that does nothing.
export XDG_RUNTIME_DIR="${{XDG_RUNTIME_DIR:-/tmp/.podman}}"
mkdir -p -m 700 "$XDG_RUNTIME_DIR" || exit 125
own=$(readlink /proc/self/ns/user)
exec 9>>"$XDG_RUNTIME_DIR/namespace.lock"
flock 9
holder=$(cat "$XDG_RUNTIME_DIR/namespace" 2>/dev/null)
there=$(readlink "/proc/${{holder:-none}}/ns/user")
if [ -z "$there" ] || [ "$there" = "$own" ]; then
	setsid unshare --map-root-user --mount sleep infinity </dev/null >/dev/null 2>&1 9>&- &
	holder=$!
	until [ "$(cat "/proc/$holder/comm" 2>/dev/null)" = sleep ]; do
		kill -0 "$holder" 2>/dev/null || {{ echo "pinfold: no user namespace can be made" >&2; exit 125; }}
	done
	echo "$holder" >"$XDG_RUNTIME_DIR/namespace"
fi
exec 9>&-
export _CONTAINERS_USERNS_CONFIGURED=done _CONTAINERS_ROOTLESS_UID="$(id -u)" _CONTAINERS_ROOTLESS_GID="$(id -g)"
exec nsenter --target "$holder" --user --mount --preserve-credentials --wd="$PWD" {program} "$@"
"#
    )
}

#[cfg(test)]
mod tests {
    use pinfold_boundary::Place;

    use super::{entries, program};
    use crate::userland::HOME;

    #[test]
    fn storage_is_in_the_home_of_the_sandbox() {
        let entries = entries().unwrap();
        let storage = entries.iter().find(|entry| entry.path.as_path().ends_with("storage.conf"));
        let Place::File { content, .. } = &storage.unwrap().place else { panic!() };
        let content = String::from_utf8(content.clone()).unwrap();
        assert!(content.contains(&format!("graphroot = \"{HOME}/")), "{content}");
    }

    #[test]
    fn program_gets_its_own_arguments() {
        let script = program("/usr/bin/podman");
        assert!(script.ends_with("/usr/bin/podman \"$@\"\n"), "{script}");
    }
}
