//! What would keep git waiting: it opens whatever has one of its names, and a FIFO until somebody
//! writes to it.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use pinfold_policy::path::Escaped;

/// More levels have no names of git's.
const DEEPEST: usize = 64;

/// Refuses a git directory with a FIFO, or a link to one, where git would open it. What cannot be read
/// is passed over.
///
/// # Errors
/// Which one it is, or what the file system says.
pub(crate) fn refuse(git: &Path) -> io::Result<()> {
    look(git, DEEPEST)
}

fn look(directory: &Path, deepest: usize) -> io::Result<()> {
    let is_objects = directory.file_name().is_some_and(|name| name == "objects");
    let entries = match fs::read_dir(directory) {
        // Another git has removed it meanwhile, or git cannot read it either.
        Err(error) if is_out_of_reach(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (Ok(kind), name) = (entry.file_type(), entry.file_name()) else { continue };
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

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_cannot_be_read_keeps_nobody_from_looking_at_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        refuse(dir.path()).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        refuse(&dir.path().join("gone")).unwrap();
    }

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
