//! The fresh root: an empty file system to which the grants are attached, and nothing else.
//!
//! Every source is cloned to a detached mount, made private and narrowed there, and only then
//! attached, by descriptor (`open_tree`, `mount_setattr`, `move_mount`; Linux 5.12). Targets
//! are resolved beneath the new root without following any symbolic link.

mod kernel_files;

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use pinfold_init::Failure;
use pinfold_wire::Step;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatvfs};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::detached::{
    NO_DEVICES, NO_SUID, READ_ONLY, Source, attach, clone_host, clone_tree, grant_attributes,
    is_directory, new_filesystem, new_memory,
};
use super::takeover::Wall;
use crate::live_view::LiveView;
use crate::plan::{Changes, Entry, LaunchPlan, Place};
use crate::sys;
pub use kernel_files::DEVICES;
pub(super) use kernel_files::NESTED_PROC;
pub(crate) use kernel_files::{HIDDEN_KERNEL_FILES, SEALED_KERNEL_FILES};

pub(super) const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;
/// Where private material of ours lies inside; never writable there.
pub(super) const OWN: &str = "run/pinfold";

/// What lies in the place of something of the host's.
struct Look {
    directory: &'static str,
    file: &'static str,
}

const HIDDEN: Look =
    Look { directory: "run/pinfold/hidden-directory", file: "run/pinfold/hidden-file" };
const CLOSED: Look =
    Look { directory: "run/pinfold/closed-directory", file: "run/pinfold/closed-file" };

/// Directories that are made on the way to something.
pub(super) const DIRECTORY: Mode = Mode::from_raw_mode(0o755);

/// What something is mounted on.
pub(super) enum Kind {
    Directory,
    File,
}

/// The fresh root while it is being filled.
pub(crate) struct Root {
    root: OwnedFd,
}

impl Root {
    /// Returns the root of a sandbox that is complete.
    pub(crate) fn of(root: OwnedFd) -> Self {
        Self { root }
    }

