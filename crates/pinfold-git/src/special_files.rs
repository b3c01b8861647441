//! What would keep git waiting: it opens whatever has one of its names, and a FIFO until somebody
//! writes to it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_policy::path::Escaped;

/// Levels and entries that are looked at; git's own are far fewer.
const DEEPEST: usize = 64;
const MOST: usize = 2_000_000;

/// Refuses a git directory with a FIFO, or a link to one, where git would open it. What cannot be read
/// is skipped.
///
/// # Errors
/// Returns which one it is, that there is too much to look at, or the file system's error.
pub fn refuse(git: &Path) -> io::Result<()> {
    let linked = LINKED.map(|name| git.join(name));
    let mut look = Look { git, objects: git.join("objects"), left: MOST };
    look.at(git, DEEPEST, false)?;
    // git goes through links there, as it looks for whatever is a reference.
    linked.iter().try_for_each(|directory| look.at(directory, DEEPEST, true))
}

/// Makes a git directory that nobody changes readable, and removes its FIFOs and links to such, without following any link:
/// what a sandbox left there would keep git from reading the rest. What cannot be changed is left for [`refuse`] and git to name.
pub fn remove(git: &Path) {
    let mut left = MOST;
    let mut directories = vec![git.to_owned()];
    while let Some(directory) = directories.pop() {
        let _ = fs::set_permissions(&directory, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let Some(fewer) = left.checked_sub(1) else { return };
            left = fewer;
            let path = entry.path();
            let leads_to_one = || fs::metadata(&path).is_ok_and(|it| it.file_type().is_fifo());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let _ = fs::set_permissions(&path, Permissions::from_mode(0o600));
            } else if kind.is_fifo() || kind.is_symlink() && leads_to_one() {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Directories of the git directory in which git follows links.
const LINKED: [&str; 2] = ["refs", "logs"];

struct Look<'a> {
    git: &'a Path,
    /// Where most lies that git opens by its hash, if somebody names that.
    objects: PathBuf,
    left: usize,
}

impl Look<'_> {
    fn at(&mut self, directory: &Path, deepest: usize, through_links: bool) -> io::Result<()> {
        let too_much = || {
            let what = format!("{} holds more than git has names for", Escaped(directory));
            io::Error::other(what)
        };
        let deepest = deepest.checked_sub(1).ok_or_else(too_much)?;
        let entries = match fs::read_dir(directory) {
            // Another git has removed it since, or git cannot read it either.
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            entries => entries?,
        };
        let (is_top, is_objects) = (directory == self.git, directory == self.objects);
        for entry in entries {
            let entry = entry?;
            self.left = self.left.checked_sub(1).ok_or_else(too_much)?;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_file() {
                continue;
            }
            let (path, name) = (entry.path(), entry.file_name());
            // Looked at by itself.
            let is_linked = is_top && LINKED.iter().any(|linked| name == *linked);
            let by_hash = is_objects && name.len() == 2;
            // Of a link what it leads to; of one that leads nowhere nothing.
            let led = if kind.is_symlink() { fs::metadata(&path).ok() } else { None };
            let led = led.map(|it| it.file_type());
            if kind.is_fifo() || led.is_some_and(|it| it.is_fifo()) {
                let what =
                    format!("{} is a FIFO, and git would wait for its writer", Escaped(&path));
                return Err(io::Error::other(what));
            }
            if kind.is_dir() && !by_hash && !is_linked
                || through_links && led.is_some_and(|it| it.is_dir())
            {
                self.at(&path, deepest, through_links)?;
            }
        }
        Ok(())
    }
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
    fn unreadable_directory_does_not_stop_a_walk() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        refuse(dir.path()).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        refuse(&dir.path().join("gone")).unwrap();
    }

    #[test]
    fn neither_a_name_nor_a_link_nor_depth_hides_one() {
        let dir = tempfile::tempdir().unwrap();
        let (git, elsewhere) = (dir.path().join("git"), dir.path().join("elsewhere"));
        fs::create_dir_all(git.join("refs/heads/objects/ab")).unwrap();
        fs::create_dir_all(elsewhere.join("deep")).unwrap();
        let fifo = |path: &Path| {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        };
        refuse(&git).unwrap();
        fifo(&git.join("refs/heads/objects/ab/pipe"));
        refuse(&git).unwrap_err();
        fs::remove_dir_all(git.join("refs/heads/objects")).unwrap();
        refuse(&git).unwrap();
        fifo(&elsewhere.join("deep/pipe"));
        std::os::unix::fs::symlink(&elsewhere, git.join("refs/heads/linked")).unwrap();
        refuse(&git).unwrap_err();
        fs::remove_file(git.join("refs/heads/linked")).unwrap();
        std::os::unix::fs::symlink("..", git.join("refs/heads/round")).unwrap();
        let said = refuse(&git).unwrap_err().to_string();
        assert!(said.contains("more than git has names for"), "{said}");
        fs::remove_file(git.join("refs/heads/round")).unwrap();
        fs::create_dir_all(git.join("refs").join("x/".repeat(80))).unwrap();
        refuse(&git).unwrap_err();
    }

    #[test]
    fn removing_fifos_opens_what_is_closed_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (git, elsewhere) = (dir.path().join("git"), dir.path().join("elsewhere"));
        fs::create_dir_all(git.join("refs/heads/deep")).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        for path in [git.join("pipe"), git.join("refs/heads/deep/pipe"), elsewhere.join("pipe")] {
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        std::os::unix::fs::symlink(elsewhere.join("pipe"), git.join("refs/heads/link")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, git.join("linked")).unwrap();
        fs::write(git.join("HEAD"), "").unwrap();
        for path in ["HEAD", "refs/heads/deep", "refs"] {
            fs::set_permissions(git.join(path), Permissions::from_mode(0o000)).unwrap();
        }
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o755)).unwrap();
        remove(&git);
        refuse(&git).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&git.join("HEAD")), mode(&git.join("refs/heads/deep"))), (0o600, 0o700));
        assert!(fs::symlink_metadata(git.join("refs/heads/link")).is_err());
        assert!(elsewhere.join("pipe").exists() && mode(&elsewhere) == 0o755);
    }

    #[test]
    fn fifo_is_reported_wherever_git_would_open_it() {
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
