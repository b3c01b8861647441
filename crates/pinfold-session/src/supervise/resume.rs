//! `resumeCommands` (requirement 1.8): what runs inside before the command, at every start.
//!
//! Each runs in a fresh shell, which stops at the first failure (`set -eu`, and `pipefail` where
//! the shell has it), with the session's whole environment. What it leaves running stays; its
//! further output is dropped.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use pinfold_host::audit::{Audit, Purpose};
use pinfold_host::launcher::{Launcher, record_launch};
use pinfold_host::wrappers::{Launch, split_variable};
use pinfold_policy::origin::Valued;
use pinfold_policy::path::{Brief, HostPath};
use pinfold_policy::project::ResumeCommand;
use pinfold_policy::settings::WorkspaceMode;
use pinfold_terminal::notify;
use pinfold_terminal::sequences::plain_text;
use pinfold_wire::{Bounds, Ended, Program, StreamEnd, Streams};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::RunError;
use crate::supervise::{Supervision, last_words};

/// How much of a failed command's output is shown, in characters: MoltNet's number.
const SHOWN: usize = 800;
/// The most bytes that so many characters take.
const KEPT: usize = SHOWN * 4;
/// How much output is taken at once.
const CHUNK: usize = 64 * 1024;

/// Bash where the sandbox has it, since that is what people write for; else the system's shell.
pub(crate) const SHELL: &str = "\
if command -v bash >/dev/null 2>&1; then exec bash -euo pipefail -c \"$1\"; fi
set -eu
if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi
eval \"$1\"";

/// The commands of a start, and what they run in.
pub(crate) struct Resume<'a> {
    pub(crate) commands: &'a [Valued<ResumeCommand>],
    pub(crate) mode: WorkspaceMode,
    /// The command's environment, and what was added to it since (`NAME=VALUE`).
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) variables: &'a [Vec<u8>],
    pub(crate) cwd: &'a HostPath,
    pub(crate) audit: &'a Audit,
    pub(crate) launcher: &'a Launcher,
    pub(crate) boundary: &'static str,
}

/// A command that runs inside.
#[derive(Debug)]
pub(crate) struct Running {
    id: u32,
    /// Until its end is seen.
    output: Option<OwnedFd>,
    /// The end of what was read.
    tail: Vec<u8>,
    ended: Option<Ended>,
}

impl Resume<'_> {
    /// Returns the commands that run in this mode, each with its place in the list. Of the others it
    /// says that they do not.
    fn commands(&self) -> impl Iterator<Item = (usize, &ResumeCommand)> {
        let all = self.commands.iter().map(|command| &command.value).enumerate();
        all.filter(|(index, command)| {
            let runs = command.runs_in(self.mode);
            if !runs {
                notify!(
                    "pinfold: resumeCommands[{index}] is left out: it is not for {}",
                    self.mode
                );
            }
            runs
        })
    }

    fn launch(&self, command: &str) -> Launch {
        let words = ["/bin/sh", "-c", SHELL, "sh", command];
        let added: Vec<_> = self.variables.iter().filter_map(|one| split_variable(one)).collect();
        let own = self.env.iter().filter(|(name, _)| added.iter().all(|(other, _)| other != name));
        Launch {
            argv: words.map(OsString::from).to_vec(),
            env: own.cloned().chain(added.iter().cloned()).collect(),
            cwd: self.cwd.as_path().to_owned(),
            handled_by: Vec::new(),
        }
    }
}

impl Supervision {
    /// Runs the commands in order; false if the session ended before the last.
    ///
    /// # Errors
    /// Returns an error for a command that failed as often as it may.
    pub(crate) fn resume(&mut self, resume: &Resume<'_>) -> Result<bool, RunError> {
        for (index, command) in resume.commands() {
            notify!("pinfold: resumeCommands[{index}]: {}", Brief(command.run.as_ref()));
            let mut attempt = 0;
            loop {
                let launch =
                    resume.launcher.wrapped(resume.boundary, resume.launch(&command.run))?;
                record_launch(resume.audit, Purpose::Resume, &launch).map_err(RunError::System)?;
                let program = launch.into_program();
                let ran = self.run_command(index as u32, &program)?;
                let Some((ended, tail)) = ran else { return Ok(false) };
                if ended == Ended::Code(0) {
                    break;
                }
                if attempt == command.retries {
                    return Err(RunError::Resume { index, status: status(ended), tail });
                }
                attempt += 1;
                let wait = command.backoff.saturating_mul(attempt);
                notify!(
                    "pinfold: resumeCommands[{index}] failed (exit {}); again in {}",
                    status(ended),
                    humantime::format_duration(wait)
                );
                if !self.pause(wait)? {
                    return Ok(false);
                }
            }
        }
        self.state.timeline.done("runs resumeCommands");
        Ok(true)
    }

