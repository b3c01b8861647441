//! What runs beside the command: each with a process of its own above it.
//!
//! That process, a copy of init, leads the session of the task's terminal and is the one to which
//! whatever the task leaves behind is handed (PR_SET_CHILD_SUBREAPER, prctl(2)). So a task can be
//! ended with everything that it has started, however often that has forked, and job control
//! works in it as for the command. It goes when nothing of the task is left.

mod tree;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use pinfold_wire::{Channel, ChannelError, Report, Step};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::command::Prepared;
use crate::fds::close_all_but;
use crate::run::ended;
use crate::stdio::{self, Streams, Terminal};
use crate::{Command, Failure};

/// How soon to look again for what a task that is being ended has forked meanwhile.
pub(crate) const AGAIN: Duration = Duration::from_millis(2);

/// Something that runs beside the command.
pub(crate) struct Task {
    id: u32,
    /// The process above it.
    minder: Pid,
    /// On which the minder tells of it.
    news: Channel,
    is_ending: bool,
    /// What was asked for has ended; something that it has left may still run.
    has_ended: bool,
}

impl Task {
    /// Starts one. The controlling side of its terminal goes to the supervisor.
    ///
    /// # Errors
    /// A command without words, or what the system says.
    pub(crate) fn start(
        id: u32,
        command: Command,
        streams: Streams,
        supervisor: &Channel,
    ) -> Result<Self, Failure> {
        let prepared = command.prepare()?;
        let terminal = streams.wants_terminal().then(|| Terminal::open(streams.window));
        let terminal = terminal.transpose().map_err(Failure::at(Step::Terminal))?;
        let broken = |error| match error {
            ChannelError::Io(errno) => Failure::at(Step::Execute)(errno),
            ChannelError::Decode(_) | ChannelError::TooLarge => {
                Failure::at(Step::Execute)(Errno::PIPE)
            }
        };
        let (news, tell) = Channel::pair().map_err(broken)?;
        let controller = terminal.as_ref().map(|terminal| terminal.controller.try_clone());
        let controller = controller.transpose().map_err(|_| Errno::MFILE);
        let controller = controller.map_err(Failure::at(Step::Terminal))?;
        let minder = crate::vfork::copy(|| {
            if let Err(failure) = mind(id, &prepared, streams, terminal, &tell) {
                let _ = tell.send(&failure.report_of(id), &[]);
            }
        })
        .map_err(Failure::at(Step::Execute))?;
        if let Some(controller) = controller {
            let report = Report::TaskTerminal(id);
            supervisor.send(&report, &[controller.as_fd()]).map_err(broken)?;
        }
        Ok(Self { id, minder, news, is_ending: false, has_ended: false })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The process above it. The inside can signal it; that it goes by itself means that nothing of
    /// the task is left, and that it is killed ends the inside: its task could not be ended any more.
    pub(crate) fn minder(&self) -> Pid {
        self.minder
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Readable when there is something to tell.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// Passes on what there is to tell.
    pub(crate) fn go_on(&mut self, supervisor: &Channel) {
        if self.is_ending {
            tree::kill_below(self.minder);
        }
        while has_something(self.news.as_fd()) {
            // A minder that has gone is about to be reaped.
            let Ok(Some(received)) = self.news.receive::<Report>() else { return };
            match received.message {
                stopped @ Report::TaskStopped(_) => supervisor.mention(&stopped),
                report => {
                    self.has_ended = true;
                    drop(supervisor.send(&report, &[]));
                }
            }
        }
    }

    /// Signals the process groups that the task's own children lead.
    pub(crate) fn signal(&mut self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        for child in tree::children(self.minder) {
            // A group that has just ended needs no signal.
            let _ = rustix::process::kill_process_group(child, signal);
        }
    }

    /// Ends everything that belongs to it, from now until nothing is left.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        tree::kill_below(self.minder);
    }
}

/// What the minder does, until nothing of its task is left.
fn mind(
    id: u32,
    prepared: &Prepared,
    streams: Streams,
    terminal: Option<Terminal>,
    tell: &Channel,
) -> Result<(), Failure> {
    let kept = streams.descriptors().chain(terminal.iter().map(|terminal| terminal.user.as_fd()));
    let kept: Vec<BorrowedFd<'_>> = kept.chain([tell.as_fd()]).collect();
    close_all_but(&kept)
        .and_then(|()| rustix::process::set_child_subreaper(Some(rustix::process::getpid())))
        .map_err(Failure::at(Step::Execute))?;
    stdio::lead_session(terminal.as_ref()).map_err(Failure::at(Step::Terminal))?;
    let command = crate::vfork::spawn(|| {
        let failure = prepared.become_command(&streams, terminal.as_ref());
        let _ = tell.send(&failure.report_of(id), &[]);
    })
    .map_err(Failure::at(Step::Execute))?;
    // Their other sides are to see the end when the task's own copies have gone.
    std::mem::forget((streams, terminal));
    close_all_but(&[tell.as_fd()]).map_err(Failure::at(Step::Execute))?;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::UNTRACED) {
        if pid != command {
            continue;
        }
        let report = match status.stopping_signal() {
            Some(_) => Report::TaskStopped(id),
            None => Report::TaskEnded { id, ended: ended(status) },
        };
        match report {
            stopped @ Report::TaskStopped(_) => tell.mention(&stopped),
            report => drop(tell.send(&report, &[])),
        }
    }
    Ok(())
}

fn has_something(descriptor: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ready, Some(&at_once)) == Ok(1)
}
