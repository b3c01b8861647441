//! The host's own git on the host's own repository.

use std::ffi::OsString;

use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::owner_at;
use pinfold_host::launcher::{HostProgram, Spot};

const NO_HOOKS: &str = "core.hooksPath=/dev/null";
const NO_MONITOR: &str = "core.fsmonitor=false";

/// The host's git, for one git directory.
#[derive(Debug, Clone, Copy)]
pub struct HostGit<'a> {
    pub program: &'a HostProgram,
    /// The git directory: a repository's, or a linked worktree's.
    pub directory: &'a Anchor,
}

impl HostGit<'_> {
    /// Runs it without hooks and returns what it writes. It stands in the git directory: what has
    /// been put in its place since is another one.
    ///
    /// # Errors
    /// Returns the error of it when it fails, or why the directory is not opened.
    pub fn run(self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, String> {
        let said = self.run_with(arguments, &[], input)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Returns the same with more variables; returns the bytes that it writes.
    ///
    /// # Errors
    /// Returns the errors of [`Self::run`].
    pub fn run_with(
        self,
        arguments: &[&str],
        more: &[(&str, &str)],
        input: Option<&[u8]>,
    ) -> Result<Vec<u8>, String> {
        let directory = self.directory.open().map_err(|error| error.to_string())?;
        // No command here needs the working tree, and one of a submodule may be gone.
        let place = ["--git-dir", ".", "--work-tree", ".", "-c", NO_HOOKS, "-c", NO_MONITOR];
        let mut argv: Vec<OsString> = vec![self.program.path().into()];
        argv.extend(place.iter().chain(arguments).map(Into::into));
        let mut variables = vec![
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("LC_ALL", "C"),
        ];
        variables.extend(more);
        let spot = Spot { path: self.directory.path(), opened: &directory };
        let owner = owner_at(&directory, "HEAD");
        let output = self
            .program
            .launcher()
            .run_in(spot, owner, &argv, &variables, input)
            .map_err(|error| error.to_string())?;
        if output.code == Some(0) {
            return Ok(output.stdout.to_vec());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().escape_debug().to_string())
    }

    /// Returns one line of what it writes; `None` when it fails or writes none.
    pub fn line(self, arguments: &[&str]) -> Option<String> {
        let line = self.run(arguments, None).ok()?.trim().to_owned();
        (!line.is_empty()).then_some(line)
    }
}
