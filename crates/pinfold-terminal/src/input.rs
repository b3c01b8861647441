//! Standard input from a file: what the command has not read is there for the next reader.
//!
//! Only bytes cross, by a pipe (see `stdio`). The caller's descriptor is shared with its own caller
//! (`while read line; do pinfold run …; done <list`), and its offset with it. So the file's offset
//! is set back, at the end, by what is left in the pipe. The sandbox can put bytes of its own into
//! the pipe, so it is never set back behind where it was found.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// More than a pipe holds; sendfile(2) fills it.
const MOST: usize = 1 << 20;
/// What a pipe that takes anything takes whole (pipe(7), PIPE_BUF).
const ATOMIC: usize = 4096;

/// A file that is to be the sandbox's input.
pub(crate) struct FileInput {
    file: File,
    writer: File,
    /// Never read from; its length is what is left.
    left: OwnedFd,
}

/// The thread that feeds the sandbox; dropping it sets the offset back.
pub struct Feeding {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl FileInput {
    /// Makes an input of a file, and the end for the sandbox.
    ///
    /// # Errors
    /// Returns what pipe2(2), fcntl(2) and dup(2) say.
    pub(crate) fn new(file: OwnedFd) -> Result<(Self, OwnedFd), Errno> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        let left = rustix::io::fcntl_dupfd_cloexec(&reader, 3)?;
        Ok((Self { file: file.into(), writer: writer.into(), left }, reader))
    }

    /// Feeds the sandbox on a thread of its own.
    ///
    /// # Errors
    /// Returns the error of `pipe2(2)`, and starting a thread.
    pub(crate) fn start(self, stack: usize) -> io::Result<Feeding> {
        let (stopped, stop) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let thread =
            std::thread::Builder::new().stack_size(stack).spawn(move || self.feed(&stopped))?;
        Ok(Feeding { stop: Some(stop), thread: Some(thread) })
    }

    fn feed(mut self, stopped: &OwnedFd) {
        let mut sent = 0_u64;
        let mut by_hand = false;
        while wait(Some(&self.writer), stopped) {
            let step = if by_hand { self.copy() } else { self.send() };
            match step {
                Ok(0) => break,
                Ok(count) => sent += count as u64,
                // Files of /proc, for one, cannot be spliced.
                Err(Errno::INVAL) if !by_hand => by_hand = true,
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Unreadable: for the sandbox this is the end of its input, as it was always.
                Err(_) => break,
            }
        }
        // The sandbox sees the end of its input.
        drop(self.writer);
        while wait(None, stopped) {}
        let left = rustix::io::ioctl_fionread(&self.left).unwrap_or(0).min(sent);
        // Nobody is left who could be notified that a file cannot be set back.
        let _ = self.file.seek(SeekFrom::Current(-i64::try_from(left).unwrap_or(0)));
    }

    fn send(&self) -> Result<usize, Errno> {
        rustix::fs::sendfile(&self.writer, &self.file, None, MOST)
    }

    /// Returns a piece that the pipe, which has just said that it has room, takes whole or not at all.
    fn copy(&mut self) -> Result<usize, Errno> {
        let mut piece = [0; ATOMIC];
        let failed = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let count = self.file.read(&mut piece).map_err(failed)?;
        self.writer.write_all(&piece[..count]).map_err(|error| {
            let _ = self.file.seek(SeekFrom::Current(-(count as i64)));
            failed(error)
        })?;
        Ok(count)
    }
}

/// Waits until the pipe takes more; false when it is time to stop.
fn wait(writer: Option<&File>, stopped: &OwnedFd) -> bool {
    let mut ends = vec![PollFd::new(stopped, PollFlags::IN)];
    ends.extend(writer.map(|writer| PollFd::from_borrowed_fd(writer.as_fd(), PollFlags::OUT)));
    match rustix::event::poll(&mut ends, None) {
        Ok(_) => ends[0].revents().is_empty(),
        Err(errno) => errno == Errno::INTR,
    }
}

impl Drop for Feeding {
    fn drop(&mut self) {
        // Its end closes, which the thread sees.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own thread.
            let _ = thread.join();
        }
    }
}
