//! Files that are hidden for their names, in the light of git.
//!
//! A file whose very content git has is in the objects that the inside reads, so hiding it would
//! protect nothing and only make `git status` show it as changed. It is judged once, at the start,
//! byte for byte: what a filter decrypts (git-crypt) or fetches (git-lfs) is not what git has.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::git::index::Index;
use crate::git::pointer;
use crate::git::read::{open_directory, read_beneath};
use crate::restrict::follow;

/// What git knows of some files.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// Those of which git has this very content.
    pub(crate) same: BTreeSet<PathBuf>,
    /// Those that git tracks with another content.
    pub(crate) other: BTreeSet<PathBuf>,
}

impl Tracked {
    /// Looks files up in the indexes of the repositories that they lie in. `is_seen` says whether
    /// the inside sees a git directory.
    pub(crate) fn look_up<'p>(
        files: impl Iterator<Item = &'p PathBuf>,
        roots: &[PathBuf],
        is_seen: impl Fn(&Path) -> bool,
    ) -> Self {
        let mut repositories: HashMap<(PathBuf, PathBuf), Vec<&Path>> = HashMap::new();
        for file in files {
            let found = repository_of(file, roots).filter(|(_, git)| is_seen(git));
            let relative = found.as_ref().and_then(|(top, _)| file.strip_prefix(top).ok());
            if let (Some(relative), Some(found)) = (relative, found) {
                repositories.entry(found).or_default().push(relative);
            }
        }
        let mut tracked = Self::default();
        for ((top, git), files) in repositories {
            let (Some(index), Ok(opened)) = (Index::open(&git), open_directory(&top)) else {
                continue;
            };
            let read = |path: &Path| Some(read_beneath(&opened, path).ok()??.bytes);
            for (path, is_same) in index.compare(files.into_iter(), read) {
                let set = if is_same { &mut tracked.same } else { &mut tracked.other };
                set.insert(top.join(path));
            }
        }
        tracked
    }
}

/// The top and the git directory of the innermost repository that a file in a granted root lies
/// in.
fn repository_of(file: &Path, roots: &[PathBuf]) -> Option<(PathBuf, PathBuf)> {
    let is_granted = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let mut above = file.ancestors().skip(1).take_while(|above| is_granted(above));
    let (top, kind) = above.find_map(|top| {
        let found = fs::symlink_metadata(top.join(".git")).ok()?;
        Some((top, FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&found))))
    })?;
    let git = top.join(".git");
    let git = match kind {
        FileType::Directory => git,
        FileType::Symlink => follow(&git)?.end,
        _ => pointer::gitdir(&git)?,
    };
    is_granted(&git).then(|| (top.to_owned(), git))
}

/// Makes git inside pass over what is hidden from it: marks these paths in the indexes of private
/// copies. `tops` are the working trees, each with the copy of its git directory.
///
/// # Errors
/// What writing an index says.
pub(crate) fn pass_over(
    hidden: &[PathBuf],
    tops: impl Iterator<Item = (PathBuf, PathBuf)>,
) -> std::io::Result<()> {
    for (top, copy) in tops {
        let mut within = hidden.iter().filter_map(|path| path.strip_prefix(&top).ok()).peekable();
        if within.peek().is_none() {
            continue;
        }
        if let Some(new) = Index::open(&copy).and_then(|index| index.without(within)) {
            fs::write(copy.join("index"), new)?;
        }
    }
    Ok(())
}
