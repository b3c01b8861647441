//! Process 1: start the command, then wait for its end, its stops, orphans and orders.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use pinfold_wire::{Bounds, Channel, Ended, Order, Program, Report, Step, Wire as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::command::Prepared;
use crate::relay::Relay;
use crate::returned::Return;
use crate::signals::block_signals;
use crate::stdio::{self, Streams, Terminal};
use crate::surroundings::Surroundings;
use crate::task::{self, Task};
use crate::watch::Watch;
use crate::{Command, Failure};
use crate::{moves, servant};

/// What init needs once the boundary has made the sandbox.
pub struct Start {
    /// What to run.
    pub command: Command,
    pub streams: Streams,
    /// Limits that no control group enforces.
    pub watch: Watch,
    /// Where calls that move directories of views are heard of.
    pub moves: Option<OwnedFd>,
    /// Variables (`NAME=VALUE`) of every program, in place of others of the same names.
    pub variables: Vec<Vec<u8>>,
    pub surroundings: Surroundings,
    /// When each step of the boundary ended, in monotonic nanoseconds.
    pub times: Vec<(Step, u64)>,
}

/// Runs the command to its end and reports it, and runs the other programs it is ordered to, before
/// and during the command. The caller exits after this returns, and with it everything inside ends.
///
/// # Errors
/// Returns what kept the command from being started.
pub fn run(mut start: Start, channel: &Channel) -> Result<(), Failure> {
    let signals = block_signals(libc::SIGCHLD).map_err(Failure::at(Step::Execute))?;
    start.command.set(&start.variables);
    let around = Arc::new(start.surroundings);
    let prepared = start.command.prepare_any(&around)?;
    let terminal = Terminal::open(&start.streams).map_err(Failure::at(Step::Terminal))?;
    stdio::lead_session(terminal.as_ref()).map_err(Failure::at(Step::Terminal))?;
    let line = start.streams.take_line();
    let relay = match (&terminal, line) {
        (Some(terminal), Some(line)) => Some(Relay::start(terminal, &line)),
        (Some(terminal), None) => {
            let sent = channel.send(&Report::Terminal, &[terminal.controller.as_fd()]);
            sent.map_err(|_| Failure::at(Step::Terminal)(Errno::PIPE))?;
            None
        }
        (None, _) => None,
    };
    let relay = relay.transpose().map_err(Failure::at(Step::Terminal))?;
    start.times.push((Step::Terminal, now()));
    let waiting = Some(Waiting { prepared, streams: start.streams, terminal });
    if let Some(listener) = start.moves {
        // Signals are blocked by now, for this thread too.
        moves::serve(listener).map_err(Failure::at(Step::Execute))?;
    }
    let (watch, times, variables) = (start.watch, start.times, start.variables);
    let (tasks, has_run_tasks, part) = (Vec::new(), false, Vec::new());
    let (command, ended, idle, servants) = (None, None, Idle::No, Vec::new());
    let returned = None;
    Loop {
        channel,
        signals,
        waiting,
        command,
        relay,
        ended,
        idle,
        tasks,
        servants,
        has_run_tasks,
        part,
        returned,
        watch,
        times,
        variables,
        around,
    }
    .until_end()
}

/// Whether there is no command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Idle {
    No,
    /// Only the programs next to it.
    Yes,
    /// It was asked to end, and does when nothing that was asked for runs any more.
    Ending,
}

/// The command until it is started.
struct Waiting {
    /// None if the session is to wait for programs that run next to a command.
    prepared: Option<Prepared>,
    streams: Streams,
    terminal: Option<Terminal>,
}

struct Loop<'a> {
    channel: &'a Channel,
    signals: OwnedFd,
    waiting: Option<Waiting>,
    command: Option<Pid>,
    /// Who shows what the command writes to its terminal, if that cannot leave the sandbox.
    relay: Option<Relay>,
    /// How the command ended, until all of it was shown.
    ended: Option<Ended>,
    idle: Idle,
    /// The programs that run next to the command.
    tasks: Vec<Task>,
    /// Who serves tools.
    servants: Vec<Pid>,
    has_run_tasks: bool,
    /// The beginning of a program that is too long for an order.
    part: Vec<u8>,
    /// What is to be reported when the command has ended.
    returned: Option<Return>,
    watch: Watch,
    times: Vec<(Step, u64)>,
    variables: Vec<Vec<u8>>,
    around: Arc<Surroundings>,
}

