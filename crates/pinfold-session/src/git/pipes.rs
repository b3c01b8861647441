//! What would keep git waiting: it opens whatever has one of its names, and a FIFO until somebody
//! writes to it.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use pinfold_policy::path::Escaped;

/// More levels have no names of git's.
const DEEPEST: usize = 64;

/// Refuses a git directory with a FIFO, or a link to one, where git would open it.
///
/// # Errors
/// Which one it is, or what the file system says.
pub(crate) fn refuse(git: &Path) -> io::Result<()> {
    look(git, DEEPEST)
}

fn look(directory: &Path, deepest: usize) -> io::Result<()> {
    let is_objects = directory.file_name().is_some_and(|name| name == "objects");
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        // What is called by its hash is opened by nobody who does not name it.
        if kind.is_dir() && deepest > 0 && !(is_objects && name.len() == 2) {
            look(&entry.path(), deepest - 1)?;
        }
        let leads_to_one = || {
            kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|it| it.file_type().is_fifo())
        };
        if kind.is_fifo() || leads_to_one() {
            let path = entry.path();
            let what = format!("{} is a FIFO, and git would wait for its writer", Escaped(&path));
            return Err(io::Error::other(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_fifo_is_told_wherever_git_would_open_it() {
        let fifo = |path: &Path| {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        };
        for name in ["HEAD", "refs/heads/a/b", "objects/info/alternates", "worktrees/w/gitdir"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir_all(dir.path().join("objects/ab")).unwrap();
            refuse(dir.path()).unwrap();
            fifo(&path);
            let said = refuse(dir.path()).unwrap_err().to_string();
            assert!(said.contains(name), "{said}");
            fs::rename(&path, dir.path().join("objects/ab/pipe")).unwrap();
            refuse(dir.path()).unwrap();
            std::os::unix::fs::symlink(dir.path().join("objects/ab/pipe"), &path).unwrap();
            refuse(dir.path()).unwrap_err();
        }
    }
}
