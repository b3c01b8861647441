//! What a session changed.

use std::path::{Path, PathBuf};

use pinfold_trees::tree::Node;
use rustix::fs::FileType;

use super::record::Protected;

/// What happened to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is new.
    Added,
    /// It holds something else.
    Modified,
    /// Only its mode or its extended attributes are others.
    Mode,
    /// It is gone.
    Deleted,
    /// It is something of another kind, such as a link where a file was.
    Replaced,
}

impl What {
    /// Returns a word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Mode => "mode",
            Self::Deleted => "deleted",
            Self::Replaced => "replaced",
        }
    }
}

/// Why a change is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// The host would execute it; taken only when asked for.
    Protected(Protected),
    /// It is of a kind that is never taken, or cannot be read.
    Never(&'static str),
}

/// How the host changed what the session changed as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// It was changed or replaced.
    Changed,
    /// It was removed.
    Removed,
    /// It was made.
    Made,
}

impl Conflict {
    /// Words that read well after "was".
    pub fn words(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Made => "made",
        }
    }
}

/// One path that the session changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What happened.
    pub what: What,
    /// Why it is not taken over, if it is not.
    pub left: Option<Left>,
    /// What somebody else did with it.
    pub conflict: Option<Conflict>,
    /// The deleted file of the same content, if it was renamed.
    pub renamed_from: Option<PathBuf>,
    pub(crate) before: Option<Node>,
    pub(crate) after: Option<Node>,
}

impl Change {
    pub(crate) fn new(
        path: PathBuf,
        what: What,
        before: Option<Node>,
        after: Option<Node>,
        left: Option<Left>,
    ) -> Self {
        Self { path, what, left, conflict: None, renamed_from: None, before, after }
    }

    /// Returns whether it is about a directory alone.
    pub fn is_directory(&self) -> bool {
        let is = |node: &Option<Node>| node.as_ref().is_none_or(Node::is_directory);
        is(&self.before) && is(&self.after)
    }

    /// Returns whether it stands for a directory that only somebody else has changed.
    pub(crate) fn is_gone_directory(&self) -> bool {
        self.conflict.is_some() && self.becomes_directory() && !self.was_directory()
    }

    /// Returns whether this path is a directory in the workspace.
    pub(crate) fn was_directory(&self) -> bool {
        self.before.as_ref().is_some_and(Node::is_directory)
    }

    /// Returns whether this path is a directory when it is taken over.
    pub(crate) fn becomes_directory(&self) -> bool {
        self.after.as_ref().is_some_and(Node::is_directory)
    }

    /// Returns whether only extended attributes are others.
    pub fn is_of_attributes(&self) -> bool {
        let (before, after) = self.modes();
        self.what == What::Mode && before == after
    }

    /// Returns whether it is of a kind that no patch can hold, or cannot be read.
    pub fn is_never_taken(&self) -> bool {
        matches!(self.left, Some(Left::Never(_)))
    }

    /// Returns whether set-user-id or set-group-id bits of the session's are not taken over.
    pub fn loses_bits(&self) -> bool {
        /// Set-user-id and set-group-id.
        const BITS: u32 = 0o6000;
        let bits = |node: &Option<Node>| node.as_ref().map_or(0, |node| node.mode & BITS);
        let is_file = self.after.is_some_and(|after| after.kind == FileType::RegularFile);
        is_file && bits(&self.after) & !bits(&self.before) != 0
    }

    /// Returns the mode as git writes it, before and after.
    pub fn modes(&self) -> (Option<u32>, Option<u32>) {
        let of = |node: &Node| match node.kind {
            FileType::Symlink => 0o120_000,
            FileType::Directory => 0o40_000,
            _ => 0o100_000 | (node.mode & 0o777),
        };
        (self.before.as_ref().map(of), self.after.as_ref().map(of))
    }
}

/// Everything that a session changed, parents first.
#[derive(Debug, Default)]
pub struct Changes {
    /// Sorted by path.
    pub list: Vec<Change>,
}

impl Changes {
    /// Returns the changes of these paths and below them; of everything when there are none.
    pub fn of<'c>(&'c self, paths: &'c [PathBuf]) -> impl Iterator<Item = &'c Change> {
        self.list.iter().filter(move |change| is_within(&change.path, paths))
    }

    /// Returns those that `apply` leaves, each with what lies in it only once.
    pub fn left<'c>(&'c self, paths: &'c [PathBuf]) -> Vec<&'c Change> {
        let mut left: Vec<&Change> = Vec::new();
        for change in self.of(paths).filter(|change| change.left.is_some()) {
            if left.last().is_none_or(|last| !change.path.starts_with(&last.path)) {
                left.push(change);
            }
        }
        left
    }

    /// Returns how many files were added, changed and deleted.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |is: &dyn Fn(What) -> bool| {
            let files = self.list.iter().filter(|change| !change.is_directory());
            files.filter(|change| is(change.what)).count()
        };
        (
            count(&|what| what == What::Added),
            count(&|what| matches!(what, What::Modified | What::Mode | What::Replaced)),
            count(&|what| what == What::Deleted),
        )
    }
}

/// Returns whether a path is one of these or lies below one; without any, everything is.
pub(crate) fn is_within(path: &Path, paths: &[PathBuf]) -> bool {
    paths.is_empty() || paths.iter().any(|above| path.starts_with(above))
}
