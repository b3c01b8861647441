//! Programs in front of tools that fail in a sandbox: they say why and what to do instead, or start a container tool in a namespace where it
//! works.

use std::path::Path;

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

use crate::podman;
use crate::system::Stack;

/// The directory of these programs, for `PATH` in the sandbox.
pub const DIRECTORY: &str = "/run/pinfold/failing-tools";
const CONTAINER_TOOLS: [&str; 4] = ["docker", "podman", "buildah", "nerdctl"];
/// Those that need no daemon: they work in a sandbox that may have sandboxes of its own.
const WITHOUT_DAEMON: [&str; 2] = ["podman", "buildah"];
/// Tools that install packages on the system they run on. On a system of the session's own they may work.
const PACKAGE_TOOLS: [&str; 2] = ["apt", "apt-get"];
const INSTEAD: &str = "have packages installed by a snapshot (docs/guides/snapshots.md)";
const PLACES: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// Returns one program for each of these tools that the session's system has.
///
/// # Errors
/// Returns no error: the paths are constants.
pub fn entries(stack: Option<&Stack>, is_nested: bool) -> Result<Vec<Entry>, PathError> {
    let has = |path: &Path| stack.map_or_else(|| path.exists(), |stack| stack.has(path));
    let package_tools = PACKAGE_TOOLS.into_iter().filter(|_| stack.is_none());
    let tools = CONTAINER_TOOLS.into_iter().chain(package_tools).chain(["sudo"]);
    let found = tools.filter_map(|tool| {
        let program = PLACES.map(|place| format!("{place}/{tool}"));
        Some((tool, program.into_iter().find(|program| has(Path::new(program)))?))
    });
    let entry = |(tool, program): (&str, String)| {
        let content = match tool {
            tool if is_nested && WITHOUT_DAEMON.contains(&tool) => podman::program(&program),
            tool => script(tool, &program),
        };
        let content = content.into_bytes();
        let place = Place::File { content, mode: 0o755, keep: false };
        Ok(Entry { path: InsidePath::new(format!("{DIRECTORY}/{tool}"))?, place })
    };
    found.map(entry).collect()
}

/// Returns a script that runs the real program as it would run without it. Only a failure is explained, and
/// not if a container tool was asked to use an engine elsewhere.
fn script(tool: &str, program: &str) -> String {
    let why = match tool {
        "sudo" => format!("sudo gives no rights in a sandbox; {INSTEAD}"),
        _ if PACKAGE_TOOLS.contains(&tool) => {
            format!("a sandbox cannot change this machine's packages; {INSTEAD}")
        }
        _ if WITHOUT_DAEMON.contains(&tool) => format!(
            "containers do not work in a sandbox without --nested; start the session with it \
             (docs/guides/nested.md), or run {tool} on the host"
        ),
        _ => format!(
            "containers do not work in a sandbox; run {tool} on the host, or ask the host to run it \
             (docs/guides/host-exec.md)"
        ),
    };
    format!(
        "#!/bin/sh\n\
         {program} \"$@\"\n\
         status=$?\n\
         if [ $status -ne 0 ] && [ -z \"$DOCKER_HOST$DOCKER_CONTEXT$CONTAINER_HOST\" ]; then\n\
         \techo \"pinfold: {why}\" >&2\n\
         fi\n\
         exit $status\n"
    )
}

#[cfg(test)]
mod tests {
    use super::script;

    #[test]
    fn a_script_runs_the_real_program_with_the_same_arguments() {
        let script = script("docker", "/usr/bin/docker");
        let lines: Vec<&str> = script.lines().collect();
        assert_eq!(lines[..2], ["#!/bin/sh", "/usr/bin/docker \"$@\""]);
        assert_eq!(lines.last(), Some(&"exit $status"));
    }

    #[test]
    fn a_script_says_what_to_do_instead() {
        for (tool, why) in [
            ("podman", "run podman on the host"),
            (
                "apt-get",
                "cannot change this machine's packages; have packages installed by a snapshot",
            ),
            ("sudo", "sudo gives no rights in a sandbox; have packages installed by a snapshot"),
        ] {
            let script = script(tool, "/usr/bin/tool");
            assert!(script.contains(why), "{script}");
        }
    }
}
