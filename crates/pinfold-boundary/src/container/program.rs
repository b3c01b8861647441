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

/// Looks a name up along the caller's PATH, and where administrators' programs are.
pub(super) fn find(name: &str, not_in: &LeftOut) -> Option<Program> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let all = own.chain(MORE.iter().map(PathBuf::from));
    // A link of a session's chooses the program as well as a file of its own does.
    let safe = all.map(|directory| directory.join(name)).filter(|path| not_in.is_safe(path));
    safe.filter_map(|path| std::fs::canonicalize(path).ok()).find_map(|file| open(&file))
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