    /// Mounts the root with /proc, /dev and the private directories, or with places for another kernel's.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn mount(plan: &LaunchPlan, wall: &Wall) -> Result<Self, Errno> {
        let options = [("mode", "0755"), ("size", "16m"), ("nr_inodes", "16384")];
        let root = new_filesystem("tmpfs", &options, NO_SUID | NO_DEVICES)?;
        // pivot_root(2) wants a mount point; where it lies on the old root does not matter.
        attach(&root, rustix::fs::CWD, "/")?;
        let root = Self { root };
        root.make_empty()?;
        if wall.serves_files() {
            root.make_places(plan)?;
        } else {
            root.mount_kernel_files(plan)?;
            root.mount_private(plan)?;
        }
        root.mount_stage(plan)?;
        Ok(root)
    }

    /// Mounts the file system of all private directories, whose size bounds them together.
    /// It stays attached, read-only, where its directories were cloned from: taking it away
    /// again would cost a grace period of the kernel (80 µs) and win nothing.
    fn mount_private(&self, plan: &LaunchPlan) -> Result<(), Errno> {
        const STAGE: &str = "run/pinfold/private";
        let private = new_memory(plan.limits.disk)?;
        self.put(&private, STAGE.as_ref(), Kind::Directory)?;
        let is_made_here = |entry: &&Entry| matches!(entry.place, Place::Private) && !is_run(entry);
        let entries = plan.tree.iter().filter(is_made_here);
        for (index, entry) in entries.enumerate() {
            let name = index.to_string();
            // The sticky bit of a shared /tmp has no meaning for one user, but programs look.
            let mode = if entry.path == plan.identity.home { 0o700 } else { 0o1777 };
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::mkdirat(&private, &name, mode)?;
            rustix::fs::chmodat(&private, &name, mode, rustix::fs::AtFlags::empty())?;
            let tree = clone_tree(&private, &name, NO_SUID | NO_DEVICES)?;
            self.put(tree, inside(entry.path.as_path()), Kind::Directory)?;
        }
        sys::mount_setattr(private.as_fd(), false, &sys::attributes(READ_ONLY, 0))
    }

    /// Makes what stands for hidden things, an empty directory and an empty file that everybody may read,
    /// and for closed ones, which nobody may open.
    fn make_empty(&self) -> Result<(), Errno> {
        self.directory(OWN.as_ref())?;
        for (look, directory, file) in [(HIDDEN, 0o555, 0o444), (CLOSED, 0, 0)] {
            let mode = Mode::from_raw_mode(directory);
            rustix::fs::mkdirat(&self.root, look.directory, mode)?;
            // The caller's umask took bits from the mode.
            let flags = rustix::fs::AtFlags::empty();
            rustix::fs::chmodat(&self.root, look.directory, mode, flags)?;
            self.create(look.file.as_ref(), file, &[])?;
        }
        Ok(())
    }

    /// Attaches every entry that comes from the host, and makes the links. Returns the view whose
    /// changes are kept, if there is one.
    ///
    /// # Errors
    /// Returns an error for the entry that failed, with its path.
    pub(super) fn attach_all(
        &self,
        tree: &[Entry],
        sources: Vec<Source>,
    ) -> Result<Option<LiveView>, Failure> {
        let mut view = None;
        for (entry, source) in tree.iter().zip(sources) {
            let path = entry.path.as_path();
            let step = match &entry.place {
                Place::Overlay { .. } => Step::View,
                _ => Step::Grants,
            };
            let failed = Failure::about(step, path.as_os_str().as_bytes());
            match &entry.place {
                Place::ReadOnly(host) | Place::System(host) => {
                    self.grant(path, host.as_path(), false, source)
                }
                Place::Writable(host) => self.grant(path, host.as_path(), true, source),
                Place::Overlay { lower, changes } => {
                    self.overlay(path, lower, changes, source).map(|made| {
                        let kept = Some(made).filter(|_| matches!(changes, Changes::Kept(_)));
                        view = kept.or(view.take());
                    })
                }
                Place::Symlink(to) => self.link(path, to),
                Place::Private | Place::File { .. } => Ok(()),
            }
            .map_err(failed)?;
        }
        self.leave_stage(tree).map_err(Failure::at(Step::View))?;
        Ok(view)
    }

    fn grant(&self, path: &Path, host: &Path, writable: bool, source: Source) -> Result<(), Errno> {
        let mount = match source {
            Source::Detached(mount) => mount,
            Source::Child | Source::Layers { .. } => clone_host(host, writable)?,
        };
        let kind = if is_directory(&mount)? { Kind::Directory } else { Kind::File };
        self.put(mount, inside(path), kind)
    }

    fn link(&self, path: &Path, to: &OsStr) -> Result<(), Errno> {
        let (above, name) = self.above(inside(path))?;
        rustix::fs::symlinkat(to, above, name)
    }

    /// Writes the generated files.
    ///
    /// # Errors
    /// Returns an error for the file that failed, with its path.
    pub(super) fn write_files(&self, tree: &[Entry]) -> Result<(), Failure> {
        for entry in tree {
            if let Place::File { content, mode, keep } = &entry.place {
                let path = inside(entry.path.as_path());
                if *keep && self.resolve(path).is_ok() {
                    continue;
                }
                self.create(path, *mode, content)
                    .map_err(Failure::about(Step::Files, entry.path.as_bytes()))?;
            }
        }
        Ok(())
    }

    /// Returns a path descriptor of what lies there; the last component may be a symbolic link, which is
    /// returned itself.
    ///
    /// # Errors
    /// Returns `ELOOP` where the path leads through a link, `EXDEV` where it would leave the root.
    pub(crate) fn resolve(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.root, path, flags, Mode::empty(), how)
    }

    /// Puts what lies at `place` over itself, narrowed by `set`.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn mask_with_itself(&self, place: OwnedFd, read_only: bool) -> Result<(), Errno> {
        let tree = clone_tree(&place, "", grant_attributes(!read_only))?;
        attach(tree, place, "")
    }

    /// Puts what lies at the sandbox path `from` over `place`.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn mask_with(
        &self,
        place: OwnedFd,
        from: &Path,
        read_only: bool,
    ) -> Result<(), Errno> {
        let tree = clone_tree(self.resolve(from)?, "", grant_attributes(!read_only))?;
        attach(tree, place, "")
    }

    /// Hides what lies at `place`: it looks empty.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn hide(&self, place: OwnedFd) -> Result<(), Errno> {
        self.mask_by(place, &HIDDEN)
    }

    /// Closes what lies at `place`: nobody may open it.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn close(&self, place: OwnedFd) -> Result<(), Errno> {
        self.mask_by(place, &CLOSED)
    }

    fn mask_by(&self, place: OwnedFd, look: &Look) -> Result<(), Errno> {
        let from = if is_directory(&place)? { look.directory } else { look.file };
        self.mask_with(place, from.as_ref(), true)
    }

    /// Lets the sandbox write to /run, if the plan says so, except what is ours in it.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn open_run(&self, tree: &[Entry]) -> Result<(), Errno> {
        if !tree.iter().any(is_run) {
            return Ok(());
        }
        self.mask_with_itself(self.resolve(OWN.as_ref())?, true)?;
        self.mask_with_itself(self.resolve("run".as_ref())?, false)
    }

    /// Makes the root itself read-only; private and writable places are mounts of their own.
    ///
    /// # Errors
    /// Returns the error of `mount_setattr(2)`.
    pub(super) fn seal(&self) -> Result<(), Errno> {
        sys::mount_setattr(self.root.as_fd(), false, &sys::attributes(READ_ONLY, 0))
    }

    /// Returns whether [`Self::seal`] was called, or an engine did the same.
    ///
    /// # Errors
    /// Returns the error of `fstatfs(2)`.
    pub(super) fn is_sealed(&self) -> Result<bool, Errno> {
        Ok(fstatvfs(&self.root)?.f_flag.contains(StatVfsMountFlags::RDONLY))
    }

    /// Makes the fresh root the working directory and, where no engine does it, the only root
    /// (pivot_root(2), the form with two dots). What is put in place afterwards comes from within it.
    ///
    /// # Errors
    /// Returns the error of `pivot_root(2)` and `umount2(2)`.
    pub(super) fn enter(&self, wall: &Wall) -> Result<(), Errno> {
        rustix::process::fchdir(&self.root)?;
        if matches!(wall, Wall::Other(_)) {
            return Ok(());
        }
        rustix::process::pivot_root(".", ".")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")
    }

    /// Moves the whole tree to a path below a directory, for an engine to find.
    ///
    /// # Errors
    /// Returns the error of `move_mount(2)`.
    pub(crate) fn move_to(&self, directory: impl AsFd, path: &str) -> Result<(), Errno> {
        attach(&self.root, directory, path)
    }

    /// Attaches a mount at a path, where an empty mount point is made if nothing lies there. A
    /// link that lies there is not followed, so that it keeps a directory or file from being
    /// attached (move_mount(2)).
    pub(super) fn put(&self, mount: impl AsFd, path: &Path, kind: Kind) -> Result<(), Errno> {
        let (above, name) = self.above(path)?;
        let made = match kind {
            Kind::Directory => rustix::fs::mkdirat(&above, name, DIRECTORY),
            Kind::File => {
                let mode = Mode::from_raw_mode(0o444);
                rustix::fs::mknodat(&above, name, FileType::RegularFile, mode, 0)
            }
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => attach(mount, above, name),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the directory above a path, made where it is missing, and the path's last component.
    fn above<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        Ok((self.directory(path.parent().unwrap_or(path))?, name))
    }

    /// Returns a directory, made where it is missing with those above it.
    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        if path == Path::new("") {
            return self.resolve(".".as_ref());
        }
        match self.resolve(path) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        let (above, name) = self.above(path)?;
        match rustix::fs::mkdirat(above, name, DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => self.resolve(path),
            Err(errno) => Err(errno),
        }
    }

    /// Writes a new file. What an earlier run left there in a persistent directory goes first;
    /// it may be a link.
    pub(crate) fn create(&self, path: &Path, mode: u32, content: &[u8]) -> Result<(), Errno> {
        let (above, name) = self.above(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let open = || rustix::fs::openat(&above, name, flags, mode);
        let file = match open() {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&above, name, rustix::fs::AtFlags::empty())?;
                open()?
            }
            opened => opened?,
        };
        let mut rest = content;
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&file, rest)?..];
        }
        // The caller's umask took bits from the mode.
        rustix::fs::fchmod(&file, mode)
    }
}

/// Returns whether this is /run, private: where our own things lie too.
fn is_run(entry: &Entry) -> bool {
    matches!(entry.place, Place::Private) && entry.path.as_path() == Path::new("/run")
}

/// Returns an absolute inside path as one relative to the new root.
pub(crate) fn inside(path: &Path) -> &Path {
    debug_assert!(!path.components().any(|part| part == Component::ParentDir));
    path.strip_prefix("/").unwrap_or(path)
}
