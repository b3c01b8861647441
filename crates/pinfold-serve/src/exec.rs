//! A program that runs in a session, with its outputs sent as they come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_client::api::{Ended, ExecLimit, ExecLimits, Program, Stream, TerminalSize};
use pinfold_client::{Fault, code};
use pinfold_session::control::{self, Exec, ExecEnd, Limits, Running, Session};
use pinfold_session::{LimitReached, RunError};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// Bytes that are sent at once: as many as a pipe holds (pipe(7)).
const CHUNK: usize = 64 * 1024;
/// After its end: how long nothing may come until what others still hold is let go,
const QUIET: Duration = Duration::from_millis(50);
/// and how long something may.
const LINGER: Duration = Duration::from_secs(2);

/// Something that runs.
pub(crate) struct Job {
    /// By which it can be signalled.
    pub(crate) running: Arc<Running>,
    /// Its input, if it has one.
    pub(crate) input: Option<OwnedFd>,
    outputs: [Output; 2],
    /// Its end, if that was heard of while its terminal was waited for.
    ended: Option<Result<Ended, Fault>>,
}

/// One of its outputs.
struct Output {
    stream: Stream,
    pipe: Option<OwnedFd>,
    /// The beginning of a character whose end has not come.
    begun: Vec<u8>,
}

impl Job {
    /// Starts a program in a session.
    ///
    /// # Errors
    /// Returns an error for a session that has ended, a variable that may not be set, no more
    /// descriptors.
    pub(crate) fn start(session: &Session, program: Program, input: bool) -> Result<Self, Fault> {
        let exec = exec(program)?;
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(system);
        let (theirs, own) = if input {
            pipe().map(|(reader, writer)| (reader, Some(writer)))?
        } else {
            let null =
                rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            (null.map_err(system)?, None)
        };
        let ((stdout, out), (stderr, err)) = (pipe()?, pipe()?);
        let running = session.start(exec, [theirs, out, err]).map_err(fault)?;
        Ok(Self::of(running, own, [Some(stdout), Some(stderr)]))
    }

