//! What agents keep for single workspaces, and which of these are gone.
//!
//! The path of the workspace is written next to the agents' directories, where no sandbox can write.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::digest::name_of;
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use rustix::fs::{AtFlags, StatxFlags};

/// Where agents' states for single workspaces lie, next to those for all. No agent has this name.
const WORKSPACES: &str = ".workspaces";

/// The file with the path of the workspace.
const RECORD: &str = ".workspace";

/// Bytes of a path at most (PATH_MAX, limits.h).
const LONGEST: u64 = 4096;

/// What agents kept for a workspace that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneWorkspace {
    /// Where it is kept.
    pub state: PathBuf,
    /// The workspace that it was kept for.
    pub workspace: PathBuf,
    /// Whether another directory is there now.
    pub is_replaced: bool,
}

/// Returns the directory for what agents keep for a workspace.
///
/// # Errors
/// Returns an error if the workspace cannot be looked at, or the directory not be made.
pub(crate) fn directory(places: &Places, workspace: &Path) -> io::Result<PathBuf> {
    let directory = all(places).join(name_of_workspace(workspace)?);
    Places::make_private(&directory)?;
    let record = directory.join(RECORD);
    if !record.exists() {
        // Under another name first: another start may read it.
        let new = directory.join(format!("{RECORD}.{}", std::process::id()));
        Places::write_private(&new, workspace.as_os_str().as_bytes())?;
        fs::rename(&new, &record).at("name", &record)?;
    }
    Ok(directory)
}

/// Returns the workspaces that are gone and for which something is kept. One that cannot be looked at is not gone, and
/// what older versions kept does not say which workspace it is for.
///
/// # Errors
/// Returns the error of reading a directory.
pub fn gone(places: &Places) -> io::Result<Vec<GoneWorkspace>> {
    let all = all(places);
    let entries = match fs::read_dir(&all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at("read", &all)?,
    };
    let mut gone = Vec::new();
    for entry in entries {
        let entry = entry.at("read", &all)?;
        let (state, name) = (entry.path(), entry.file_name());
        let Some(workspace) = recorded(&state) else { continue };
        let is_replaced = match name_of_workspace(&workspace) {
            Ok(current) if name == current.as_str() => continue,
            Ok(_) => true,
            Err(error) if is_missing(&error) => false,
            Err(_) => continue,
        };
        gone.push(GoneWorkspace { state, workspace, is_replaced });
    }
    gone.sort_by(|one, other| one.workspace.cmp(&other.workspace));
    Ok(gone)
}

fn all(places: &Places) -> PathBuf {
    places.state.join("agents").join(WORKSPACES)
}

fn recorded(state: &Path) -> Option<PathBuf> {
    let mut path = Vec::new();
    let file = File::open(state.join(RECORD)).ok()?;
    file.take(LONGEST).read_to_end(&mut path).ok()?;
    let path = PathBuf::from(OsStr::from_bytes(&path));
    path.is_absolute().then_some(path)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns a name for a workspace. It changes when another directory takes its place, which is somebody
/// else's work and is not shown what was kept for this one.
fn name_of_workspace(root: &Path) -> io::Result<String> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = rustix::fs::statx(rustix::fs::CWD, root, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let device = (found.stx_dev_major, found.stx_dev_minor);
    // Zero where the file system knows no time of birth.
    let born = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    let mut text = root.as_os_str().as_bytes().to_vec();
    text.extend(format!("\0{device:?} {} {born:?}", found.stx_ino).into_bytes());
    let base = root.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let base: String = base.chars().map(plain).take(32).collect();
    let name = name_of(&text);
    Ok(format!("{base}-{}", name.get(..32).unwrap_or(&name)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn places(root: &Path) -> Places {
        let at = |name: &str| root.join(name);
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") }
    }

    #[test]
    fn a_workspace_is_gone_when_nothing_or_another_directory_has_its_place() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let [removed, replaced, kept, linked] =
            ["removed", "replaced", "kept", "linked"].map(|name| root.path().join(name));
        for workspace in [&removed, &replaced, &kept, &linked] {
            fs::create_dir(workspace).unwrap();
            directory(&places, workspace).unwrap();
            assert_eq!(
                directory(&places, workspace).unwrap(),
                directory(&places, workspace).unwrap()
            );
        }
        assert_eq!(gone(&places).unwrap(), []);
        fs::create_dir_all(all(&places).join("of-an-older-version/claude")).unwrap();
        fs::remove_dir(&removed).unwrap();
        fs::rename(&replaced, root.path().join("moved")).unwrap();
        fs::create_dir(&replaced).unwrap();
        fs::remove_dir(&linked).unwrap();
        symlink(&kept, &linked).unwrap();
        let found = gone(&places).unwrap();
        let found: Vec<_> = found.iter().map(|one| (&one.workspace, one.is_replaced)).collect();
        assert_eq!(found, [(&linked, true), (&removed, false), (&replaced, true)]);
    }

    #[test]
    fn a_record_that_is_no_path_names_nothing() {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let state = all(&places).join("x");
        for content in [&b""[..], b"relative/path", &[b'x'; 10_000]] {
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join(RECORD), content).unwrap();
            assert_eq!(gone(&places).unwrap(), []);
        }
    }
}
