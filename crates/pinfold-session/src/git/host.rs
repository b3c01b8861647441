//! The host's own git on the host's own repository.

use std::ffi::OsString;
use std::path::Path;

use super::settle::owner;
use crate::launcher::Launcher;

/// The host's git, for one git directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostGit<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// The git directory: a repository's, or a linked worktree's.
    pub(crate) directory: &'a Path,
}

impl HostGit<'_> {
    /// Runs it without hooks and returns what it writes.
    ///
    /// # Errors
    /// What it says when it fails.
    pub(crate) fn run(self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, String> {
        let mut argv: Vec<OsString> = vec![self.program.into(), "--git-dir".into()];
        argv.push(self.directory.into());
        // No command here needs the working tree, and one of a submodule may be gone.
        argv.extend(["--work-tree", "/", "-c", "core.hooksPath=/dev/null"].map(Into::into));
        argv.extend(arguments.iter().map(Into::into));
        let variables = [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("LC_ALL", "C"),
        ];
        let output = Launcher.run_as(owner(&self.directory.join("HEAD")), &argv, &variables, input);
        let output = output.map_err(|error| error.to_string())?;
        if output.code == Some(0) {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().escape_debug().to_string())
    }

    /// One line of what it writes; `None` when it fails or writes none.
    pub(crate) fn line(self, arguments: &[&str]) -> Option<String> {
        let line = self.run(arguments, None).ok()?.trim().to_owned();
        (!line.is_empty()).then_some(line)
    }
}
