//! The root of a guest: the tree that the host serves, with what this kernel has of its own in it.
//!
//! Private directories are memory of the guest's. What lies beneath one is taken from the tree first, and put in place
//! again: grants as mounts, and what pinfold has made for the session as copies, which belong to it.

mod codec;

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::Door;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use super::{GuestError, TAG};

/// Where it is mounted at first: a directory of the initramfs.
const NEW_ROOT: &str = "/root";
/// A directory of every tree, over which the private memory lies while its directories are put in place.
const STAGE: &str = "/run/pinfold";
/// The most that is copied of a file that pinfold made.
const LARGEST: u64 = 16 << 20;
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);

/// What of a tree is the guest's own.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// The session's user and group.
    pub ids: (u32, u32),
    /// The name of the machine.
    pub hostname: String,
    /// The user's home directory, which is for nobody else if it is private.
    pub home: PathBuf,
    /// Directories of the guest's memory.
    pub private: Vec<PathBuf>,
    /// How much they may hold together, in bytes.
    pub disk: u64,
    /// How many files the host can hold open.
    pub files: u64,
    /// What lies beneath private directories.
    pub beneath: Vec<Place>,
    /// The sandbox's doors.
    pub doors: Vec<Door>,
    /// Whether the session may make namespaces of its own.
    pub is_nested: bool,
}

/// Something at a path beneath a private directory.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub kind: Beneath,
}

/// What something beneath a private directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beneath {
    /// The host's, which stays where it is.
    Granted,
    /// A file or link made for the session, which it may replace.
    Made,
}

/// What was taken from the tree before something lies over it.
enum Taken {
    Mount(OwnedFd, FileType),
    File(Vec<u8>, Mode),
    Link(Vec<u8>),
}

impl Tree {
    /// Mounts the tree that the host serves in the place of the root.
    ///
    /// # Errors
    /// Returns what cannot be mounted or put in place.
    pub fn enter(&self) -> Result<(), GuestError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |errno| GuestError::Mount(what, errno)
        };
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(TAG, NEW_ROOT, "virtiofs", flags, None).map_err(failed(NEW_ROOT))?;
        for path in ["/proc", "/sys", "/dev"] {
            let to = format!("{NEW_ROOT}{path}");
            rustix::mount::mount_move(path, to).map_err(failed(path))?;
        }
        // A process whose root is not that of its mount namespace makes no user namespace (clone(2), EPERM).
        rustix::process::chdir(NEW_ROOT)
            .and_then(|()| rustix::mount::mount_move(".", "/"))
            .and_then(|()| rustix::process::chroot("."))
            .and_then(|()| rustix::process::chdir("/"))
            .map_err(failed("/"))?;
        let taken = self.beneath.iter().map(|place| {
            let taken = place.take();
            taken.map_err(|errno| GuestError::Place(place.path.clone(), errno))
        });
        let taken = taken.collect::<Result<Vec<_>, _>>()?;
        self.mount_private().map_err(failed("private directories"))?;
        for (place, taken) in self.beneath.iter().zip(taken) {
            self.put(&place.path, taken)
                .map_err(|errno| GuestError::Place(place.path.clone(), errno))?;
        }
        Ok(())
    }

    /// Mounts all private directories from one file system, which bounds them together.
    fn mount_private(&self) -> Result<(), Errno> {
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_set_string(&context, "size", self.disk.to_string())?;
        rustix::mount::fsconfig_create(&context)?;
        let memory = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        // Directories are cloned only from what is attached, before Linux 6.15.
        attach(&memory, STAGE)?;
        for (index, path) in self.private.iter().enumerate() {
            let name = index.to_string();
            let mode = if *path == self.home { 0o700 } else { 0o1777 };
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::mkdirat(&memory, &name, mode)?;
            rustix::fs::chmodat(&memory, &name, mode, AtFlags::empty())?;
            self.give(&memory, Path::new(&name))?;
            self.make_directory(path)?;
            attach(&clone_tree(&memory, Path::new(&name))?, path)?;
        }
        // By its descriptor, because a private directory may lie over its path.
        let stage = format!("/proc/self/fd/{}", memory.as_raw_fd());
        rustix::mount::unmount(stage, UnmountFlags::DETACH)
    }

    fn put(&self, path: &Path, taken: Taken) -> Result<(), Errno> {
        self.make_directory(path.parent().ok_or(Errno::INVAL)?)?;
        match taken {
            Taken::Mount(mount, kind) => {
                if kind == FileType::Directory {
                    self.make_directory(path)?;
                } else {
                    rustix::fs::mknodat(CWD, path, FileType::RegularFile, Mode::RUSR, 0)?;
                }
                return attach(&mount, path);
            }
            Taken::Link(to) => rustix::fs::symlinkat(to.as_slice(), CWD, path)?,
            Taken::File(content, mode) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::open(path, flags, mode)?;
                let mut rest = content.as_slice();
                while !rest.is_empty() {
                    rest = &rest[rustix::io::write(&file, rest)?..];
                }
                rustix::fs::fchmod(&file, mode)?;
            }
        }
        self.give(CWD, path)
    }

    /// Makes a directory and those above it where they are missing, for the session's user.
    fn make_directory(&self, path: &Path) -> Result<(), Errno> {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        for directory in above.into_iter().skip(1) {
            match rustix::fs::mkdirat(CWD, directory, DIRECTORY) {
                Ok(()) => self.give(CWD, directory)?,
                // What is read-only has it already.
                Err(Errno::EXIST | Errno::ROFS) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn give(&self, directory: impl AsFd, path: &Path) -> Result<(), Errno> {
        let (uid, gid) = self.ids;
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::chownat(directory, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Place {
    fn take(&self) -> Result<Taken, Errno> {
        let stat = rustix::fs::lstat(&self.path)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if self.kind == Beneath::Granted && kind != FileType::Symlink {
            return Ok(Taken::Mount(clone_tree(CWD, &self.path)?, kind));
        }
        if kind == FileType::Symlink {
            let to = rustix::fs::readlink(&self.path, Vec::new())?;
            return Ok(Taken::Link(to.into_bytes()));
        }
        let content =
            read(&self.path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Taken::File(content, Mode::from_raw_mode(stat.st_mode & 0o777)))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(std::fs::File::open(path)?, LARGEST), &mut content)?;
    Ok(content)
}

pub(super) fn clone_tree(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    rustix::mount::open_tree(directory, path.as_os_str().as_bytes(), flags)
}

pub(super) fn attach(mount: &OwnedFd, path: impl AsRef<Path>) -> Result<(), Errno> {
    rustix::mount::move_mount(
        mount,
        "",
        CWD,
        path.as_ref(),
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}
