//! A program's standard streams, for a boundary that cannot pass a caller's own.
//!
//! What reads and writes them for the sandbox must not wait, and a file status flag is everybody's who has the file
//! (`O_NONBLOCK`, fcntl(2)). So each end is opened once more, in its own direction.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use pinfold_wire::{StreamEnd, Streams};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// Returns the ends that streams ask for, as files of this process's own. Sockets stay what they are.
///
/// # Errors
/// Returns the error of opening one.
pub(super) fn open_again(
    streams: &Streams,
    descriptors: &[BorrowedFd<'_>],
) -> Result<Vec<OwnedFd>, Errno> {
    let ends = streams.ends.iter().enumerate();
    let given = ends.filter(|(_, end)| matches!(end, StreamEnd::Descriptor));
    given.zip(descriptors).map(|((index, _), end)| reopen(*end, index == 0)).collect()
}

fn reopen(end: BorrowedFd<'_>, is_input: bool) -> Result<OwnedFd, Errno> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(end)?.st_mode);
    let wanted = if is_input { OFlags::RDONLY } else { OFlags::WRONLY };
    let flags = rustix::fs::fcntl_getfl(end)?;
    // A file's content never has to be waited for, and its position belongs to all that have it.
    let is_fit = kind == FileType::RegularFile && flags & OFlags::RWMODE == wanted;
    if kind == FileType::Socket || is_fit {
        return rustix::io::fcntl_dupfd_cloexec(end, 0);
    }
    let path = format!("/proc/self/fd/{}", end.as_raw_fd());
    let kept = flags & OFlags::APPEND;
    let how = wanted | kept | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, how, Mode::empty())?;
    if kind == FileType::RegularFile {
        let position = rustix::fs::seek(end, SeekFrom::Current(0))?;
        rustix::fs::seek(opened.as_fd(), SeekFrom::Start(position))?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests;
