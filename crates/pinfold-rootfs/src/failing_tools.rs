//! Programs in front of the container tools, which say why these fail in a sandbox, or start them in a namespace where they work.

use std::path::Path;

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

use crate::podman;
use crate::system::Stack;

/// The directory of these programs, for `PATH` in the sandbox.
pub const DIRECTORY: &str = "/run/pinfold/container-tools";
const TOOLS: [&str; 4] = ["docker", "podman", "buildah", "nerdctl"];
/// Those that need no daemon: they work in a sandbox that may have sandboxes of its own.
const WITHOUT_DAEMON: [&str; 2] = ["podman", "buildah"];
const PLACES: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// Returns one program for each container tool that the session's system has.
///
/// # Errors
/// Returns no error: the paths are constants.
pub fn entries(stack: Option<&Stack>, is_nested: bool) -> Result<Vec<Entry>, PathError> {
    let has = |path: &Path| stack.map_or_else(|| path.exists(), |stack| stack.has(path));
    let found = TOOLS.into_iter().filter_map(|tool| {
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
/// not if the tool was
/// asked to use an engine elsewhere.
fn script(tool: &str, program: &str) -> String {
    format!(
        "#!/bin/sh\n\
         {program} \"$@\"\n\
         status=$?\n\
         if [ $status -ne 0 ] && [ -z \"$DOCKER_HOST$DOCKER_CONTEXT$CONTAINER_HOST\" ]; then\n\
         \techo \"pinfold: containers do not work in a sandbox; run {tool} on the host, or ask the \
         host to run it (docs/guides/host-exec.md)\" >&2\n\
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
}
