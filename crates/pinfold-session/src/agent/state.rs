//! What an agent keeps from one session to the next.
//!
//! A session can leave anything there. Files are generated in it at each start, which follows no link
//! and enters no directory without rights; so what is in their way is set aside before.

use pinfold_personal::MountPoint;
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_agents::ResolvedAgent;
use pinfold_host::directories::Places;
use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{AgentState, Settings};
use pinfold_protect::set_aside::rename_aside;
use pinfold_terminal::notify;
use pinfold_worktree::workspace::Workspace;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::HOME;
use crate::RunError;
use crate::workspace_state;
use pinfold_rootfs::extra::Extra;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// What the owner of a directory needs to make files in it.
const RIGHTS: u32 = 0o700;

/// Returns whether an agent finds in this run what it kept in an earlier one.
pub(super) fn is_kept(settings: &Settings, workspace: &Workspace) -> bool {
    match settings.files.state.value {
        AgentState::Ephemeral => false,
        AgentState::Repository => !workspace.is_scratch,
        AgentState::Persistent => true,
    }
}

/// Returns the directories that outlive the session, where that is granted: pinfold's own, never the
/// agent's directories in the user's home.
///
/// # Errors
/// Returns an error if one cannot be made.
pub(super) fn grants(
    agent: &ResolvedAgent,
    settings: &Settings,
    places: &Places,
    workspace: &Workspace,
) -> Result<Vec<Extra>, RunError> {
    if !is_kept(settings, workspace) {
        return Ok(Vec::new());
    }
    let own = match settings.files.state.value {
        AgentState::Repository => {
            let kept = workspace_state::directory(places, workspace.root.as_path());
            kept.map_err(RunError::System)?.join(&agent.profile.name)
        }
        AgentState::Ephemeral | AgentState::Persistent => {
            places.state.join("agents").join(&agent.profile.name)
        }
    };
    Places::make_private(&own).map_err(RunError::System)?;
    let grant = |path: &PathBuf| -> Result<Extra, RunError> {
        let host = own.join(path);
        // The sandbox owns what is below and may have changed its mode.
        let mut make = fs::DirBuilder::new();
        make.recursive(true).mode(0o700).create(&host).map_err(RunError::System)?;
        Ok(Extra {
            id: Arc::from("agent state"),
            kind: RootKind::AgentState,
            host: HostPath::new(fs::canonicalize(&host).map_err(RunError::System)?)
                .map_err(RunError::path)?,
            inside: InsidePath::new(Path::new(HOME).join(path)).map_err(RunError::path)?,
            access: Access::FULL,
            origin: settings.files.state.origin.clone(),
            held: None,
        })
    };
    // Where the user grants such a directory, that is where the agent keeps it.
    let is_granted = |path: &&PathBuf| {
        let inside = Path::new(HOME).join(path);
        let mut users = settings.files.read.iter().chain(&settings.files.write);
        users.any(|granted| inside.starts_with(granted.value.as_path()))
    };
    agent.profile.state.iter().filter(|path| !is_granted(path)).map(grant).collect()
}

/// Sets aside what a session left in the way of generated files and of the user's own.
///
/// # Errors
/// Returns an error with the path if that fails.
pub(super) fn clear_the_way(
    grants: &[Extra],
    files: &[&InsidePath],
    mine: &[MountPoint],
) -> Result<(), RunError> {
    for grant in grants.iter().filter(|grant| grant.kind == RootKind::AgentState) {
        let below = |path: &Path| Some(path.strip_prefix(grant.inside.as_path()).ok()?.to_owned());
        let generated = files.iter().filter_map(|file| below(file.as_path()));
        let points = mine.iter().filter_map(|point| below(&point.path));
        remove_links(grant.host.as_path(), points)?;
        // What is made in a directory needs that to be one.
        let points = mine.iter().filter_map(|point| {
            let path = below(&point.path)?;
            Some(if point.is_directory { path.join("any") } else { path })
        });
        let files: Vec<PathBuf> = generated.chain(points).collect();
        for obstacle in clear(grant.host.as_path(), &files)? {
            let path = grant.host.as_path().join(obstacle);
            let path = pinfold_policy::path::Escaped(&path);
            notify!(
                "pinfold: note: {path} was in the way of the agent's own files: it is set aside"
            );
        }
    }
    Ok(())
}

/// Removes links that a session left where something is to be mounted: no mount follows one.
fn remove_links(root: &Path, points: impl Iterator<Item = PathBuf>) -> Result<(), RunError> {
    let top = rustix::fs::open(root, DIRECTORY, Mode::empty())
        .map_err(|errno| RunError::System(errno.into()))?;
    for point in points {
        let (Some(parent), Some(name)) = (point.parent(), point.file_name()) else { continue };
        // A way that leads elsewhere is cleared next.
        let Ok(parent) = descend(&top, parent) else { continue };
        let found = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_other = |found: rustix::fs::Stat| {
            !matches!(
                FileType::from_raw_mode(found.st_mode),
                FileType::Directory | FileType::RegularFile
            )
        };
        if found.is_ok_and(is_other) {
            rustix::fs::unlinkat(&parent, name, AtFlags::empty())
                .map_err(|errno| RunError::System(errno.into()))?;
        }
    }
    Ok(())
}

