//! Submodules that were checked out in a linked worktree. git keeps them in the git directory of the worktree, and removes them with it.

use std::path::{Path, PathBuf};

use pinfold_git::host_git::HostGit;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{kind_at, list_beneath, open_directory};
use pinfold_host::launcher::HostProgram;

/// Levels of the names of submodules, and of submodules in submodules.
const DEEPEST: usize = 24;

/// Returns whether a submodule in the worktree with this git directory has commits that no remote-tracking branch has. One
/// that cannot be looked at counts as such.
pub(super) fn have_commits(own: &Anchor, program: &HostProgram) -> bool {
    let mut modules = Vec::new();
    find(&own.path().join("modules"), DEEPEST, &mut modules);
    modules.into_iter().any(|module| {
        // git stands in the git directory, where HEAD is also a file.
        let words = ["rev-list", "--max-count=1", "HEAD", "--branches", "--not", "--remotes", "--"];
        let listed = Anchor::of(&module).ok().and_then(|directory| {
            HostGit { program, directory: &directory }.run(&words, None).ok()
        });
        listed.is_none_or(|listed| !listed.trim().is_empty())
    })
}

/// Finds the git directories below a directory of submodules.
fn find(directory: &Path, deepest: usize, found: &mut Vec<PathBuf>) {
    let Some(deepest) = deepest.checked_sub(1) else { return };
    let Ok(opened) = open_directory(directory) else { return };
    let directories = list_beneath(&opened, Path::new(".")).into_iter().flatten().flatten();
    for entry in directories.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = directory.join(entry.file_name());
        let is_git = open_directory(&path).is_ok_and(|git| kind_at(&git, "HEAD").is_some());
        if is_git {
            find(&path.join("modules"), deepest, found);
            found.push(path);
        } else {
            find(&path, deepest, found);
        }
    }
}
