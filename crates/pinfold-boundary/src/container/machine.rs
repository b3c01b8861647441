//! Init in a machine, where no engine starts it: the first process of the guest does.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use pinfold_wire::Channel;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::{INIT, SUBCOMMAND};
use crate::namespace::{Listeners, MOST_SIGNALS, Root};
use crate::plan::Door;
use crate::sys::{self, Side};

/// The first number that is no standard stream's.
const CHANNEL: i32 = 3;
/// All but the one for users, since the session's user is one of the guest's own, and the network, which is the
/// session's alone: the guest's first process serves doors in it.
const NAMESPACES: i32 =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
/// Open files of one process that the kernel allows by default (`fs.nr_open`, proc(5)).
const MOST_FILES: u64 = 1 << 20;
/// Where a socket is made before it lies in the tree: in memory of the guest's.
const MADE: &str = "/dev/shm/door";

/// What init is born as in a guest.
#[derive(Debug, Clone, Copy)]
pub struct Birth<'a> {
    /// The session's user and group.
    pub ids: (u32, u32),
    /// The name of the machine.
    pub hostname: &'a str,
    /// Whether the session may make namespaces of its own.
    pub is_nested: bool,
    /// The control group that it is born in, if there is one.
    pub group: Option<BorrowedFd<'a>>,
}

/// Returns the path at which a machine's tree has this program, to be started by [`start_init`].
#[must_use]
pub fn init_path() -> &'static str {
    INIT
}

/// Opens the doors of a plan in a guest, for this user and group. Returns the sockets with the numbers of their doors. The
/// caller is root of the guest, and the tree is its root.
///
/// # Errors
/// Returns the error of the socket that cannot be opened, or that the kernel does not hand connections over.
pub fn open_doors(doors: &[Door], ids: (u32, u32)) -> Result<Vec<(usize, OwnedFd)>, Errno> {
    sys::loopback_up()?;
    let mut opened = Vec::new();
    for (index, door) in doors.iter().enumerate() {
        let Listeners { sockets, paths, handed_over } =
            Listeners::open(std::slice::from_ref(door))?;
        if matches!(door, Door::Outward(_)) && !handed_over {
            return Err(Errno::OPNOTSUPP);
        }
        for (socket, path) in &paths {
            put_socket(&sockets[*socket], path.as_path(), ids)?;
        }
        opened.extend(sockets.into_iter().map(|socket| (index, socket)));
    }
    Ok(opened)
}

/// Has a socket listen at a path of the tree, which the guest cannot write to: it lies over what is there.
fn put_socket(socket: &OwnedFd, path: &Path, ids: (u32, u32)) -> Result<(), Errno> {
    pinfold_init::listen_at(socket, MADE.as_ref())?;
    let (uid, gid) = (Uid::from_raw(ids.0), Gid::from_raw(ids.1));
    rustix::fs::chown(MADE, Some(uid), Some(gid))?;
    rustix::mount::mount_bind(MADE, path)?;
    rustix::fs::unlink(MADE)
}

/// Starts init in namespaces of its own, and returns a descriptor of it. The caller is root of a guest and has one thread.
///
/// # Errors
/// Returns the error of `clone3(2)`. What fails later is seen as the end of the channel.
pub fn start_init(channel: Channel, birth: Birth<'_>) -> Result<OwnedFd, Errno> {
    match sys::clone_into(NAMESPACES as u64, birth.group)? {
        Side::Parent { child, .. } => Ok(child),
        Side::Child => {
            if birth.group.is_some() && sys::unshare(libc::CLONE_NEWCGROUP).is_err() {
                sys::exit(1)
            }
            let _ = become_init(&channel, birth);
            sys::exit(1)
        }
    }
}

fn become_init(channel: &Channel, birth: Birth<'_>) -> Result<Infallible, Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None)?;
    Root::narrow_kernel_files(birth.is_nested)?;
    rustix::system::sethostname(birth.hostname.as_bytes())?;
    let program = rustix::fs::open(INIT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // What a session may have is known to init, which can only lower it.
    sys::set_limit(libc::RLIMIT_NOFILE, sys::soft_limit(libc::RLIMIT_NOFILE), MOST_FILES)?;
    sys::set_limit(libc::RLIMIT_NPROC, libc::RLIM_INFINITY, libc::RLIM_INFINITY)?;
    sys::set_limit(libc::RLIMIT_SIGPENDING, MOST_SIGNALS, MOST_SIGNALS)?;
    sys::clear_bounding_set()?;
    sys::become_user(birth.ids.0, birth.ids.1)?;
    let text = |word: &str| CString::new(word).map_err(|_| Errno::INVAL);
    let words = [text(INIT)?, text(SUBCOMMAND)?, text(&CHANNEL.to_string())?];
    sys::execute(program.as_fd(), &words, &[], channel.as_fd(), CHANNEL)
}