    /// Runs one to its end; none where the session ended first.
    fn run_command(
        &mut self,
        id: u32,
        program: &Program,
    ) -> Result<Option<(Ended, String)>, RunError> {
        let (output, theirs) = pipe().map_err(|errno| RunError::System(errno.into()))?;
        let nothing = File::open("/dev/null").map_err(RunError::System)?;
        let ends = [StreamEnd::Descriptor, StreamEnd::Descriptor, StreamEnd::Same(1)];
        let (streams, given) = (Streams::plain(ends), [nothing.as_fd(), theirs.as_fd()]);
        let sent = self.inside.run(id, Bounds::default(), program, streams, &given);
        sent.map_err(|_| last_words(&self.inside))?;
        drop((nothing, theirs));
        self.running = Some(Running { id, output: Some(output), tail: Vec::new(), ended: None });
        while self.running.as_ref().is_some_and(|running| running.ended.is_none()) {
            if !self.turn()? {
                self.running = None;
                return Ok(None);
            }
        }
        self.read_outputs();
        let Some(Running { output, tail, ended: Some(ended), .. }) = self.running.take() else {
            return Ok(None);
        };
        self.drained.extend(output);
        Ok(Some((ended, shown(&tail))))
    }

    /// Waits, and deals with everything that happens until then; false if the session ended.
    fn pause(&mut self, time: Duration) -> Result<bool, RunError> {
        let until = Instant::now().checked_add(time);
        self.state.waking = until;
        let mut lives = true;
        while lives && until.is_some_and(|until| Instant::now() < until) {
            lives = self.turn()?;
        }
        self.state.waking = None;
        Ok(lives)
    }

    /// Handles the end of a command.
    pub(crate) fn task_ended(&mut self, id: u32, ended: Ended) {
        if let Some(running) = self.running.as_mut().filter(|running| running.id == id) {
            running.ended = Some(ended);
        }
    }

    /// Returns the outputs that are read: the running command's, and those of what earlier ones left.
    pub(crate) fn outputs_of_tasks(&self) -> impl Iterator<Item = &OwnedFd> {
        let running = self.running.iter().filter_map(|running| running.output.as_ref());
        running.chain(&self.drained)
    }

    /// Takes what is there; keeps the end of the running command's.
    pub(crate) fn read_outputs(&mut self) {
        let mut buffer = vec![0; CHUNK];
        if let Some(running) = &mut self.running {
            while let Some(output) = &running.output {
                match rustix::io::read(output, &mut buffer) {
                    Ok(0) => running.output = None,
                    Ok(count) => {
                        running.tail.extend_from_slice(&buffer[..count]);
                        let surplus = running.tail.len().saturating_sub(KEPT);
                        running.tail.drain(..surplus);
                    }
                    Err(_) => break,
                }
            }
        }
        let is_open = |output: &OwnedFd| match rustix::io::read(output, &mut buffer) {
            Ok(count) => count > 0,
            Err(errno) => matches!(errno, Errno::AGAIN | Errno::INTR),
        };
        self.drained.retain(is_open);
    }
}

/// Returns a pipe of which only the reader does not wait.
fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

/// Returns the status that a shell would give.
fn status(ended: Ended) -> u8 {
    match ended {
        Ended::Code(code) => code,
        Ended::Signal(signal) => 128_u8.saturating_add(signal),
    }
}

/// Returns the last characters of an output, without what drives a terminal.
pub(crate) fn shown(output: &[u8]) -> String {
    let text = plain_text(output);
    let surplus = text.chars().count().saturating_sub(SHOWN);
    text.chars().skip(surplus).collect()
}