/// Clears the way to files below a directory. Returns what was set aside.
fn clear(root: &Path, files: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
    let failed = |path: &Path, errno: Errno| {
        let path = root.join(path);
        let shown = pinfold_policy::path::Escaped(&path);
        let hint = format!("remove {shown}, which an earlier session left");
        let what = format!("cannot make way for the agent's own files: {shown}: {errno}");
        RunError::refused(what, Some(hint))
    };
    let top = rustix::fs::open(root, DIRECTORY, Mode::empty())
        .and_then(|top| may_be_entered(&top).map(|()| top))
        .map_err(|errno| failed(Path::new(""), errno))?;
    let mut aside = Vec::new();
    for file in files {
        if let Some(obstacle) = obstacle(&top, file).map_err(|errno| failed(file, errno))? {
            let parent = obstacle.parent().unwrap_or(Path::new(""));
            let name = obstacle.file_name().unwrap_or_default();
            descend(&top, parent)
                .and_then(|parent| rename_aside(&parent, Path::new(name)))
                .map_err(|errno| failed(&obstacle, errno))?;
            aside.push(obstacle);
        }
    }
    Ok(aside)
}

/// Gives the owner back what a session took from the directory itself, which it cannot replace.
fn may_be_entered(top: &OwnedFd) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(top)?.st_mode;
    if mode & RIGHTS == RIGHTS {
        return Ok(());
    }
    // By a path, since a descriptor that only names it takes no mode.
    let path = format!("/proc/self/fd/{}", top.as_raw_fd());
    rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777 | RIGHTS))
}

fn descend(top: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut directory = rustix::fs::openat(top, ".", DIRECTORY, Mode::empty())?;
    for name in path {
        directory = rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty())?;
    }
    Ok(directory)
}

/// Returns the first path on the way to a file that is not a directory to make files in, or the file's
/// own if it is a directory.
fn obstacle(top: &OwnedFd, file: &Path) -> Result<Option<PathBuf>, Errno> {
    let mut directory = descend(top, Path::new(""))?;
    let mut path = PathBuf::new();
    let count = file.iter().count();
    for (index, name) in file.iter().enumerate() {
        path.push(name);
        let found = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let is_last = index + 1 == count;
        if is_last {
            return Ok(is_directory.then_some(path));
        }
        if !is_directory || found.st_mode & RIGHTS != RIGHTS {
            return Ok(Some(path));
        }
        directory = rustix::fs::openat(&directory, name, DIRECTORY, Mode::empty())?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Makes an obstacle below a directory.
    type Make<'a> = &'a dyn Fn(&Path);

    #[test]
    fn obstacle_to_a_generated_file_is_set_aside() {
        let make: [(&str, Make<'_>); 6] = [
            ("a", &|root| symlink("/etc", root.join("a")).unwrap()),
            ("a", &|root| fs::write(root.join("a"), "").unwrap()),
            ("a/b", &|root| symlink("..", root.join("a/b")).unwrap()),
            ("a/b/file", &|root| fs::create_dir_all(root.join("a/b/file/x")).unwrap()),
            ("a/b", &|root| {
                fs::create_dir(root.join("a/b")).unwrap();
                fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o500)).unwrap();
            }),
            ("a", &|root| {
                let fifo = FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, root.join("a"), fifo, Mode::RWXU, 0).unwrap();
            }),
        ];
        for (obstacle, make) in make {
            let root = tempfile::tempdir().unwrap();
            let parent = root.path().join(obstacle);
            fs::create_dir_all(parent.parent().unwrap()).unwrap();
            make(root.path());
            let mode = fs::Permissions::from_mode(0o500);
            fs::set_permissions(root.path(), mode).unwrap();
            let files = [PathBuf::from("a/b/file")];
            assert_eq!(clear(root.path(), &files).unwrap(), [PathBuf::from(obstacle)]);
            assert!(clear(root.path(), &files).unwrap().is_empty(), "{obstacle}");
            fs::create_dir_all(root.path().join("a/b")).unwrap();
            fs::write(root.path().join("a/b/file"), "").unwrap();
        }
    }

    #[test]
    fn other_state_of_an_agent_stays() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        symlink("elsewhere", root.path().join("a/b/file")).unwrap();
        symlink("elsewhere", root.path().join("a/link")).unwrap();
        let files = ["a/b/file", "a/b/new", "c/d"].map(PathBuf::from);
        assert!(clear(root.path(), &files).unwrap().is_empty());
        assert!(fs::symlink_metadata(root.path().join("a/link")).is_ok());
    }
}
