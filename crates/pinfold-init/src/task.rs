//! Programs that run next to the command, each with a process of its own above it.
//!
//! That process, a copy of init, leads the session of the task's terminal and is the one to which
//! whatever the task leaves behind is handed (PR_SET_CHILD_SUBREAPER, prctl(2)). So a task can be
//! ended with everything that it has started, however often that has forked, and job control
//! works in it as for the command. It reports on the task to the supervisor by itself, on init's channel, and
//! goes when nothing of the task is left.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use pinfold_wire::{Bounds, Channel, Report, Step};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, setrlimit};

use crate::command::Prepared;
use crate::fds::close_all_but;
use crate::gvisor;
use crate::relay::Relay;
use crate::run::ended;
use crate::stdio::{self, Streams, Terminal};
use crate::surroundings::Surroundings;
use crate::tree;
use crate::watch::PartWatch;
use crate::{Command, Failure};

/// How soon to look again for processes that a task has forked while it is being ended.
pub(crate) const AGAIN: Duration = Duration::from_millis(2);

/// A program that runs next to the command.
pub(crate) struct Task {
    id: u32,
    /// The process above it, which reports on it to the supervisor.
    minder: Pid,
    is_ending: bool,
    /// Limits of its own that no control group enforces.
    watch: Option<PartWatch>,
    /// Closed by the minder when what was asked for has ended; something that it has left may still run.
    ended: Option<OwnedFd>,
    /// Closed by the minder when the program runs.
    begun: OwnedFd,
    /// Signals that came before.
    early: Vec<Signal>,
}

impl Task {
    /// Starts one. The controlling side of its terminal goes to the supervisor.
    ///
    /// # Errors
    /// Returns an error for a command without words, or what the system says.
    pub(crate) fn start(
        id: u32,
        bounds: Bounds,
        groups: Vec<OwnedFd>,
        command: Command,
        mut streams: Streams,
        supervisor: &Channel,
        around: &Arc<Surroundings>,
    ) -> Result<Self, Failure> {
        let prepared = command.prepare(around)?;
        let what = b"with limits of its own (this kernel does not show what each process uses)";
        let watch = PartWatch::new(bounds).map_err(Failure::about(Step::Limits, what))?;
        let terminal = Terminal::open(&streams).map_err(Failure::at(Step::Terminal))?;
        let line = streams.take_line();
        if let (Some(terminal), None) = (&terminal, &line) {
            // Before anything that runs there can report its end.
            let report = Report::TaskTerminal(id);
            let sent = supervisor.send(&report, &[terminal.controller.as_fd()]);
            sent.map_err(|_| Failure::at(Step::Terminal)(Errno::PIPE))?;
        }
        let pipe =
            || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Failure::at(Step::Execute));
        let ((ended, tell), (begun, begin)) = (pipe()?, pipe()?);
        let minder = crate::vfork::copy(|| {
            let prepared = &prepared;
            let minder = Minder { id, tell, begin, prepared, groups: &groups, supervisor };
            let minded = bound(bounds).and_then(|()| minder.mind(streams, terminal, line));
            if let Err(failure) = minded {
                let _ = supervisor.send(&failure.report_of(id), &[]);
            }
        })
        .map_err(Failure::at(Step::Execute))?;
        let (ended, early) = (Some(ended), Vec::new());
        Ok(Self { id, minder, is_ending: false, watch, ended, begun, early })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the process above it. The sandbox can signal it; that it goes by itself means that
    /// nothing of the task is left, and that it is killed ends the sandbox: its task could not be ended
    /// any more.
    pub(crate) fn minder(&self) -> Pid {
        self.minder
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_none()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Returns a descriptor that is readable when what was asked for has ended, or runs and has signals waiting,
    /// until [`Self::go_on`].
    pub(crate) fn news(&self) -> Option<BorrowedFd<'_>> {
        if self.early.is_empty() {
            return self.ended.as_ref().map(OwnedFd::as_fd);
        }
        Some(self.begun.as_fd())
    }

    /// Ends what was forked since it was asked to end, and notices its end.
    pub(crate) fn go_on(&mut self) {
        if self.is_ending {
            tree::kill_below(self.minder, None);
        }
        if !self.early.is_empty() && is_closed(&self.begun) {
            let early = std::mem::take(&mut self.early);
            early.into_iter().for_each(|signal| self.pass(signal));
        }
        self.ended.take_if(|ended| is_closed(ended));
    }

    /// Returns how long to wait at most before the next look at its limits.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.watch.as_ref().map(PartWatch::patience)
    }

    /// Checks its limits when that is due, and ends it when it has reached one. That is reported
    /// before its minder reports its end.
    fn look(&mut self, all: &tree::Processes, supervisor: &Channel) {
        let watch = self.watch.as_mut();
        if let Some(limit) = watch.and_then(|watch| watch.look(|| all.below(self.minder))) {
            self.watch = None;
            let _ = supervisor.send(&Report::TaskLimit { id: self.id, limit }, &[]);
            self.end();
        }
    }

    /// Signals the process groups that the task's own children lead, once there is one.
    pub(crate) fn signal(&mut self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        if is_closed(&self.begun) {
            self.pass(signal);
        } else {
            add(signal, &mut self.early);
        }
    }

    fn pass(&self, signal: Signal) {
        for child in tree::children(self.minder) {
            // A group that has just ended needs no signal.
            let _ = rustix::process::kill_process_group(child, signal);
        }
    }

    /// Ends everything that belongs to it, from now until nothing is left.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        tree::kill_below(self.minder, None);
    }
}

/// Adds a signal to those that wait. Each waits once, as those of a process do (signal(7)), so a window that changes often
/// takes no other's room; the last of several counts, as between SIGTSTP and SIGCONT.
fn add(signal: Signal, early: &mut Vec<Signal>) {
    early.retain(|other| *other != signal);
    early.push(signal);
}

