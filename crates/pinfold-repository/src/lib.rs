//! A repository's settings file, and whether its user trusts it as it is.
//!
//! What is trusted is a content: the file's own bytes, those of every file of the repository that its
//! commands name, and a tarball or directory of the repository that sessions run on. Its hash is kept
//! for each repository in the user's state directory, which no session sees.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod base;
mod commands;
mod content;
mod error;
mod trust_store;
mod words;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{AgentLoop, Project};
use pinfold_worktree::workspace::Workspace;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub use base::{BaseContent, digest_of_directory};
pub use error::RepositoryError;
pub use trust_store::{Limited, TrustStore, Trusted, TrustedContent};

/// A larger settings file is a mistake or an attack: MoltNet's has some hundred bytes.
const LARGEST: u64 = 1 << 20;

/// Where a repository says what it needs.
const SETTINGS: [&str; 2] = ["sandbox.json", "sandbox.toml"];
/// Ralph's file.
const AGENT_LOOP: &str = ".agent-loop/config.json";

/// What a repository's files say, as they were read once.
#[derive(Debug, Default)]
pub struct Repository {
    /// The settings file, if there is one.
    pub file: Option<RepositoryFile>,
    /// Ralph's file, if there is one.
    pub agent_loop: Option<AgentLoop>,
}

/// A repository's settings file, or Ralph's where that alone asks for something.
#[derive(Debug)]
pub struct RepositoryFile {
    /// Where it was found.
    pub path: PathBuf,
    /// What it says.
    pub project: Project,
    bytes: Vec<u8>,
    /// Ralph's file, if there is one that waits for trust, too.
    ralph: Option<Vec<u8>>,
}

impl Repository {
    /// Reads the files of a workspace, or the settings file that somebody names instead.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be read, two where one is meant, or a mistake in one.
    pub fn read(workspace: &Workspace, instead: Option<&Path>) -> Result<Self, RepositoryError> {
        let root = workspace.root.as_path();
        let mut files = Vec::new();
        match instead {
            Some(path) => files.push((path.to_owned(), read(path)?)),
            None => {
                for name in SETTINGS {
                    files.extend(read_beneath(root, name)?.map(|bytes| (root.join(name), bytes)));
                }
            }
        }
        let borrowed: Vec<SettingsFile<'_>> =
            files.iter().map(|(path, bytes)| SettingsFile { path, bytes }).collect();
        let project = Project::read(&borrowed)?;
        let file = project.zip(files.into_iter().next());
        let path = root.join(AGENT_LOOP);
        let bytes = read_beneath(root, AGENT_LOOP)?;
        let read = |bytes: &Vec<u8>| AgentLoop::read(SettingsFile { path: &path, bytes });
        let agent_loop = bytes.as_ref().map(read).transpose()?;
        // What of it waits for trust is trusted with the settings file, or alone.
        let chooses = agent_loop.as_ref().is_some_and(AgentLoop::chooses_provider);
        let ralph = bytes.filter(|_| chooses);
        let file = match (file, ralph) {
            (Some((project, (path, bytes))), ralph) => {
                Some(RepositoryFile { path, project, bytes, ralph })
            }
            (None, Some(bytes)) => {
                let project = Project::default();
                Some(RepositoryFile { path, project, bytes, ralph: None })
            }
            (None, None) => None,
        };
        Ok(Self { file, agent_loop })
    }
}

impl RepositoryFile {
    /// Returns the hash of what is trusted with it. Its base is the one of where the caller stands.
    ///
    /// # Errors
    /// Returns an error for a file that its commands name and that cannot be read.
    pub fn hash(
        &self,
        workspace: &Workspace,
        base: Option<&BaseContent>,
    ) -> Result<ContentHash, RepositoryError> {
        let named = self.runs(workspace)?;
        let format = content::format(&self.path);
        let (ralph, root) = (self.ralph.as_deref(), workspace.root.as_path());
        content::hash(format, &self.bytes, ralph, &named, base, root)
    }

    /// Returns the hash of what is trusted without the file's limits, and these.
    ///
    /// # Errors
    /// Returns an error for a file that its commands name and that cannot be read.
    pub fn limited(
        &self,
        workspace: &Workspace,
        base: Option<&BaseContent>,
    ) -> Result<Limited, RepositoryError> {
        let named = self.runs(workspace)?;
        let (ralph, root) = (self.ralph.as_deref(), workspace.root.as_path());
        let values = self.project.without_limits();
        let rest = content::hash(b"values", values, ralph, &named, base, root)?;
        Ok(Limited { rest: rest.to_string(), limits: self.project.limits() })
    }

    /// Returns what the base holds that sessions run on, if it lies in the repository.
    ///
    /// # Errors
    /// Returns an error for a base that cannot be read.
    pub fn base(
        &self,
        workspace: &Workspace,
        places: &Places,
    ) -> Result<Option<BaseContent>, RepositoryError> {
        let root = workspace.root.as_path();
        let base = self.project.base().map(|base| base::content(base, root, places));
        Ok(base.transpose()?.flatten())
    }

    /// Holds the content against a hash that somebody gave.
    ///
    /// # Errors
    /// Returns an error for another content, or a file that cannot be read.
    pub fn check(
        &self,
        workspace: &Workspace,
        places: &Places,
        given: ContentHash,
    ) -> Result<(), RepositoryError> {
        let found = self.hash(workspace, self.base(workspace, places)?.as_ref())?;
        if found == given {
            return Ok(());
        }
        Err(RepositoryError::Changed { file: Escaped(&self.path).to_string(), given, found })
    }

    /// Returns the files of the repository that its commands name.
    ///
    /// # Errors
    /// Returns an error for a workspace that cannot be opened, or commands that name too much.
    pub fn runs(&self, workspace: &Workspace) -> Result<Vec<PathBuf>, RepositoryError> {
        let variables: Vec<&str> = self.project.variables().collect();
        commands::named_files(self.project.commands(), &variables, workspace.root.as_path())
    }
}

/// Returns a file of the repository's that need not be there. A link may lead elsewhere in the
/// repository, and not out of it.
fn read_beneath(root: &Path, name: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
    let path = root.join(name);
    let failed = |cause| RepositoryError::Read { path: path.clone(), cause };
    let top = content::directory(root).map_err(|errno| failed(errno.into()))?;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(top, name, FLAGS, Mode::empty(), how) {
        Ok(file) => whole(file.into()).map(Some).map_err(failed),
        Err(Errno::NOENT) if fs::symlink_metadata(&path).is_err() => Ok(None),
        Err(Errno::XDEV) => Err(failed(io::Error::other(
            "it is a link that is absolute or leads out of the repository",
        ))),
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Returns a file that somebody names.
fn read(path: &Path) -> Result<Vec<u8>, RepositoryError> {
    let opened = rustix::fs::open(path, FLAGS, Mode::empty()).map_err(io::Error::from);
    let read = opened.and_then(|file| whole(file.into()));
    read.map_err(|cause| RepositoryError::Read { path: path.to_owned(), cause })
}

/// A FIFO that lies there, or is put there since, is not waited for.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Returns what a settings file holds.
fn whole(file: File) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        Err(io::Error::other(format!("it is larger than {LARGEST} bytes")))
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
