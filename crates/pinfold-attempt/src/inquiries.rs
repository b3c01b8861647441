//! The socket by which the tools of an agent's session ask about their task. The worker answers: it alone can log in at the
//! source of the task.

use std::fs;
use std::io::{self, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_host::directories::Places;
use pinfold_host::ipc;
use pinfold_tasks::{AttemptQueue, Holder, Inquiry, Stop};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// How long a client may take to send or to read.
const PATIENCE: Duration = Duration::from_secs(30);

/// The socket of one attempt, which is gone when this is dropped.
pub(crate) struct InquirySocket {
    listener: UnixListener,
    path: PathBuf,
}

impl InquirySocket {
    /// Listens in a directory that only the user can enter.
    ///
    /// # Errors
    /// Returns the error of making the directory or the socket.
    pub(crate) fn open(places: &Places, holder: &Holder) -> io::Result<Self> {
        let directory = places.state.join("tasks").join("sockets");
        Places::make_private(&directory)?;
        let name = format!("{}-{}", holder.task, holder.attempt);
        let path = directory.join(&name);
        // A worker that was killed left it.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { listener: ipc::listen_stream(&directory, &name)?, path })
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Answers until `done` is set.
    pub(crate) fn serve(&self, queue: &dyn AttemptQueue, done: &Stop) {
        loop {
            let mut wanted = [
                PollFd::from_borrowed_fd(done.as_fd(), PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            match poll(&mut wanted, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !wanted[0].revents().is_empty() {
                return;
            }
            if let Ok((stream, _)) = self.listener.accept() {
                // A client that has gone learns nothing more.
                let _ = answer(&stream, queue);
            }
        }
    }
}

impl Drop for InquirySocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(stream: &UnixStream, queue: &dyn AttemptQueue) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut from, mut to) = (BufReader::new(stream), stream);
    Inquiry::serve(&mut from, &mut to, |inquiry, content| queue.inquire(inquiry, content))
}
