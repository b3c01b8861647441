//! Which contents the user trusts, for each repository.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_host::digest::{ContentHash, name_of};
use pinfold_host::directories::Places;
use pinfold_host::owned;
use pinfold_worktree::workspace::Workspace;
use serde::{Deserialize, Serialize};

/// How many contents of one repository are trusted at most: its branches may differ.
const MOST: usize = 16;

/// What is trusted of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// What is shared by all worktrees of the repository: its git directory, or the directory
    /// itself without one.
    pub repository: PathBuf,
    /// The contents, the last one first.
    pub contents: Vec<TrustedContent>,
}

/// A content that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedContent {
    /// The content's hash.
    pub hash: String,
    /// The settings file that was looked at.
    pub file: PathBuf,
    /// When (RFC 3339, UTC).
    pub since: String,
    /// The same content with its limits apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
}

/// A content without its limits, and the limits: lower ones stay trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// The hash of everything but the limits.
    pub rest: String,
    /// The limits by their keys.
    pub limits: BTreeMap<String, u64>,
}

impl Limited {
    /// Returns whether this is another one, or that with lower limits. A limit that the other does not
    /// have may raise the user's.
    fn is_within(&self, other: &Self) -> bool {
        let is_lower = |(key, limit): (&String, &u64)| {
            other.limits.get(key).is_some_and(|trusted| limit <= trusted)
        };
        self.rest == other.rest && self.limits.iter().all(is_lower)
    }
}

/// The user's directory of trusted contents, one file for each repository.
#[derive(Debug)]
pub struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    /// Returns the user's.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self { directory: places.state.join("trust") }
    }

    /// Returns whether this very content is trusted in the repository of a workspace.
    ///
    /// # Errors
    /// Returns the error of reading; a record that cannot be read is not taken for none.
    pub fn is_trusted(&self, workspace: &Workspace, hash: ContentHash) -> io::Result<bool> {
        let hash = hash.to_string();
        let record = self.record(&repository(workspace))?;
        Ok(record.is_some_and(|record| record.contents.iter().any(|content| content.hash == hash)))
    }

    /// Returns whether a content is trusted that differs from this one by higher limits alone.
    ///
    /// # Errors
    /// Returns the error of reading; a record that cannot be read is not taken for none.
    pub fn is_trusted_with_higher_limits(
        &self,
        workspace: &Workspace,
        limited: &Limited,
    ) -> io::Result<bool> {
        let record = self.record(&repository(workspace))?;
        let trusted = record.iter().flat_map(|record| &record.contents);
        Ok(trusted.filter_map(|one| one.limited.as_ref()).any(|other| limited.is_within(other)))
    }

    /// Trusts a content from now on, and with lower limits if it is given with its limits apart.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn trust(
        &self,
        workspace: &Workspace,
        file: &Path,
        hash: ContentHash,
        limited: Option<Limited>,
    ) -> io::Result<()> {
        let _others = self.exclude_others()?;
        let repository = repository(workspace);
        let path = self.path(&repository);
        let hash = hash.to_string();
        let mut contents = self.record(&repository)?.map_or(Vec::new(), |record| record.contents);
        contents.retain(|content| content.hash != hash);
        contents.truncate(MOST - 1);
        let since = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let file = fs::canonicalize(file)?;
        contents.insert(0, TrustedContent { hash, file, since, limited });
        let record = Trusted { repository, contents };
        // What a kill leaves of it is written over.
        let new = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&record)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.directory)?.sync_all()
    }

    /// Trusts nothing of a workspace's repository any more; whether something was.
    ///
    /// # Errors
    /// Returns the error of `unlink(2)`, or of taking the lock.
    pub fn revoke(&self, workspace: &Workspace) -> io::Result<bool> {
        let _others = self.exclude_others()?;
        match fs::remove_file(self.path(&repository(workspace))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns everything that is trusted, by repository.
    ///
    /// # Errors
    /// Returns the error of reading.
    pub fn all(&self) -> io::Result<Vec<Trusted>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                all.extend(read(&path)?);
            }
        }
        all.sort_by(|one: &Trusted, other| one.repository.cmp(&other.repository));
        Ok(all)
    }

    /// Keeps other processes from changing what is trusted until the file is closed: of two changes at once none is lost, and
    /// what is revoked stays so.
    fn exclude_others(&self) -> io::Result<File> {
        Places::make_private(&self.directory)?;
        let mut options = OpenOptions::new();
        let path = self.directory.join("lock");
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        lock.lock()?;
        Ok(lock)
    }

    fn record(&self, repository: &Path) -> io::Result<Option<Trusted>> {
        Ok(read(&self.path(repository))?.filter(|record| record.repository == repository))
    }

    fn path(&self, repository: &Path) -> PathBuf {
        self.directory.join(name_of(repository.as_os_str().as_bytes())).with_extension("json")
    }
}

fn read(path: &Path) -> io::Result<Option<Trusted>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let read = owned::read(path)?;
    let parsed = read.map(|bytes| serde_json::from_slice(&bytes));
    parsed.transpose().map_err(|error| named(error.into()))
}

/// Returns what all worktrees of a repository share.
fn repository(workspace: &Workspace) -> PathBuf {
    let own = workspace.root.as_path().join(".git");
    match &workspace.git_outside {
        Some(outside) => outside.as_path().to_owned(),
        None if own.is_dir() => own,
        None => workspace.root.as_path().to_owned(),
    }
}
