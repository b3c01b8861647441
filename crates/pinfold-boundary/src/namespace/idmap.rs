//! Idmapped mounts (mount_setattr(2), Linux 5.12): on this mount alone, files of their owner belong
//! to the sandbox's user, and what the sandbox makes belongs to the owner.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};

use super::identity::write_at;
use crate::sys::{self, Side};

/// Returns whether nobody but its owner and group may read a mount's root, or look into it.
pub(super) fn is_closed(mount: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(mount).is_ok_and(|stat| {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let needed = if is_directory { Mode::ROTH | Mode::XOTH } else { Mode::ROTH };
        !Mode::from_raw_mode(stat.st_mode).contains(needed)
    })
}

/// Maps the owner and group of a detached mount's root to the host id `shown`; nothing is to be
/// done where they are it already.
///
/// # Errors
/// Returns `EINVAL` where the file system does not know idmapped mounts: run as an ordinary user then.
pub(super) fn show_owner_as(mount: BorrowedFd<'_>, shown: u32) -> io::Result<()> {
    let stat = rustix::fs::fstat(mount)?;
    if (stat.st_uid, stat.st_gid) == (shown, shown) {
        return Ok(());
    }
    let namespace = mapping((stat.st_uid, stat.st_gid), shown)?;
    let mut attributes = sys::attributes(libc::MOUNT_ATTR_IDMAP, 0);
    attributes.userns_fd = namespace.as_raw_fd() as u64;
    sys::mount_setattr(mount, true, &attributes).map_err(|errno| {
        io::Error::new(
            io::Error::from(errno).kind(),
            format!(
                "its file system cannot show files under another owner ({errno}); run pinfold as \
                 the owner of these files instead of root"
            ),
        )
    })
}

/// Returns a user namespace that maps these ids on disk to `shown`. It needs a process to be born in it,
/// which ends at once.
fn mapping(on_disk: (u32, u32), shown: u32) -> io::Result<OwnedFd> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (child, pid) = match sys::clone_into(libc::CLONE_NEWUSER as u64, None)? {
        Side::Parent { child, pid } => (child, pid),
        Side::Child => {
            drop(writer);
            // Ends when the parent closes its side, also by dying.
            let _ = rustix::io::read(&reader, &mut [0_u8; 1]);
            // SAFETY: _exit(2) has no preconditions.
            unsafe { libc::_exit(0) }
        }
    };
    let opened = map_and_open(pid, on_disk, shown);
    drop(writer);
    let wait = rustix::process::WaitIdOptions::EXITED;
    rustix::process::waitid(rustix::process::WaitId::PidFd(child.as_fd()), wait)?;
    opened
}

fn map_and_open(pid: u32, on_disk: (u32, u32), shown: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty())?;
    write_at(&directory, "uid_map", format!("{} {shown} 1", on_disk.0).as_bytes())?;
    write_at(&directory, "gid_map", format!("{} {shown} 1", on_disk.1).as_bytes())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&directory, "ns/user", flags, Mode::empty())?)
}
