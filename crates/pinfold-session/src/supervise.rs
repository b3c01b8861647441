//! From the order to start to the end: one loop over everything that can happen.

mod delivery;
pub(crate) mod disk_watch;
mod limits;
mod ready;
mod reports;
pub(crate) mod resume;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinfold_ask::Desk;
use pinfold_boundary::namespace::explain;
use pinfold_boundary::{Inside, LaunchError, step_failed};
use pinfold_host::note::Note;
use pinfold_host::sys;
use pinfold_hostexec::Broker;
use pinfold_terminal::caller::CallerTerminal;
use pinfold_terminal::input::Feeding;
use pinfold_terminal::notify;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_terminal::screen::Screen;
use pinfold_terminal::stdio::Pump;
use pinfold_wire::{Ended, Order, Report, Window};

use crate::RunError;
use crate::control::Control;
use crate::detach::Background;
use crate::doors::publish::Sockets;
use crate::doors::server::DoorServer;
use crate::outcome::{LimitReached, Outcome};
use crate::spec::{self, Return};
use crate::timeline::Timeline;

use disk_watch::DiskWatch;
use resume::Running;

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that ask to end.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP];

/// How long init may take no orders.
pub(crate) const HASTE: Duration = Duration::from_secs(5);

/// Everything that the loop watches.
pub(crate) struct Supervision {
    pub(crate) inside: Inside,
    pub(crate) signals: OwnedFd,
    pub(crate) terminal: Option<CallerTerminal>,
    /// How large the terminal of a detached session is at first, if it has one.
    pub(crate) window: Option<Window>,
    /// The sandbox's terminal, once init has sent it.
    pub(crate) inner: Option<OwnedFd>,
    pub(crate) outputs: Vec<JoinHandle<()>>,
    /// Held until everything inside has ended.
    pub(crate) input: Option<Feeding>,
    /// Who serves the doors.
    pub(crate) serving: DoorServer,
    /// Where the session can be asked for something.
    pub(crate) control: Control,
    /// Where the sandbox asks for commands on the host, if it can.
    pub(crate) broker: Option<Broker>,
    pub(crate) desk: Option<Arc<Desk>>,
    /// Between the two terminals where questions and notices may be shown on the caller's.
    pub(crate) passage: Option<Arc<Passage>>,
    /// Where sockets of the sandbox's network are asked for and handed in.
    pub(crate) sockets: Option<Sockets>,
    /// Whether there is no command, which would decide itself what becomes of signals.
    pub(crate) is_idle: bool,
    /// Who watches what is written to the disk.
    pub(crate) disk_watch: Option<DiskWatch>,
    pub(crate) deadline: Option<Instant>,
    /// Who is notified that the command runs.
    pub(crate) background: Option<Background>,
    /// What runs inside before the command.
    pub(crate) running: Option<Running>,
    /// The outputs of what earlier ones of these left running.
    pub(crate) drained: Vec<OwnedFd>,
    pub(crate) state: Progress,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) ended: Option<Ended>,
    pub(crate) limit: Option<LimitReached>,
    pub(crate) timeline: Timeline,
    /// When to look again, whatever happens.
    pub(crate) waking: Option<Instant>,
    /// Whether the command was ordered to start.
    pub(crate) started: bool,
    /// When to stop being patient with a command that was asked to end.
    pub(crate) killing: Option<Instant>,
    /// Whether the sandbox was ended for that, or for what its init said.
    pub(crate) killed: bool,
    /// What is to come back of a specification.
    pub(crate) spec: Return,
}

impl Progress {
    /// Notes a limit that was reached: what ends the run counts most, then what came first.
    fn reach(&mut self, limit: LimitReached) {
        if self.limit.is_none_or(|known| limit.ended_the_run() && !known.ended_the_run()) {
            self.limit = Some(limit);
        }
    }
}

impl Supervision {
    /// Waits for the sandbox's terminal.
    ///
    /// # Errors
    /// Returns an error for a start that failed before there was one.
    pub(crate) fn receive_terminal(&mut self) -> Result<(), RunError> {
        if self.terminal.is_none() && self.window.is_none() {
            return Ok(());
        }
        let Some(received) = self.inside.channel.receive::<Report>().map_err(LaunchError::from)?
        else {
            return Err(LaunchError::Silent.into());
        };
        match (received.message, received.descriptors.into_iter().next()) {
            (Report::Terminal, Some(inner)) if sys::is_terminal(&inner) => self.inner = Some(inner),
            (Report::Terminal, None) => return Err(LaunchError::HandOver.into()),
            (report, _) => return Err(unexpected(report).into()),
        }
        Ok(())
    }

    /// Orders the command to start, with the caller's terminal as its own.
    ///
    /// # Errors
    /// Returns an error for a terminal that cannot be used, or a sandbox that has failed.
    pub(crate) fn start(&mut self, variables: Vec<Vec<u8>>) -> Result<(), RunError> {
        if let (Some(terminal), Some(inner)) = (&self.terminal, &self.inner) {
            terminal.enter(inner.as_fd()).map_err(RunError::terminal)?;
            let (caller, inner) = (terminal.descriptor(), inner.as_fd());
            match &self.passage {
                Some(passage) => {
                    self.outputs.push(passage.start(caller, inner).map_err(RunError::thread)?);
                }
                None => {
                    for pump in Pump::terminal(caller, inner).map_err(RunError::terminal)? {
                        self.outputs.extend(pump.start().map_err(RunError::thread)?);
                    }
                }
            }
        }
        if let (Some(window), Some(inner)) = (self.window, &self.inner) {
            let log = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
                .map_err(|errno| RunError::System(errno.into()))?;
            let (screen, shown) = Screen::show(inner, window, log).map_err(RunError::thread)?;
            self.control.show(screen);
            self.outputs.push(shown);
        }
        self.state.started = true;
        if self.state.spec.is_wanted() {
            send(&self.inside, &spec::order())?;
        }
        send(&self.inside, &Order::Start(variables))?;
        if self.background.is_some() {
            // An init that has gone already has said how the command ended.
            let _ = self.inside.order(&Order::Finish);
        }
        Ok(())
    }