    /// Starts a program in a terminal. It has neither input nor output before that is
    /// [open](Self::open_terminal).
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`].
    pub(crate) fn start_in_terminal(
        session: &Session,
        program: Program,
        size: TerminalSize,
    ) -> Result<Self, Fault> {
        let running = session.start_in_terminal(exec(program)?, (size.rows, size.columns));
        Ok(Self::of(running.map_err(fault)?, None, [None, None]))
    }

    fn of(running: Running, input: Option<OwnedFd>, pipes: [Option<OwnedFd>; 2]) -> Self {
        let [stdout, stderr] = pipes;
        let output = |stream, pipe| Output { stream, pipe, begun: Vec::new() };
        let outputs = [output(Stream::Stdout, stdout), output(Stream::Stderr, stderr)];
        Self { running: Arc::new(running), input, outputs, ended: None }
    }

    /// Waits for its terminal, or its end.
    ///
    /// # Errors
    /// Returns an error if there is no more descriptors.
    pub(crate) fn open_terminal(&mut self) -> Result<(), Fault> {
        loop {
            if let Some(terminal) = self.running.terminal() {
                let duplicate =
                    |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(system);
                // A process that waits in write(2) for room is not always woken when the sandbox
                // has gone (pty(7) promises nothing); poll(2) says so.
                rustix::io::ioctl_fionbio(terminal, true).map_err(system)?;
                self.input = Some(duplicate(terminal)?);
                self.outputs[0].pipe = Some(duplicate(terminal)?);
                return Ok(());
            }
            if let Some(end) = self.hear() {
                self.ended = Some(end);
                return Ok(());
            }
        }
    }

    /// Takes one word of it; its end if that was it.
    fn hear(&self) -> Option<Result<Ended, Fault>> {
        let heard = self.running.hear().map_err(fault).transpose()?;
        Some(heard.map(ended_as))
    }

    /// Tells what it writes until it has ended. What it has left running keeps nobody waiting.
    ///
    /// # Errors
    /// Returns an error for a command that cannot be executed; a session that has ended; somebody who
    /// does not listen any more: then it is ended.
    pub(crate) fn until_end(
        mut self,
        mut report: impl FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> Result<Ended, Fault> {
        let mut ended = self.ended.take().map(|end| (end, Instant::now()));
        loop {
            let is_over = |at: &Instant| at.elapsed() >= LINGER;
            let has_none = self.outputs.iter().all(|output| output.pipe.is_none());
            if let Some((end, _)) = ended.take_if(|(_, at)| has_none || is_over(at)) {
                return end;
            }
            let ready = self.wait(ended.is_some())?;
            if let Some((end, _)) = ended.take_if(|_| !ready.contains(&true)) {
                self.outputs
                    .iter_mut()
                    .try_for_each(|output| output.finish(&mut report))
                    .map_err(gone)?;
                return end;
            }
            for (output, _) in self.outputs.iter_mut().zip(&ready[1..]).filter(|(_, is)| **is) {
                if let Err(error) = output.read(&mut report) {
                    self.running.kill();
                    return Err(gone(error));
                }
            }
            if ready[0] {
                ended = self.hear().map(|end| (end, Instant::now()));
            }
        }
    }

    /// Returns whether its end, and each output, has something to say.
    fn wait(&self, has_ended: bool) -> Result<[bool; 3], Fault> {
        let mut ready = Vec::with_capacity(3);
        let mut who = Vec::with_capacity(3);
        if !has_ended {
            ready.push(PollFd::from_borrowed_fd(self.running.as_fd(), PollFlags::IN));
            who.push(0);
        }
        for (index, output) in self.outputs.iter().enumerate() {
            if let Some(pipe) = &output.pipe {
                ready.push(PollFd::new(pipe, PollFlags::IN));
                who.push(index + 1);
            }
        }
        let quiet = Timespec { tv_sec: 0, tv_nsec: QUIET.subsec_nanos().into() };
        let polled = rustix::io::retry_on_intr(|| {
            rustix::event::poll(&mut ready, has_ended.then_some(&quiet))
        });
        polled.map_err(|errno| gone(errno.into()))?;
        let mut is = [false; 3];
        for (ready, who) in ready.iter().zip(who) {
            is[who] = !ready.revents().is_empty();
        }
        Ok(is)
    }
}

impl Output {
    /// Sends what there is. Characters are sent whole, so that text stays text.
    fn read(&mut self, report: &mut impl FnMut(Stream, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let begun = self.begun.len();
        let mut buffer = std::mem::take(&mut self.begun);
        buffer.resize(begun + CHUNK, 0);
        let read = rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut buffer[begun..]));
        let count = match read {
            // How a terminal whose other side is closed says so (pty(7)).
            Err(Errno::IO) => 0,
            Err(Errno::AGAIN) => {
                buffer.truncate(begun);
                self.begun = buffer;
                return Ok(());
            }
            read => read?,
        };
        buffer.truncate(begun + count);
        if count == 0 {
            self.pipe = None;
        } else {
            self.begun = buffer.split_off(whole(&buffer));
        }
        if buffer.is_empty() { Ok(()) } else { report(self.stream, &buffer) }
    }

    fn finish(
        &mut self,
        report: &mut impl FnMut(Stream, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() { Ok(()) } else { report(self.stream, &begun) }
    }
}

/// Returns bytes without the beginning of a UTF-8 character that is cut short.
fn whole(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).position(|byte| byte & 0xc0 != 0x80);
    let Some(after) = last else { return bytes.len() };
    let at = bytes.len() - 1 - after;
    let length = match bytes[at] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if after + 1 < length { at } else { bytes.len() }
}

fn exec(program: Program) -> Result<Exec, Fault> {
    let mut env = Vec::new();
    for (name, value) in &program.env {
        env.push(control::variable(name, value).map_err(fault)?);
    }
    if program.timeout_ms == Some(0) {
        let what = "timeoutMs: expected 1 at least; leave it out for no limit";
        return Err(Fault::new(code::PARAMS, what));
    }
    let ExecLimits { memory, pids, milli_cpus: cpus } = program.limits;
    Ok(Exec {
        argv: program.argv.into_iter().map(Into::into).collect(),
        env,
        cwd: program.cwd.filter(|cwd| *cwd != PathBuf::new()),
        timeout: program.timeout_ms.map(Duration::from_millis),
        limits: Limits { memory, pids, cpus },
        ..Exec::default()
    })
}

fn system(errno: Errno) -> Fault {
    gone(errno.into())
}

fn gone(error: io::Error) -> Fault {
    Fault::refused(error.to_string(), None)
}

/// Returns what a session says, as a fault.
pub(crate) fn fault(error: RunError) -> Fault {
    Fault::refused(error.to_string(), error.hint().as_deref())
}

/// The last bytes of something.
pub(crate) struct Tail {
    bytes: Vec<u8>,
    most: usize,
    /// How many went.
    pub(crate) dropped: u64,
}

impl Tail {
    pub(crate) fn of(most: usize) -> Self {
        Self { bytes: Vec::new(), most, dropped: 0 }
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
        // Moved seldom: as much again may stand before what is kept.
        if self.bytes.len() > 2 * self.most {
            self.cut();
        }
    }

    pub(crate) fn finish(mut self) -> (Vec<u8>, u64) {
        self.cut();
        (self.bytes, self.dropped)
    }

    fn cut(&mut self) {
        let excess = self.bytes.len().saturating_sub(self.most);
        self.bytes.drain(..excess);
        self.dropped += excess as u64;
    }
}

fn ended_as(end: ExecEnd) -> Ended {
    let limit = end.limit.and_then(|limit| match limit {
        LimitReached::Timeout => Some(ExecLimit::Timeout),
        LimitReached::Memory => Some(ExecLimit::Memory),
        LimitReached::Pids => Some(ExecLimit::Pids),
        // Those are of whole sessions.
        LimitReached::Disk
        | LimitReached::Files
        | LimitReached::Overlay
        | LimitReached::Build
        | LimitReached::Room => None,
    });
    Ended { status: end.status, timed_out: limit == Some(ExecLimit::Timeout), limit }
}

#[cfg(test)]
mod tests {
    use super::{Tail, whole};

    #[test]
    fn a_tail_keeps_the_last_bytes_and_counts_the_others() {
        let mut tail = Tail::of(3);
        for byte in b"abcdefgh" {
            tail.push(&[*byte]);
        }
        assert_eq!(tail.finish(), (b"fgh".to_vec(), 5));
        let mut none = Tail::of(0);
        none.push(b"xy");
        assert_eq!(none.finish(), (Vec::new(), 2));
    }

    #[test]
    fn characters_are_sent_whole() {
        let text = "aé€😀".as_bytes();
        let borders = [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10];
        for (end, border) in borders.into_iter().enumerate() {
            assert_eq!(whole(&text[..end]), border, "{end}");
        }
        assert_eq!(whole(b"\xff\xfe\x80\x80"), 4);
        assert_eq!(whole(b"a\x80\x80\x80\x80"), 5);
    }
}
