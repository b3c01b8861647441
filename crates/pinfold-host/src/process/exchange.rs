//! What comes out of a program until it ends.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

use pinfold_secrets::CommandOutput;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use zeroize::{Zeroize as _, Zeroizing};

use super::Bounds;

/// How long a program may go on after an interrupt. An engine that is killed while it makes a container forgets it: what it has
/// started goes on by itself, and nothing removes that.
const GRACE: Duration = Duration::from_secs(2);

/// How long to wait.
#[derive(Debug, Clone, Copy)]
struct Wait<'a> {
    deadline: Instant,
    /// Readable once nobody wants to wait any longer.
    interrupt: Option<&'a OwnedFd>,
}

/// Sees a program to its end, without a thread: a boundary may be started right after. After an
/// interrupt it has a moment to end by itself.
pub(crate) fn see_to_end(
    mut child: Child,
    bounds: Bounds,
    interrupt: Option<&OwnedFd>,
) -> io::Result<CommandOutput> {
    let wait = Wait { deadline: Instant::now() + bounds.patience, interrupt };
    let mut outputs = Outputs::of(&mut child, bounds.most);
    let ended = outputs.read(wait).and_then(|()| wait_for_end(&child, wait));
    if let Err(error) = &ended {
        if error.kind() == io::ErrorKind::Interrupted {
            let _ = let_finish(&child, &mut outputs);
        }
        // It has not been waited for, so the id is its own, and its group's if it leads one.
        let id = Pid::from_child(&child);
        let _ = match rustix::process::getpgid(Some(id)) {
            Ok(group) if group == id => {
                rustix::process::kill_process_group(id, Signal::KILL).map_err(io::Error::from)
            }
            _ => child.kill(),
        };
    }
    let status = child.wait()?;
    ended?;
    let [stdout, mut stderr] = outputs.read;
    Ok(CommandOutput { code: status.code(), stdout, stderr: std::mem::take(&mut *stderr) })
}

/// Gives a program [`GRACE`] to end. Its outputs are read: a program of Go's dies of writing to them otherwise.
fn let_finish(child: &Child, outputs: &mut Outputs) -> io::Result<()> {
    let process = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let deadline = Instant::now() + GRACE;
    // What it started may keep its outputs open.
    outputs.read(Wait { deadline, interrupt: Some(&process) })?;
    wait_for_end(child, Wait { deadline, interrupt: None })
}

/// A program's two outputs.
struct Outputs {
    streams: [Option<OwnedFd>; 2],
    read: [Zeroizing<Vec<u8>>; 2],
    most: usize,
}

impl Outputs {
    fn of(child: &mut Child, most: usize) -> Self {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams = [stdout.map(OwnedFd::from), stderr.map(OwnedFd::from)];
        Self { streams, read: [Zeroizing::new(Vec::new()), Zeroizing::new(Vec::new())], most }
    }

    /// Reads both until they are closed.
    ///
    /// # Errors
    /// Returns `TimedOut` at the deadline; `Interrupted`; `FileTooLarge` when one of them has more than the most bytes.
    fn read(&mut self, wait: Wait<'_>) -> io::Result<()> {
        while self.streams.iter().any(Option::is_some) {
            let open = self.streams.iter().flatten();
            wait.until(open.map(|stream| PollFd::new(stream, PollFlags::IN)).collect())?;
            for (stream, read) in self.streams.iter_mut().zip(&mut self.read) {
                if stream.as_ref().is_some_and(|stream| !read_some(stream, read)) {
                    *stream = None;
                }
                if read.len() > self.most {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
            }
        }
        Ok(())
    }
}

/// Reads what is there; whether more may come. What was read before an error is what there is.
fn read_some(stream: &OwnedFd, into: &mut Vec<u8>) -> bool {
    let now = Timespec::default();
    let is_ready = rustix::event::poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&now));
    if is_ready == Ok(0) {
        return true;
    }
    let mut buffer = [0; 16 << 10];
    match rustix::io::retry_on_intr(|| rustix::io::read(stream, &mut buffer[..])) {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            into.extend_from_slice(&buffer[..count]);
            // Only what was written to: most programs say a line.
            buffer[..count].zeroize();
            true
        }
    }
}

fn wait_for_end(child: &Child, wait: Wait<'_>) -> io::Result<()> {
    let process = Pid::from_child(child);
    let process = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    wait.until(vec![PollFd::new(&process, PollFlags::IN)])
}

impl Wait<'_> {
    /// Waits for one of these.
    ///
    /// # Errors
    /// Returns `TimedOut` at the deadline, and `Interrupted` once nobody wants to wait any longer.
    fn until<'a>(&'a self, mut wanted: Vec<PollFd<'a>>) -> io::Result<()> {
        let count = wanted.len();
        wanted.extend(self.interrupt.map(|interrupt| PollFd::new(interrupt, PollFlags::IN)));
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match rustix::event::poll(&mut wanted, Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) if wanted[..count].iter().all(|one| one.revents().is_empty()) => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