    /// Runs the loop until everything inside has ended.
    ///
    /// # Errors
    /// Returns an error for a command that could not be executed, or a start that failed late.
    pub(crate) fn until_end(mut self) -> Result<Outcome, RunError> {
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.give_screen_back();
                    return Err(error);
                }
            }
        }
        self.state.timeline.done("the command runs to its end");
        // Everything inside has ended or is being ended; nothing writes any more.
        self.inside.kill();
        self.inside.reap().map_err(RunError::thread)?;
        drop(self.input.take());
        self.inner = None;
        // Nothing that waits for an answer goes on waiting.
        if let Some(desk) = &self.desk {
            desk.end();
        }
        if let Some(broker) = &mut self.broker {
            broker.stop();
        }
        self.give_screen_back();
        for output in self.outputs.drain(..) {
            // A panic in a pump has been reported by its own thread.
            let _ = output.join();
        }
        if let Some(terminal) = &self.terminal {
            notify::give_back(terminal.descriptor());
            terminal.restore();
        }
        let mut outcome = self.outcome();
        self.control.farewell(outcome.status);
        self.serving.stop();
        self.state.timeline.done("everything inside ends");
        outcome.timeline = std::mem::take(&mut self.state.timeline);
        Ok(outcome)
    }

    fn give_screen_back(&self) {
        if let Some(passage) = &self.passage {
            passage.end();
        }
    }

    fn outcome(&mut self) -> Outcome {
        self.note_group();
        let mut outcome = Outcome::new(self.state.ended, self.state.limit);
        outcome.spec = self.state.spec.take();
        let Progress { ended, limit, killed, .. } = &self.state;
        if ended.is_none() && limit.is_none() && !killed {
            outcome.notes.extend(self.inside.engine_gone().map(Note::warning));
        }
        outcome
    }

    /// Waits for one thing and deals with it; false at the end.
    ///
    /// # Errors
    /// Returns an error for a command that could not be executed, or a start that failed late.
    pub(crate) fn turn(&mut self) -> Result<bool, RunError> {
        let ready = self.wait()?;
        if ready.signal {
            while let Some(signal) = sys::next_signal(&self.signals) {
                self.signal(signal);
            }
        }
        let is_due = self.control.due().is_some_and(|due| Instant::now() >= due);
        if (ready.control || is_due)
            && let Some(grace) = self.control.serve(&self.inside, self.state.started)
        {
            self.signal(libc::SIGTERM);
            self.state.killing = Instant::now().checked_add(grace);
        }
        if ready.sockets
            && let Some(sockets) = &self.sockets
        {
            for port in sockets.wanted() {
                // An init that is gone has no network left either.
                if let Ok(Some(stream)) = self.inside.stream_to(port) {
                    sockets.supply.put_stream(port, stream);
                }
            }
        }
        if ready.broker
            && let Some(broker) = &mut self.broker
        {
            broker.start().map_err(RunError::System)?;
        }
        if ready.door {
            self.serving.turn()?;
        }
        if ready.output {
            self.read_outputs();
        }
        if ready.full
            && let Some(limit) = self.disk_watch.as_ref().and_then(DiskWatch::reached)
        {
            self.state.reach(limit);
            self.inside.kill();
        }
        if ready.report && !self.report()? {
            self.note_group();
            return Ok(false);
        }
        self.look_at_limits();
        // What init sent before its end is read first.
        Ok(!ready.ended || ready.report)
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            // There is no command to report yet.
            ending if !self.state.started && ENDING.contains(&ending) => {
                self.state.ended = Some(Ended::Signal(ending as u8));
                self.inside.kill();
            }
            libc::SIGWINCH => {
                if let (Some(terminal), Some(inner)) = (&self.terminal, &self.inner) {
                    terminal.resize(inner.as_fd());
                }
            }
            libc::SIGHUP if self.terminal.is_some() => {
                // The caller's terminal is gone, and with it the sandbox's.
                self.order(libc::SIGHUP);
                self.state.killing = Some(Instant::now() + GRACE);
            }
            other => {
                self.order(other);
                if self.is_idle && ENDING.contains(&other) {
                    self.state.killing.get_or_insert(Instant::now() + GRACE);
                }
            }
        }
    }

    fn order(&self, signal: i32) {
        // An init that is gone has nobody left to signal.
        let _ = self.inside.order(&Order::Signal(signal));
    }
}

/// Returns the error behind a report that has no place here.
fn unexpected(report: Report) -> LaunchError {
    match report {
        Report::Failed { step, errno, detail } => explain(step_failed(step, errno, &detail)),
        _ => LaunchError::Silent,
    }
}

/// Sends an order; when init is gone, says why.
///
/// # Errors
/// Returns the failure that init reported before it went.
pub(crate) fn send(inside: &Inside, order: &Order) -> Result<(), RunError> {
    if inside.order(order).is_ok() {
        return Ok(());
    }
    Err(last_words(inside).into())
}

/// Returns what init said before it went.
pub(crate) fn last_words(inside: &Inside) -> LaunchError {
    explain(inside.last_words())
}
