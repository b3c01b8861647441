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
    /// Readable once the user wants to wait no longer.
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
    let ended = read_outputs(&mut child, wait, bounds.most)
        .and_then(|read| wait_for_end(&child, wait).map(|()| read));
    if ended.is_err() {
        if ended.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
            let _ =
                wait_for_end(&child, Wait { deadline: Instant::now() + GRACE, interrupt: None });
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
    let [stdout, mut stderr] = ended?;
    Ok(CommandOutput { code: status.code(), stdout, stderr: std::mem::take(&mut *stderr) })
}

/// Reads a program's two outputs until they are closed.
///
/// # Errors
/// Returns `TimedOut` at the deadline; `Interrupted`; `FileTooLarge` when one of them has more than the most bytes.
fn read_outputs(
    child: &mut Child,
    wait: Wait<'_>,
    most: usize,
) -> io::Result<[Zeroizing<Vec<u8>>; 2]> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut streams = [stdout.map(OwnedFd::from), stderr.map(OwnedFd::from)];
    let mut read = [Zeroizing::new(Vec::new()), Zeroizing::new(Vec::new())];
    while streams.iter().any(Option::is_some) {
        let outputs = streams.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN));
        wait.until(outputs.collect())?;
        for (stream, read) in streams.iter_mut().zip(&mut read) {
            if stream.as_ref().is_some_and(|stream| !read_some(stream, read)) {
                *stream = None;
            }
            if read.len() > most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
    }
    Ok(read)
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
    /// Returns `TimedOut` at the deadline, and `Interrupted` once the user wants to wait no longer.
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