/// Looks at the limits of these when it is time to.
pub(crate) fn look_at(tasks: &mut [Task], supervisor: &Channel) {
    if tasks.iter().filter_map(Task::patience).any(|left| left == Duration::ZERO) {
        let all = tree::Processes::look();
        tasks.iter_mut().for_each(|task| task.look(&all, supervisor));
    }
}

/// Ends everything inside but this process, which is the first, and one other.
pub(crate) fn end_all_but(spared: Pid) {
    tree::kill_below(rustix::process::getpid(), Some(spared));
}

/// Puts this process, and what it starts, behind limits of their own.
fn bound(Bounds { files, nice, .. }: Bounds) -> Result<(), Failure> {
    if let Some(files) = files {
        let most = getrlimit(Resource::Nofile).maximum;
        if let Some(most) = most.filter(|most| *most < files) {
            let what = format!("with {files} open files, where the session has {most},");
            return Err(Failure::about(Step::Execute, what.as_bytes())(Errno::INVAL));
        }
        let limit = Rlimit { current: Some(files), maximum: Some(files) };
        setrlimit(Resource::Nofile, limit).map_err(Failure::at(Step::Limits))?;
    }
    if nice > 0 {
        rustix::process::nice(nice.into()).map_err(Failure::at(Step::Limits))?;
    }
    Ok(())
}

/// Moves this process into control groups, of whose files these are. That it writes 0 for itself is
/// what needs no sight of its number outside; that the files were opened by the supervisor is what lets
/// it (Linux 5.16 looks at who opened them).
fn join(groups: &[OwnedFd]) -> Result<(), Failure> {
    groups.iter().try_for_each(|group| {
        let failed = Failure::about(Step::Execute, b"in a control group of its own");
        rustix::io::write(group, b"0").map(drop).map_err(failed)
    })
}

/// The process above a task. It stays out of the task's groups, so that the kernel never ends it for them.
struct Minder<'a> {
    id: u32,
    /// Closed when what was asked for has ended.
    tell: OwnedFd,
    /// Closed when the program runs.
    begin: OwnedFd,
    prepared: &'a Prepared,
    groups: &'a [OwnedFd],
    supervisor: &'a Channel,
}

impl Minder<'_> {
    /// Minds the task until nothing of it is left.
    fn mind(
        self,
        streams: Streams,
        terminal: Option<Terminal>,
        line: Option<Channel>,
    ) -> Result<(), Failure> {
        let Self { id, tell, begin, prepared, groups, supervisor } = self;
        stdio::lead_session(terminal.as_ref()).map_err(Failure::at(Step::Terminal))?;
        let mut relay = terminal
            .as_ref()
            .zip(line.as_ref())
            .map(|(terminal, line)| Relay::start(terminal, line))
            .transpose()
            .map_err(Failure::at(Step::Terminal))?;
        let kept: Vec<BorrowedFd<'_>> = streams
            .descriptors()
            .chain(terminal.iter().map(|terminal| terminal.user.as_fd()))
            .chain(groups.iter().map(AsFd::as_fd))
            .chain(prepared.wall())
            .chain(held(&relay))
            .chain([supervisor.as_fd(), tell.as_fd(), begin.as_fd()])
            .collect();
        close_all_but(&kept)
            .and_then(|()| gvisor::adopt_orphans())
            .map_err(Failure::at(Step::Execute))?;
        let command = crate::vfork::spawn(|| {
            let failure = match join(groups) {
                Ok(()) => prepared.become_command(&streams, terminal.as_ref()),
                Err(failure) => failure,
            };
            let _ = supervisor.send(&failure.report_of(id), &[]);
        })
        .map_err(Failure::at(Step::Execute))?;
        // Their other sides are to see the end when the task's own copies have gone.
        std::mem::forget((streams, terminal, line, begin));
        let own = [supervisor.as_fd(), tell.as_fd()].into_iter().chain(held(&relay));
        close_all_but(&own.collect::<Vec<_>>()).map_err(Failure::at(Step::Execute))?;
        let (mut tell, mut over) = (Some(tell), None);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::UNTRACED) {
            if pid == command {
                if status.stopping_signal().is_some() {
                    supervisor.mention(&Report::TaskStopped(id));
                    continue;
                }
                over = Some(Report::TaskEnded { id, ended: ended(status) });
                if let Some(relay) = &mut relay {
                    relay.end();
                }
            }
            relay.take_if(|relay| relay.is(pid) && relay.has_ended(status));
            // All that it wrote has been shown by now.
            if relay.is_none()
                && let Some(report) = over.take()
            {
                let _ = supervisor.send(&report, &[]);
                drop(tell.take());
            }
        }
        Ok(())
    }
}

/// Returns what the minder keeps open for a relay.
fn held(relay: &Option<Relay>) -> Option<BorrowedFd<'_>> {
    relay.as_ref().and_then(Relay::held).map(AsFd::as_fd)
}

/// Returns whether nobody has the other end any more.
fn is_closed(end: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(end, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ready, Some(&at_once)) == Ok(1)
}

#[cfg(test)]
mod tests {
    use super::{Signal, add};

    #[test]
    fn signal_that_comes_after_a_flood_of_another_is_kept() {
        let mut early = Vec::new();
        (0..1_000).for_each(|_| add(Signal::WINCH, &mut early));
        for signal in [Signal::TSTP, Signal::TERM, Signal::CONT, Signal::TSTP] {
            add(signal, &mut early);
        }
        assert_eq!(early, [Signal::WINCH, Signal::TERM, Signal::CONT, Signal::TSTP]);
    }
}
