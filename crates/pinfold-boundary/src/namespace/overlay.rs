//! A copy-on-write view of a directory (overlayfs, in a user namespace since Linux 5.11).
//!
//! The sandbox's own root mounts it, so the kernel does nothing for it that the sandbox's user may
//! not do, and keeps its notes in extended attributes of users (`userxattr`). For a caller who is
//! root the layers that the sandbox owns are idmapped mounts (Linux 5.19), so that files keep their
//! owner.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, unmount,
};

use super::detached::{
    NO_DEVICES, NO_SUID, Source, clone_host, clone_lower, clone_tree, new_memory,
};
use super::root::{DIRECTORY, Kind, Root, inside};
use crate::live_view::LiveView;
use crate::plan::{Changes, Entry, LaunchPlan, Lower, Place};

/// What views are made of, while they are made: a file system of its own, which holds private changes
/// and on which layers are attached.
const STAGE: &str = "run/pinfold/stage";
const CHANGES: &str = "run/pinfold/stage/changes";
const LAYERS: &str = "run/pinfold/stage/layers";

impl Root {
    /// Mounts the stage. Its size bounds private changes together.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(super) fn mount_stage(&self, plan: &LaunchPlan) -> Result<(), Errno> {
        if !has_views(&plan.tree) {
            return Ok(());
        }
        let stage = new_memory(plan.limits.changes)?;
        self.put(&stage, STAGE.as_ref(), Kind::Directory)
    }

    /// Takes the stage out of sight with all that is attached to it: views have clones of their own.
    /// One call for all, since each waits for a grace period of the kernel.
    ///
    /// # Errors
    /// Returns the error of `umount2(2)`.
    pub(super) fn leave_stage(&self, tree: &[Entry]) -> Result<(), Errno> {
        if !has_views(tree) {
            return Ok(());
        }
        let stage = self.resolve(STAGE.as_ref())?;
        unmount(by_descriptor(&stage), UnmountFlags::DETACH)
    }

    /// Attaches a view of `lower` at a path.
    ///
    /// # Errors
    /// Returns the error of the mount calls: `EINVAL` where the kernel or the file system of a layer
    /// cannot.
    pub(super) fn overlay(
        &self,
        path: &Path,
        lower: &[Lower],
        changes: &Changes,
        source: Source,
    ) -> Result<LiveView, Errno> {
        let (lower, layers) = match source {
            Source::Layers { lower, changes } => (lower, changes),
            Source::Child | Source::Detached(_) => {
                let layers = match changes {
                    Changes::Kept(layers) => Some(clone_host(layers.as_path(), true)?),
                    Changes::Private => None,
                };
                (lower.iter().map(clone_lower).collect::<Result<_, _>>()?, layers)
            }
        };
        let layers = match layers {
            Some(layers) => layers,
            None => self.private_layers(path, lower.first().ok_or(Errno::INVAL)?)?,
        };
        // Before Linux 6.15 a layer has to be attached in the namespace of who mounts the view.
        let stage = Path::new(LAYERS).join(as_one_name(path));
        for (index, layer) in lower.iter().chain([&layers]).enumerate() {
            self.put(layer, &stage.join(index.to_string()), Kind::Directory)?;
        }
        let (view, context) = mount(&lower, &layers)?;
        self.put(view, inside(path), Kind::Directory)?;
        Ok(context)
    }

    /// Directories for private changes below a path. The view's own directory looks like its
    /// uppermost layer's, so this one gets the mode of the next.
    fn private_layers(&self, path: &Path, below: &OwnedFd) -> Result<OwnedFd, Errno> {
        let mode = Mode::from_raw_mode(rustix::fs::fstat(below)?.st_mode & 0o7777);
        let home = Path::new(CHANGES).join(as_one_name(path));
        self.directory(CHANGES.as_ref())?;
        for (name, mode) in [("", DIRECTORY), ("upper", mode), ("work", DIRECTORY)] {
            let place = if name.is_empty() { home.clone() } else { home.join(name) };
            let above = self.resolve(place.parent().ok_or(Errno::INVAL)?)?;
            let last = place.file_name().ok_or(Errno::INVAL)?;
            rustix::fs::mkdirat(&above, last, mode)?;
            // The mask of the process has no say.
            rustix::fs::chmodat(&above, last, mode, AtFlags::empty())?;
        }
        clone_tree(self.resolve(&home)?, "", NO_SUID | NO_DEVICES)
    }
}

/// Returns whether there is a view in a tree.
pub(super) fn has_views(tree: &[Entry]) -> bool {
    tree.iter().any(|entry| matches!(entry.place, Place::Overlay { .. }))
}

/// Returns a path inside as a name that no other path has.
fn as_one_name(path: &Path) -> String {
    let name = inside(path).as_os_str().as_bytes().escape_ascii().to_string();
    name.replace('%', "%25").replace('/', "%2F")
}

fn mount(lower: &[OwnedFd], layers: &OwnedFd) -> Result<(OwnedFd, LiveView), Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // By descriptor: a path may hold what separates options, and shows in /proc/self/mounts.
    let below = lower.iter().map(by_descriptor).collect::<Vec<_>>().join(":");
    let changes = by_descriptor(layers);
    fsconfig_set_string(&context, "source", "view")?;
    fsconfig_set_flag(&context, "userxattr")?;
    // Otherwise the end of the view writes the whole disk out, which takes seconds (Linux 5.10).
    fsconfig_set_flag(&context, "volatile")?;
    fsconfig_set_string(&context, "lowerdir", below)?;
    fsconfig_set_string(&context, "upperdir", format!("{changes}/upper"))?;
    fsconfig_set_string(&context, "workdir", format!("{changes}/work"))?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::from_bits_retain((NO_SUID | NO_DEVICES) as u32);
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    Ok((mount, LiveView::new(context, None)))
}

fn by_descriptor(place: impl AsFd) -> String {
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd())
}
