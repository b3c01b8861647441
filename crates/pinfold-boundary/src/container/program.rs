//! Where an engine's program is.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};

/// Administrators' directories, which the PATH of an ordinary user often lacks.
const MORE: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// An engine's program, opened: what is executed is what was found.
#[derive(Debug)]
pub(super) struct Program(pub(super) OwnedFd);

/// Looks a name up along the caller's PATH, and where administrators' programs are; none is taken from these
/// directories, in which an inside may have written.
pub(super) fn find(name: &str, not_in: &[PathBuf]) -> Option<Program> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let all = own.chain(MORE.iter().map(PathBuf::from));
    let real = all.filter_map(|directory| std::fs::canonicalize(directory.join(name)).ok());
    let mut safe = real.filter(|file| !not_in.iter().any(|root| file.starts_with(root)));
    safe.find_map(|file| open(&file))
}

fn open(path: &Path) -> Option<Program> {
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).ok()?;
    let program = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&program).ok()?.st_mode);
    kind.is_file().then_some(Program(program))
}
