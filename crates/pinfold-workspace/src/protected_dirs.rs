//! Protected directories of which a session has a private copy.
//!
//! git has to be able to change `.vscode`, `.claude` or `.husky` when it checks out another branch,
//! but tools on the host run what is in them. So the sandbox sees a copy that it can write. At the end
//! each path of the copy is compared with the start. What a branch or HEAD had there at the start, with
//! this very content, is written to the host. Everything else is set aside (ADR 8).

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_git::layout::PROTECTED;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::file_id::Moment;
use pinfold_policy::authority::Reason;
use serde::{Deserialize, Serialize};

mod apply;
mod changes;
mod copy;
mod kept;
mod settle;
mod switched;

#[cfg(test)]
mod tests;

pub(crate) use copy::Budget;
pub(crate) use kept::{keep_committed, uncommitted};
pub(crate) use settle::Settling;
pub use settle::settle;
pub(crate) use switched::settle_files;

/// Where the copies lie in the directory of a session's private copies.
pub(crate) const DIRECTORY: &str = "protected";

/// One protected directory with a private copy.
#[derive(Debug, Clone)]
pub struct ProtectedDir {
    /// The directory on the host; none until it was made for the session.
    pub(crate) host: Option<Anchor>,
    pub(crate) path: PathBuf,
    /// The copy, on the host.
    pub(crate) copy: PathBuf,
    /// What the copy held at the start, by relative path.
    pub(crate) entries: BTreeMap<PathBuf, Entry>,
    /// Relative paths that were not copied.
    pub(crate) hidden: Vec<PathBuf>,
    /// Whether the session made it, as a placeholder.
    pub(crate) is_placeholder: bool,
    /// Why it is protected, and what lifts that.
    pub(crate) why: String,
    pub(crate) opt_in: Option<String>,
}

/// What was copied.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The host's file when it was read.
    pub(crate) host: Moment,
    /// The copy before the session started.
    pub(crate) own: Moment,
    pub(crate) content: Content,
}

/// What a file, link or directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    /// A regular file: its size in bytes, the SHA-256 of its content, and whether its owner may execute it.
    File {
        size: u64,
        digest: Vec<u8>,
        is_executable: bool,
    },
    /// A symbolic link: the SHA-256 of its target.
    Link {
        digest: Vec<u8>,
    },
    Directory,
}

impl ProtectedDir {
    /// Copies what lies at `path` to the directory of copies; a placeholder that is still to be made
    /// gets an empty copy. Nothing in `hidden` is copied.
    ///
    /// # Errors
    /// Returns why there is no copy. The directory has to stay read-only then.
    pub(crate) fn copy(
        path: &Path,
        directory: &Path,
        number: usize,
        reason: &Reason,
        hidden: &HashSet<PathBuf>,
        budget: &mut Budget,
    ) -> Result<Self, Refusal> {
        let copy = directory.join(number.to_string());
        let is_placeholder = fs::symlink_metadata(path).is_err();
        let within = hidden.iter().filter_map(|it| it.strip_prefix(path).ok().map(Path::to_owned));
        let hidden: Vec<PathBuf> = within.collect();
        let (entries, host) = if is_placeholder {
            fs::create_dir(&copy)?;
            (BTreeMap::new(), None)
        } else {
            let host = Anchor::of(path)?;
            (copy::copy(&host, &copy, &hidden, budget)?, Some(host))
        };
        let (why, opt_in) = (reason.text.clone().into_owned(), reason.opt_in.clone());
        let opt_in = opt_in.map(String::from);
        let path = path.to_owned();
        Ok(Self { host, path, copy, entries, hidden, is_placeholder, why, opt_in })
    }

    /// Returns where the copy of this number lies in the sandbox.
    pub(crate) fn inside(number: usize) -> PathBuf {
        Path::new(PROTECTED).join(number.to_string())
    }

    /// Notes which directory was made for it, and how the copy looks once it belongs to the sandbox.
    pub(crate) fn note_start(&mut self) {
        if self.is_placeholder {
            self.host = Anchor::of(&self.path).ok();
        }
        for (path, entry) in &mut self.entries {
            if let Ok(own) = Moment::of(&self.copy.join(path)) {
                entry.own = own;
            }
        }
    }
}