impl Loop<'_> {
    fn until_end(mut self) -> Result<(), Failure> {
        while self.turn()? {}
        Ok(())
    }

    /// Waits for one thing and deals with it; false when it is time to end.
    fn turn(&mut self) -> Result<bool, Failure> {
        let own = [self.channel.as_fd(), self.signals.as_fd()];
        let descriptors = own.into_iter().chain(self.tasks.iter().filter_map(Task::news));
        let mut ready: Vec<_> =
            descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let ending = self.tasks.iter().any(Task::is_ending).then_some(task::AGAIN);
        let of_tasks = self.tasks.iter().filter_map(Task::patience);
        let patience = self.watch.patience().into_iter().chain(ending).chain(of_tasks).min();
        let timeout = patience.map(|patience| Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        match rustix::event::poll(&mut ready, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Ok(false),
        }
        let is = |index: usize| !ready[index].revents().is_empty();
        let (ordered, signalled, awaited) = (is(0), is(1), (2..ready.len()).any(is));
        if awaited || ending.is_some() {
            self.tasks.iter_mut().for_each(Task::go_on);
        }
        task::look_at(&mut self.tasks, self.channel);
        if let Some(limit) = self.watch.look() {
            let _ = self.channel.send(&Report::Limit(limit), &[]);
            if self.watch.ends(limit) {
                return Ok(false);
            }
        }
        let goes_on = (!signalled || self.children()) && (!ordered || self.order()?);
        if goes_on && self.idle == Idle::Ending && self.tasks.iter().all(Task::has_ended) {
            self.report_end(Ended::Code(0));
            return Ok(false);
        }
        Ok(goes_on)
    }

    /// Follows one order; false when the supervisor is gone.
    fn order(&mut self) -> Result<bool, Failure> {
        let received = match self.channel.receive::<Order>() {
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return Ok(false),
        };
        match received.message {
            Order::Start(variables) => self.start(variables)?,
            Order::Part(part) => self.part.extend(part),
            Order::Run { id, bounds, rest, streams } => {
                let mut descriptors = received.descriptors;
                let own = descriptors.len().saturating_sub(bounds.groups.into());
                let groups = descriptors.split_off(own);
                // Fewer is how those are lost that could not be handed over: then nothing runs, least of
                // all without the groups that bound it.
                let streams = if groups.len() < bounds.groups.into() {
                    Err(Errno::MFILE)
                } else {
                    Streams::new(streams, descriptors)
                };
                self.run(id, bounds, groups, &rest, streams);
            }
            Order::SignalTask { id, signal } => self.with_task(id, |task| task.signal(signal)),
            Order::EndTask(id) => self.with_task(id, Task::end),
            Order::Signal(number) => self.signal(number),
            Order::Socket => self.pass_socket(),
            Order::Tools { roots, cwd } => {
                // Without one, the client sees the end of its socket.
                let socket = received.descriptors.into_iter().next();
                let around = &self.around;
                let start = |socket| servant::start(roots, cwd, socket, around).ok();
                let servant = socket.and_then(start);
                self.servants.extend(servant);
            }
            Order::Return { path, most } => {
                let path = self.around.place(Path::new(OsStr::from_bytes(&path)));
                let path = path.into_os_string().into_vec();
                self.returned = Some(Return { path, most });
            }
            Order::Finish => drop(self.channel.send(&Report::Finished, &[])),
            // Only a process that is not in the sandbox makes one.
            Order::Terminal { .. } => {}
        }
        Ok(true)
    }

    /// Starts the command, once.
    fn start(&mut self, variables: Vec<Vec<u8>>) -> Result<(), Failure> {
        let Some(Waiting { mut prepared, streams, terminal }) = self.waiting.take() else {
            return Ok(());
        };
        let Some(prepared) = &mut prepared else {
            self.idle = Idle::Yes;
            return Ok(());
        };
        prepared.add_variables(variables)?;
        let become_command = || {
            let failure = prepared.become_command(&streams, terminal.as_ref());
            let _ = self.channel.send(&failure.report(), &[]);
        };
        // What ran before may be there still, and stop a child for which init would wait.
        let command = if self.has_run_tasks {
            crate::vfork::copy(become_command)
        } else {
            crate::vfork::spawn(become_command)
        };
        let command = command.map_err(Failure::at(Step::Execute))?;
        self.times.push((Step::Execute, now()));
        self.command = Some(command);
        // The streams and the terminal belong to the command alone now, or no reader would ever
        // see their end.
        Ok(())
    }

    /// Runs a program next to the command.
    fn run(
        &mut self,
        id: u32,
        bounds: Bounds,
        groups: Vec<OwnedFd>,
        rest: &[u8],
        streams: Result<Streams, Errno>,
    ) {
        self.has_run_tasks = true;
        let mut program = std::mem::take(&mut self.part);
        program.extend_from_slice(rest);
        let program = Program::decode(&program).map_err(|_| Errno::INVAL);
        let failed = |errno| Failure::at(Step::Execute)(errno);
        let run = |program| {
            let mut command = Command::from(program);
            command.set(&self.variables);
            let streams = streams.map_err(failed)?;
            Task::start(id, bounds, groups, command, streams, self.channel, &self.around)
        };
        match program.map_err(failed).and_then(run) {
            Ok(task) => self.tasks.push(task),
            Err(failure) => drop(self.channel.send(&failure.report_of(id), &[])),
        }
    }

    /// Tells a task something. One that has ended since needs no message.
    fn with_task(&mut self, id: u32, act: impl FnOnce(&mut Task)) {
        if let Some(task) = self.tasks.iter_mut().find(|task| task.id() == id) {
            act(task);
        }
    }

    fn signal(&mut self, number: i32) {
        const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP];
        if self.idle != Idle::No {
            self.tasks.iter_mut().for_each(|task| task.signal(number));
            if ENDING.contains(&number) {
                self.idle = Idle::Ending;
            }
        }
        if let (Some(signal), Some(command)) = (Signal::from_named_raw(number), self.command) {
            // A group that has just ended needs no signal.
            let _ = rustix::process::kill_process_group(command, signal);
        }
    }

    /// Passes a socket to the supervisor. Without one its client waits in vain, which it does not do for long.
    fn pass_socket(&self) {
        if let Ok(socket) = crate::doors::outlet() {
            let _ = self.channel.send(&Report::Socket, &[socket.as_fd()]);
        }
    }

    /// Reaps every child that has something to say; false once the command itself has ended.
    fn children(&mut self) -> bool {
        let mut drain = [0_u8; 1024];
        // Only the fact that a child changed counts, not how often it was signalled.
        let _ = rustix::io::read(&self.signals, &mut drain);
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            if self.ended.is_some() && !self.relay.as_ref().is_some_and(|relay| relay.is(pid)) {
                continue;
            }
            if let Some(task) = self.tasks.iter().position(|task| task.minder() == pid) {
                // Nobody but the sandbox does this to a minder, which it can signal.
                if status.stopping_signal().is_some() {
                    let _ = rustix::process::kill_process(pid, Signal::CONT);
                } else if status.terminating_signal().is_some() {
                    return false;
                } else {
                    self.tasks.swap_remove(task);
                }
                continue;
            }
            if let Some(servant) = self.servants.iter().position(|servant| *servant == pid) {
                // As a minder: the process that waits for it would wait for long.
                if status.stopping_signal().is_some() {
                    let _ = rustix::process::kill_process(pid, Signal::CONT);
                } else {
                    self.servants.swap_remove(servant);
                }
                continue;
            }
            if self.relay.take_if(|relay| relay.is(pid) && relay.has_ended(status)).is_some() {
                if let Some(ended) = self.ended {
                    self.report_end(ended);
                    return false;
                }
                continue;
            }
            // Of an orphan nobody wants to know.
            if Some(pid) != self.command {
                continue;
            }
            if let Some(signal) = status.stopping_signal() {
                self.channel.mention(&Report::Stopped(signal));
                continue;
            }
            let Some(relay) = &mut self.relay else {
                self.report_end(ended(status));
                return false;
            };
            // What the command has left would have written as long as it likes.
            task::end_all_but(relay.end());
            (self.command, self.ended) = (None, Some(ended(status)));
        }
        true
    }

    fn report_end(&mut self, ended: Ended) {
        if let Some(returned) = self.returned.take() {
            // What still runs would write while it is read.
            task::end_all_but(rustix::process::getpid());
            returned.report(self.channel);
        }
        // A limit that it has just run into is still there to be seen.
        if let Some(limit) = self.watch.last_look() {
            let _ = self.channel.send(&Report::Limit(limit), &[]);
        }
        let _ = self.channel.send(&Report::Times(std::mem::take(&mut self.times)), &[]);
        let _ = self.channel.send(&Report::Ended(ended), &[]);
    }
}

/// Returns how a child ended.
pub(crate) fn ended(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, signal) => Ended::Signal(signal.unwrap_or(libc::SIGKILL) as u8),
    }
}

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
