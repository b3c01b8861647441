//! What rootless Podman needs in a sandbox that may have sandboxes of its own.
//!
//! One user and group exist inside, so files of images all belong to them. The network is the sandbox's, with its doors: no device
//! for a network of a container's own is there. Control groups are pinfold's.

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

/// containers.conf(5), containers-storage.conf(5), containers-policy.json(5), containers-registries.conf(5).
const FILES: [(&str, &str); 4] = [
    (
        "/etc/containers/containers.conf",
        "[containers]\nnetns = \"host\"\ncgroupns = \"host\"\ncgroups = \"disabled\"\nkeyring = false\n\n\
         [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n",
    ),
    // Podman has defaults for both directories, and Buildah wants them named.
    (
        "/etc/containers/storage.conf",
        "[storage]\ndriver = \"overlay\"\nrunroot = \"/tmp/.podman/storage\"\n\
         graphroot = \"/home/agent/.local/share/containers/storage\"\n\n\
         [storage.options.overlay]\nignore_chown_errors = \"true\"\n",
    ),
    ("/etc/containers/policy.json", "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}\n"),
    ("/etc/containers/registries.conf", "unqualified-search-registries = [\"docker.io\"]\n"),
];

/// Returns its configuration.
///
/// # Errors
/// Returns no error: the paths are constants.
pub fn entries() -> Result<Vec<Entry>, PathError> {
    let entry = |(path, content): (&str, &str)| {
        let content = content.as_bytes().to_vec();
        let place = Place::File { content, mode: 0o644, keep: false };
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
        let Place::File { content, .. } = &entries[1].place else { panic!() };
        let content = String::from_utf8(content.clone()).unwrap();
        assert!(content.contains(&format!("graphroot = \"{HOME}/")), "{content}");
    }

    #[test]
    fn program_gets_its_own_arguments() {
        let script = program("/usr/bin/podman");
        assert!(script.ends_with("/usr/bin/podman \"$@\"\n"), "{script}");
    }
}
