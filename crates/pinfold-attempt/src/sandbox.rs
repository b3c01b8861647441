//! One `pinfold run`: its output goes to the log, and a signal ends it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use pinfold_host::launcher::start_held;
use pinfold_host::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde::Deserialize;

use crate::failed::Failed;
use crate::log::{Log, Tail};

/// How long a run may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(30);
/// How often output is read before signals are looked at again: a program that never stops printing must not
/// hide them.
/// What a pipe holds at most (1 MiB, pipe(7)) is read at the end.
const READS: usize = 80;

/// Starts runs one after the other.
pub(crate) struct Sandboxes {
    /// The directory of the repository.
    directory: PathBuf,
    /// Variables that runs do not get.
    pub(crate) hidden: &'static [&'static str],
    log: Log,
    /// The file that a run writes its end to.
    result: PathBuf,
    /// What asks this process to end.
    signals: OwnedFd,
}

/// How a run ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The exit status.
    pub(crate) status: u8,
    /// What it said of its end; none if it could not be started.
    pub(crate) result: Option<RunResult>,
    /// The end of what it printed.
    pub(crate) tail: Tail,
    /// How long it took.
    pub(crate) took: Duration,
}

/// What `pinfold run --result` writes.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) limit: Option<String>,
    pub(crate) usage: RunUsage,
    /// What came back of a specification, if there was one.
    pub(crate) spec: Option<RunSpec>,
}

/// What came back of a specification.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RunSpec {
    pub(crate) text: Option<String>,
    /// What is wrong with it, in words that follow "it".
    pub(crate) problem: Option<String>,
}

/// What a run used of models.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunUsage {
    pub(crate) requests: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    pub(crate) cache_write_tokens: u64,
    pub(crate) usd: f64,
}

impl Sandboxes {
    /// Returns runs in a directory. From here on signals that ask this process to end are read from a descriptor.
    ///
    /// # Errors
    /// Returns the error of making the log or the descriptor.
    pub(crate) fn new(directory: &Path, log: &Path) -> io::Result<Self> {
        let result = log.with_extension("result");
        let signals = sys::stop_events()?;
        let (directory, log) = (directory.to_owned(), Log::open(log)?);
        Ok(Self { directory, hidden: &[], log, result, signals })
    }

    /// Runs a sandbox to its end.
    ///
    /// # Errors
    /// Returns that this process was asked to end, or what kept the program from being started.
    pub(crate) fn run(
        &mut self,
        heading: &str,
        options: Vec<OsString>,
        what: Vec<OsString>,
    ) -> Result<Ended, Failed> {
        let directory = self.directory.clone();
        self.run_in(&directory, heading, options, what)
    }

    /// Does the same in another directory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::run`].
    pub(crate) fn run_in(
        &mut self,
        directory: &Path,
        heading: &str,
        options: Vec<OsString>,
        what: Vec<OsString>,
    ) -> Result<Ended, Failed> {
        if sys::next_signal(&self.signals).is_some() {
            return Err(Failed::Stopped);
        }
        self.log.heading(heading);
        let mut arguments: Vec<OsString> = vec!["run".into(), "--result".into()];
        arguments.push(self.result.clone().into());
        arguments.extend(options);
        arguments.extend(what);
        let began = Instant::now();
        let system = |error: io::Error| Failed::transient("executor_threw", error.to_string());
        let (output, its) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system(errno.into()))?;
        rustix::io::ioctl_fionbio(&output, true).map_err(|errno| system(errno.into()))?;
        let child = start_held(&arguments, directory, self.hidden, its).map_err(system)?;
        let (status, tail) = self.watch(child, &output).map_err(system)?;
        let result =
            fs::read(&self.result).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        // The next one makes it again.
        let _ = fs::remove_file(&self.result);
        let status = status.ok_or(Failed::Stopped)?;
        // Its process never ends by a signal by itself: the machine or a user ended it, which says nothing of the task.
        if let Some(signal) = status.signal() {
            let what = format!("`pinfold run` was ended by signal {signal}");
            return Err(Failed::transient("run_lost", what));
        }
        let status = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
        Ok(Ended { status, result, tail, took: began.elapsed() })
    }

    /// Watches a run from its start to its end. Returns no status for one that was ended because this process
    /// is to end.
    fn watch(
        &mut self,
        mut child: Child,
        output: &OwnedFd,
    ) -> io::Result<(Option<ExitStatus>, Tail)> {
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let mut tail = Tail::default();
        let mut deadline: Option<Instant> = None;
        let (mut is_open, mut has_ended) = (true, false);
        // What it leaves behind may hold the pipe: only what it printed itself is waited for.
        while !has_ended {
            let mut wanted = vec![
                PollFd::new(&process, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            if is_open {
                wanted.push(PollFd::new(output, PollFlags::IN));
            }
            let left = deadline
                .map(|deadline| deadline.saturating_duration_since(Instant::now()))
                .and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut wanted, left.as_ref()) {
                Ok(0) => {
                    let _ = kill_process(Pid::from_child(&child), Signal::KILL);
                    deadline = None;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            has_ended = !wanted[0].revents().is_empty();
            if sys::next_signal(&self.signals).is_some() && deadline.is_none() {
                deadline = Some(Instant::now() + GRACE);
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            is_open = is_open && self.take(output, &mut tail);
        }
        let status = child.wait()?;
        let was_asked = deadline.is_some() || sys::next_signal(&self.signals).is_some();
        Ok(((!was_asked).then_some(status), tail))
    }

    /// Passes on what is there. Returns whether more may come.
    fn take(&mut self, output: &OwnedFd, tail: &mut Tail) -> bool {
        let mut buffer = [0; 16 << 10];
        for _ in 0..READS {
            match rustix::io::read(output, &mut buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    self.log.write(&buffer[..count]);
                    tail.add(&buffer[..count]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}
