//! Small files of git that name another place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use pinfold_host::beneath::{open_directory, read_beneath};

/// Returns where a `.git` file says that the git directory is (gitrepository-layout(5)), if it can be
/// read as git reads it.
pub fn gitdir(file: &Path) -> Option<PathBuf> {
    let named = line(file, b"gitdir: ")?;
    Some(normal(&file.parent()?.join(named)))
}

/// Returns the one line of a pointer file, after a prefix.
pub fn line(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let directory = open_directory(file.parent()?).ok()?;
    let content = read_beneath(directory, Path::new(file.file_name()?)).ok()??;
    let line = content.bytes.strip_prefix(prefix)?;
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    Some(PathBuf::from(OsStr::from_bytes(&line[..end])))
}

/// Removes `.` and `..` from an absolute path by its spelling.
pub fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}
