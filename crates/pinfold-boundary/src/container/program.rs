//! Where an engine's program is.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Administrators' directories, which the PATH of an ordinary user often lacks.
const MORE: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// An engine's program, opened: what is executed is what was found.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) file: OwnedFd,
    path: PathBuf,
}

impl Program {
    /// Opens the same file by its path in the current root, if it is there. runc and crun bind /proc/self/exe, which
    /// only works on a mount of their own mount namespace (mount(2), `EINVAL`). Otherwise they copy themselves into
    /// memory, and sealing that copy fails on a busy machine (memfd_wait_for_pins() in mm/memfd.c, `EBUSY`).
    ///
    /// # Errors
    /// Returns the error of `fstat(2)`.
    pub(super) fn in_current_root(&self) -> Result<Option<OwnedFd>, Errno> {
        let Ok(here) = open_path(&self.path) else { return Ok(None) };
        let (here_stat, stat) = (rustix::fs::fstat(&here)?, rustix::fs::fstat(&self.file)?);
        let is_same = (here_stat.st_dev, here_stat.st_ino) == (stat.st_dev, stat.st_ino);
        Ok(is_same.then_some(here))
    }
}

/// Directories in which a sandbox may have written, and what says whether a path leads there.
#[derive(Debug, Clone)]
pub(super) struct LeftOut {
    directories: Vec<PathBuf>,
    leads_within: fn(&Path, &[PathBuf]) -> bool,
}

impl LeftOut {
    /// Leaves nothing out.
    pub(super) const NOTHING: Self = Self { directories: Vec::new(), leads_within: |_, _| false };

    /// Leaves these directories out, of which `leads_within` says what leads there.
    pub(super) fn new(
        directories: Vec<PathBuf>,
        leads_within: fn(&Path, &[PathBuf]) -> bool,
    ) -> Self {
        Self { directories, leads_within }
    }

    fn is_safe(&self, path: &Path) -> bool {
        !(self.leads_within)(path, &self.directories)
    }
}

/// Why there is no program.
#[derive(Debug)]
pub(super) enum Missing {
    /// It is nowhere.
    NotInstalled,
    /// It is only here, where a sandbox may have written.
    LeftOut(PathBuf),
}

/// Looks a name up along the caller's PATH, and where administrators' programs are.
///
/// # Errors
/// Returns why it is not found.
pub(super) fn find(name: &str, not_in: &LeftOut) -> Result<Program, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let all = own.chain(MORE.iter().map(PathBuf::from)).map(|directory| directory.join(name));
    // A link of a session's chooses the program as well as a file of its own does.
    let (safe, left_out): (Vec<PathBuf>, Vec<PathBuf>) = all.partition(|path| not_in.is_safe(path));
    let mut safe = safe.iter().filter_map(|path| std::fs::canonicalize(path).ok());
    let found = safe.find_map(|file| open(&file));
    let is_program = |path: &PathBuf| open(path).is_some();
    found.ok_or_else(|| {
        left_out.into_iter().find(is_program).map_or(Missing::NotInstalled, Missing::LeftOut)
    })
}

fn open(path: &Path) -> Option<Program> {
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).ok()?;
    let file = open_path(path).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode);
    kind.is_file().then(|| Program { file, path: path.to_owned() })
}

fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_is_left_out_is_not_said_to_be_missing() {
        assert!(find("sh", &LeftOut::NOTHING).is_ok());
        let missing = find("sh", &LeftOut::new(Vec::new(), |_, _| true)).unwrap_err();
        assert!(matches!(missing, Missing::LeftOut(path) if path.ends_with("sh")));
        let missing = find("pinfold-no-such-engine", &LeftOut::NOTHING).unwrap_err();
        assert!(matches!(missing, Missing::NotInstalled));
    }
}
