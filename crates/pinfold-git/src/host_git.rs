//! The host's own git on the host's own repository.

use std::error::Error;
use std::ffi::OsString;
use std::time::Duration;
use std::{fmt, io};

use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::owner_at;
use pinfold_host::launcher::{HostProgram, MOST_MEMORY, Spot};

use crate::layout::REBUILT;

const NO_HOOKS: &str = "core.hooksPath=/dev/null";
const NO_MONITOR: &str = "core.fsmonitor=false";

/// How often a command is repeated while another git makes a worktree, and after which pause.
const RETRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

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
    /// Returns why it did not run, or what it said when it failed.
    pub fn run(self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, GitError> {
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
    ) -> Result<Vec<u8>, GitError> {
        let directory = self.directory.open().map_err(GitError::Directory)?;
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
        let owner = owner_at(&directory, "HEAD");
        let mut retries = RETRIES;
        loop {
            let spot = Spot { path: self.directory.path(), opened: &directory };
            let launcher = self.program.launcher();
            let ran = launcher.run_in(spot, owner, &argv, &variables, input);
            let output = ran.map_err(GitError::Start)?;
            if output.code == Some(0) {
                return Ok(output.stdout.to_vec());
            }
            let said = String::from_utf8_lossy(&output.stderr);
            if retries == 0 || !is_half_made_worktree(&said) {
                return Err(GitError::Failed(reason(&said)));
            }
            retries -= 1;
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns whether a session made the repository. Nobody can tell which of its commits the user added since.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn is_of_session(self) -> Result<bool, GitError> {
        let asked = ["config", "--bool", "--default", "false", "--get", REBUILT];
        Ok(self.run(&asked, None)?.trim() != "false")
    }

    /// Returns the object that a name stands for, or `None` if there is no such object. A session can keep git from looking, by
    /// using up its time, so that is an error.
    ///
    /// # Errors
    /// Returns the errors of [`Self::run`].
    pub fn object(self, name: &str) -> Result<Option<String>, GitError> {
        let asked = format!("{name}\n");
        let said =
            self.run(&["cat-file", "--batch-check=%(objectname)"], Some(asked.as_bytes()))?;
        // It repeats a name that it does not find, with ` missing`.
        let object = said.trim();
        let is_name = !object.is_empty() && object.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(is_name.then(|| object.to_owned()))
    }

    /// Returns one line of what it writes; `None` when it fails or writes none.
    pub fn line(self, arguments: &[&str]) -> Option<String> {
        let line = self.run(arguments, None).ok()?.trim().to_owned();
        (!line.is_empty()).then_some(line)
    }
}

/// Returns what git said, with the bound where it had too little memory (`die` in its wrapper.c).
fn reason(said: &str) -> String {
    let shown = said.trim().escape_debug();
    let lower = said.to_ascii_lowercase();
    if ["out of memory", "cannot allocate memory"].iter().any(|words| lower.contains(words)) {
        return format!(
            "git may have {} MiB of memory, and needs more ({shown})",
            MOST_MEMORY >> 20
        );
    }
    shown.to_string()
}

/// Returns whether a command ended at a worktree that another git was about to make: git writes its `commondir` in two steps, and
/// lists no worktree in between (`add_worktree` in its builtin/worktree.c, `get_common_dir_noenv` in setup.c). A command lists them
/// before it changes anything.
fn is_half_made_worktree(said: &str) -> bool {
    said.lines().any(|line| {
        let path = line.strip_prefix("fatal: failed to read ");
        path.is_some_and(|path| path.contains("worktrees/") && path.contains("/commondir: "))
    })
}

/// Why the host's git did not do what it was asked for.
#[derive(Debug)]
pub enum GitError {
    /// The git directory cannot be opened.
    Directory(io::Error),
    /// git cannot be started, or what it wrote not be read.
    Start(io::Error),
    /// It failed, and wrote this to its standard error.
    Failed(String),
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Start(error) if is_bound(error) => write!(f, "git was ended: {error}"),
            Self::Start(error) => error.fmt(f),
            Self::Failed(said) => f.write_str(said),
        }
    }
}

/// Returns whether a program was ended because it took too long or wrote too much.
fn is_bound(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::FileTooLarge)
}

impl Error for GitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Directory(error) | Self::Start(error) => Some(error),
            Self::Failed(_) => None,
        }
    }
}

impl From<GitError> for Refusal {
    fn from(error: GitError) -> Self {
        Self::of(error)
    }
}

#[cfg(test)]
mod tests;
