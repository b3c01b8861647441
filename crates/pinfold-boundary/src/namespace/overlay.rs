//! A copy-on-write view of a directory (overlayfs, in a user namespace since Linux 5.11).
//!
//! The inside's own root mounts it, so the kernel does nothing for it that the inside's user may
//! not do, and keeps its notes in extended attributes of users (`userxattr`). For a caller who is
//! root both layers are idmapped mounts (Linux 5.19), so that files keep their owner.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, unmount,
};

use super::root::{Kind, NO_DEVICES, NO_SUID, OWN, Root, Source, clone_host, inside};

impl Root {
    /// Attaches a view of `lower` at a path; changes land in `layers`.
    ///
    /// # Errors
    /// What the mount calls say: `EINVAL` where the kernel or the file system of a layer cannot.
    pub(super) fn overlay(
        &self,
        path: &Path,
        lower: &Path,
        layers: &Path,
        source: Source,
    ) -> Result<(), Errno> {
        let (lower, layers) = match source {
            Source::Layers { lower, layers } => (lower, layers),
            Source::Child | Source::Detached(_) => {
                (clone_host(lower, true)?, clone_host(layers, true)?)
            }
        };
        // Before Linux 6.15 a layer has to be attached in the namespace of who mounts the view.
        // The view holds clones of its own, so the stage goes at once.
        let stage = Path::new(OWN).join("layers");
        self.put(&lower, &stage.join("lower"), Kind::Directory)?;
        self.put(&layers, &stage.join("changes"), Kind::Directory)?;
        let view = mount(&lower, &layers)?;
        for layer in [lower, layers] {
            unmount(by_descriptor(&layer), UnmountFlags::DETACH)?;
        }
        self.put(view, inside(path), Kind::Directory)
    }
}

fn mount(lower: &OwnedFd, layers: &OwnedFd) -> Result<OwnedFd, Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // By descriptor: a path may hold what separates options, and shows in /proc/self/mounts.
    let changes = by_descriptor(layers);
    fsconfig_set_string(&context, "source", "workspace")?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_set_string(&context, "lowerdir", by_descriptor(lower))?;
    fsconfig_set_string(&context, "upperdir", format!("{changes}/upper"))?;
    fsconfig_set_string(&context, "workdir", format!("{changes}/work"))?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::from_bits_retain((NO_SUID | NO_DEVICES) as u32);
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn by_descriptor(place: impl AsFd) -> String {
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd())
}
