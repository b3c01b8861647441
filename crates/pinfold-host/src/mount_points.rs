//! Where file systems are mounted (proc_pid_mountinfo(5)).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_policy::path::of_mount_field;

use crate::beneath::join_beneath;

/// A mount: a directory or file of a file system, and where it is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device of the file system, as `major:minor`.
    device: Vec<u8>,
    /// What of the file system is mounted, from its own root.
    root: PathBuf,
    /// The mount point.
    point: PathBuf,
}

impl Mount {
    /// Returns a mount of what lies at `root` in the file system of a device.
    #[must_use]
    pub fn of(device: &str, root: &Path, point: PathBuf) -> Self {
        Self { device: device.as_bytes().to_vec(), root: root.to_owned(), point }
    }
}

/// Returns every mount, in the order in which they were made.
///
/// # Errors
/// Returns the error of reading the list, and `InvalidData` for a list that is cut off.
pub fn all() -> io::Result<Vec<Mount>> {
    parse(&fs::read("/proc/self/mountinfo")?)
}

fn parse(mounts: &[u8]) -> io::Result<Vec<Mount>> {
    let line = |line: &[u8]| {
        let mut fields = line.strip_suffix(b"\n")?.split(|byte| *byte == b' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Mount {
            device: device.to_vec(),
            root: of_mount_field(root),
            point: of_mount_field(point),
        })
    };
    let lines = mounts.split_inclusive(|byte| *byte == b'\n').map(line);
    let mounts: Option<Vec<Mount>> = lines.collect();
    let is_cut = || io::Error::new(io::ErrorKind::InvalidData, "the list of mounts is cut off");
    mounts.filter(|it| !it.is_empty()).ok_or_else(is_cut)
}

/// Returns a mount point below a directory, if there is one.
///
/// # Errors
/// Returns the error of reading the list.
pub fn within(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut points = all()?.into_iter().map(|mount| mount.point);
    Ok(points.find(|point| point != directory && point.starts_with(directory)))
}

/// Returns where a path without links lies in its file system, from the root of that.
pub fn place(mounts: &[Mount], path: &Path) -> Option<PathBuf> {
    let (mount, below) = holding(mounts, path)?;
    Some(join_beneath(&mount.root, below))
}

/// Returns by which paths in a directory, or in what is mounted in that, something is reached, too. Neither path has links, and
/// something else may be mounted at what is returned.
pub fn places_in(mounts: &[Mount], path: &Path, directory: &Path) -> Vec<PathBuf> {
    let Some((own, below)) = holding(mounts, path) else { return Vec::new() };
    let place = join_beneath(&own.root, below);
    let of_directory = holding(mounts, directory)
        .map(|(mount, below)| (&mount.device, join_beneath(&mount.root, below), directory));
    let within = mounts.iter().filter(|mount| mount.point.starts_with(directory));
    let within = within.map(|mount| (&mount.device, mount.root.clone(), mount.point.as_path()));
    let all = of_directory.into_iter().chain(within).filter(|(device, ..)| **device == own.device);
    all.filter_map(|(_, root, at)| Some(join_beneath(at, place.strip_prefix(root).ok()?))).collect()
}

/// Returns the mount that a path lies in, and the rest of the path.
fn holding<'m, 'p>(mounts: &'m [Mount], path: &'p Path) -> Option<(&'m Mount, &'p Path)> {
    let holding = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // The last one covers those that were attached at the same place before.
    let mount = holding.max_by_key(|mount| mount.point.as_os_str().len())?;
    Some((mount, path.strip_prefix(&mount.point).ok()?))
}

/// Another path by which something can be reached.
#[derive(Debug, PartialEq, Eq)]
pub enum Alias {
    /// By which all of it can be reached.
    Whole(PathBuf),
    /// By which a part of it can be reached.
    Part(PathBuf),
}

/// Returns the other paths by which what lies at `path` can be reached: the same directory or file
/// may be mounted elsewhere (mount(8), "Bind mounts"). Something else may be mounted over them.
pub fn aliases(mounts: &[Mount], path: &Path) -> Vec<Alias> {
    let Some((own, below)) = holding(mounts, path) else { return Vec::new() };
    let place = join_beneath(&own.root, below);
    let same = mounts.iter().filter(|mount| mount.device == own.device);
    let alias = |mount: &Mount| match place.strip_prefix(&mount.root) {
        Ok(rest) if rest.as_os_str().is_empty() => Some(Alias::Whole(mount.point.clone())),
        Ok(rest) => Some(Alias::Whole(mount.point.join(rest))),
        Err(_) => mount.root.starts_with(&place).then(|| Alias::Part(mount.point.clone())),
    };
    let is_other = |alias: &Alias| !matches!(alias, Alias::Whole(alias) if alias == path);
    same.filter_map(alias).filter(is_other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(device: &str, root: &str, point: &str) -> Mount {
        Mount::of(device, Path::new(root), point.into())
    }

    #[test]
    fn list_that_is_cut_off_is_an_error() {
        let line = "36 35 98:0 /a /mnt/b rw shared:1 - ext4 /dev/sda rw\n";
        assert_eq!(parse(line.as_bytes()).unwrap(), [mount("98:0", "/a", "/mnt/b")]);
        for cut in ["", &line[..line.len() - 1], &format!("{line}37 35 98:0"), "37\n"] {
            assert_eq!(parse(cut.as_bytes()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn what_is_mounted_elsewhere_lies_where_its_file_system_has_it() {
        let mounts = [
            mount("8:1", "/", "/"),
            mount("8:2", "/@home", "/home"),
            mount("8:2", "/@home/u/work", "/mnt/all"),
            mount("8:2", "/@home/u/work/bin", "/opt/tools"),
            mount("8:2", "/@home/u", "/mnt/above"),
            mount("8:3", "/sub", "/home/u/work/disk"),
            mount("8:3", "/", "/mnt/disk"),
            mount("8:3", "/other", "/mnt/other"),
        ];
        let places = |path: &str| places_in(&mounts, path.as_ref(), "/home/u/work".as_ref());
        for (path, place) in [
            ("/home/u/work/bin/git", "/home/u/work/bin/git"),
            ("/mnt/all/bin/git", "/home/u/work/bin/git"),
            ("/opt/tools/git", "/home/u/work/bin/git"),
            ("/mnt/above/work/bin/git", "/home/u/work/bin/git"),
            ("/mnt/disk/sub/bin/git", "/home/u/work/disk/bin/git"),
        ] {
            assert_eq!(places(path), [Path::new(place)], "{path}");
        }
        for path in [
            "/home/u/bin/git",
            "/usr/bin/git",
            "/mnt/above/bin/git",
            "/mnt/disk/git",
            "/mnt/other/git",
        ] {
            assert!(places(path).is_empty(), "{path}");
        }
    }
}
