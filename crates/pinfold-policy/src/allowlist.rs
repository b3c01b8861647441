//! `mount-allowlist.toml`: what groups' sessions may be shown besides their own files (Pynchy's format).
//! It lies outside every project, so that no session writes it.

use crate::document::{Document, FileError, Item, SettingsFile};
use crate::path::HostPath;
use crate::settings::keys::{ALLOWED_ROOT, ALLOWLIST};
use crate::settings::path;

/// Texts that no path may contain, whatever the file says: names of what holds credentials.
const BLOCKED: [&str; 17] = [
    ".ssh",
    ".gnupg",
    ".gpg",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    "credentials",
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "private_key",
    ".secret",
];

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowlist {
    /// Directories that mounts may lie in, in the order of the file.
    pub roots: Vec<AllowedRoot>,
    /// Texts that no path may contain.
    blocked: Vec<String>,
    /// Whether only groups of admins may write.
    pub non_admin_read_only: bool,
}

/// A directory that mounts may lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedRoot {
    pub path: HostPath,
    /// Whether mounts in it may be written to.
    pub allow_read_write: bool,
}

impl Allowlist {
    /// Reads the file. Paths may begin with `~/`.
    ///
    /// # Errors
    /// Returns an error for a mistake in it. All three keys have to be there, as the format has it.
    pub fn read(file: SettingsFile<'_>, home: Option<&HostPath>) -> Result<Self, FileError> {
        let document = Document::parse(file)?;
        let section = Item::of_document(&document).table(ALLOWLIST)?;
        let root = |item: &Item<'_>| {
            let table = item.table(ALLOWED_ROOT)?;
            table.read("description", |item| item.text().map(drop))?;
            let allow = table.read("allow_read_write", Item::flag)?;
            let path = path(&table.require("path")?, home)?;
            Ok(AllowedRoot { path, allow_read_write: allow.unwrap_or(false) })
        };
        let roots = section.require("allowed_roots")?.list()?;
        let patterns = section.require("blocked_patterns")?;
        let mut blocked = patterns.texts()?;
        if blocked.iter().any(String::is_empty) {
            return Err(patterns.invalid("an empty text would block every path"));
        }
        blocked.extend(BLOCKED.map(str::to_owned));
        Ok(Self {
            roots: roots.iter().map(root).collect::<Result<_, _>>()?,
            blocked,
            non_admin_read_only: section.require("non_admin_read_only")?.flag()?,
        })
    }

    /// Returns the text that keeps a path out, if one does. The path is one without links.
    #[must_use]
    pub fn blocks(&self, path: &HostPath) -> Option<&str> {
        let holds = |pattern: &&String| {
            let (path, pattern) = (path.as_bytes(), pattern.as_bytes());
            path.windows(pattern.len()).any(|window| window == pattern)
        };
        self.blocked.iter().find(holds).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
