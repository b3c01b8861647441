//! Running a program next to the command of a live session, with this process's streams.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinfold_host::directories::Places;
use pinfold_host::ipc::Json;
use pinfold_host::suspended;
use pinfold_host::sys;
use pinfold_terminal::caller::{self, CallerTerminal};
use pinfold_terminal::input::Feeding;
use pinfold_terminal::notify;
use pinfold_terminal::stdio::{self, Pump};
use pinfold_wire::{Channel, Program};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::SpecialCodeIndex;

use super::Limits;
use super::client::{find, gone, lost, send};
use super::message::{Answer, Request};
use super::session::end_of;
use crate::outcome::{LimitReached, RunError};

/// How long a terminal that others still hold may stay without output before it is let go.
const QUIET: Duration = Duration::from_millis(10);

/// How long what has lost its terminal may go on, and what has ended may still be shown.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes that are shown at once.
const CHUNK: usize = 64 * 1024;

/// What to run.
#[derive(Debug, Default)]
pub struct Exec {
    /// The program and its arguments; the session's shell for none.
    pub argv: Vec<OsString>,
    /// Variables in addition to the session's own.
    pub env: Vec<(OsString, OsString)>,
    /// Where, inside; the session's own directory for none.
    pub cwd: Option<PathBuf>,
    /// After which time it is ended with all that it has started.
    pub timeout: Option<Duration>,
    /// As whom; the session's user for none, and there is no other.
    pub user: Option<String>,
    /// Open files of each of its processes; at most what the session's have.
    pub files: Option<u64>,
    /// By how much others go before it (nice(2), 0 to 19).
    pub nice: u8,
    /// What it may use up.
    pub limits: Limits,
    /// Whether it has a terminal.
    pub tty: Tty,
}

/// Whether something has a terminal of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tty {
    /// Where this process's streams are one.
    #[default]
    AsHere,
    /// Also where they are not. Then the end of the input is typed as a terminal's user types it.
    Always,
    /// Never: it sees pipes.
    Never,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecEnd {
    /// Its own status, 124 if its time limit ended it, or 128 + the signal that did.
    pub status: u8,
    /// The limit of its own that ended or hindered it.
    pub limit: Option<LimitReached>,
    /// Whether an interrupt ended it.
    pub interrupted: bool,
}

struct Client {
    channel: Channel,
    signals: OwnedFd,
    terminal: Option<CallerTerminal>,
    /// Where what is written to the terminal inside is shown.
    screen: Option<OwnedFd>,
    /// The terminal inside, once there is one.
    inner: Option<OwnedFd>,
    has_terminal: bool,
    outputs: Vec<JoinHandle<()>>,
    input: Option<Feeding>,
    /// The terminal has gone: when to go as well.
    leaving: Option<Instant>,
}

/// Runs something in the session whose name begins so. Without a terminal it ends when its output
/// does, as with ssh(1).
///
/// # Errors
/// Returns an error if there is no such session; a command that cannot be executed; a session that ends
/// before.
pub fn exec(places: &Places, session: &str, exec: Exec) -> Result<ExecEnd, RunError> {
    let (began, wait) = (Instant::now(), exec.timeout);
    sys::allow_many_files();
    let channel = find(places, Some(session))?;
    let mut terminal = match exec.tty {
        Tty::Never => None,
        // Keys come from the standard input, whatever it is.
        Tty::Always if !rustix::termios::isatty(rustix::stdio::stdin()) => None,
        Tty::AsHere | Tty::Always => CallerTerminal::find().map_err(RunError::terminal)?,
    };
    if let Some(terminal) = &mut terminal {
        terminal.guard().map_err(RunError::terminal)?;
    }
    let system = |errno: Errno| RunError::System(errno.into());
    let streams = match exec.tty {
        Tty::Always => stdio::terminal(caller::window(), terminal.as_ref()),
        Tty::AsHere | Tty::Never => stdio::streams(terminal.as_ref()).map_err(system)?,
    };
    let screen = match (&exec.tty, &terminal) {
        (Tty::Always, _) => Some(rustix::stdio::stdout()),
        (Tty::AsHere | Tty::Never, terminal) => terminal.as_ref().map(CallerTerminal::descriptor),
    };
    let screen = screen
        .map(|screen| rustix::io::fcntl_dupfd_cloexec(screen, 3))
        .transpose()
        .map_err(system)?;
    let signals = sys::signal_events().map_err(system)?;
    send(&channel, request(&exec))?;
    let (ends, descriptors) = streams.stdio.to_wire();
    let program = Program { ignored: sys::ignored_signals(), ..program(exec) };
    channel.command(&program, ends, &descriptors).map_err(|_| lost(&channel))?;
    drop(descriptors);
    // Only the sandbox's own copies keep the streams open.
    drop(streams.stdio);
    let (outputs, input) = streams.moved.start().map_err(RunError::thread)?;
    let until = wait.and_then(|wait| began.checked_add(wait));
    let (inner, leaving) = (None, None);
    let has_terminal = false;
    Client { channel, signals, terminal, screen, inner, has_terminal, outputs, input, leaving }
        .until_end(until)
}

/// Returns what is asked for first.
pub(super) fn request(exec: &Exec) -> Request {
    let timeout = exec.timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
    let &Exec { files, nice, limits, .. } = exec;
    Request::Exec { timeout, user: exec.user.clone(), files, nice, limits }
}

/// Returns the program that an exec asks for.
pub(super) fn program(exec: Exec) -> Program {
    let variable =
        |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    Program {
        argv: exec.argv.into_iter().map(OsString::into_vec).collect(),
        env: exec.env.into_iter().map(variable).collect(),
        cwd: exec.cwd.map(|cwd| cwd.into_os_string().into_vec()).unwrap_or_default(),
        ignored: 0,
    }
}

impl Client {
    fn until_end(mut self, until: Option<Instant>) -> Result<ExecEnd, RunError> {
        let ended = loop {
            let (said, signalled, written) = self.wait()?;
            if written {
                self.show();
            }
            if signalled {
                while let Some(signal) = sys::next_signal(&self.signals) {
                    self.signal(signal);
                    if !matches!(signal, libc::SIGWINCH | libc::SIGCONT) {
                        // Otherwise nobody takes notice of it before somebody brings the session back.
                        suspended::goes_on(&self.channel)?;
                    }
                }
            }
            if said && let Some(answer) = self.hear()? {
                break answer;
            }
            if self.leaving.is_some_and(|at| Instant::now() >= at) {
                // The session ends what is left of it.
                return Err(RunError::refused("the terminal has gone", None));
            }
        };
        drop(self.input.take());
        self.finish_outputs(until);
        if let Some(terminal) = &self.terminal {
            notify::give_back(terminal.descriptor());
            terminal.restore();
        }
        end_of(ended)
    }

    fn wait(&self) -> Result<(bool, bool, bool), RunError> {
        let mut ready = vec![
            PollFd::new(&self.channel, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        ready.extend(self.inner.iter().map(|inner| PollFd::new(inner, PollFlags::IN)));
        let patience =
            self.leaving.map(|at| at.saturating_duration_since(Instant::now())).map(|patience| {
                Timespec {
                    tv_sec: patience.as_secs() as i64,
                    tv_nsec: i64::from(patience.subsec_nanos()),
                }
            });
        match rustix::event::poll(&mut ready, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(RunError::System(errno.into())),
        }
        let is = |index: usize| ready.get(index).is_some_and(|ready| !ready.revents().is_empty());
        Ok((is(0), is(1), is(2)))
    }

    /// Shows what was written to the terminal inside; false when there is nothing more to come.
    fn show(&mut self) -> bool {
        let (Some(screen), Some(inner)) = (&self.screen, &self.inner) else { return false };
        let mut buffer = vec![0; CHUNK];
        let shown = rustix::io::retry_on_intr(|| rustix::io::read(inner, &mut buffer[..]))
            .is_ok_and(|count| {
                if self.terminal.is_some() {
                    notify::follow(&buffer[..count]);
                }
                count > 0 && write_all(screen.as_fd(), &buffer[..count])
            });
        if !shown {
            // EIO is how a terminal whose other side is closed says so (pty(7)).
            self.inner = None;
        }
        shown
    }

    /// Takes one answer; gives it if it is the last.
    fn hear(&mut self) -> Result<Option<Answer>, RunError> {
        let Ok(Some(received)) = self.channel.receive::<Json<Answer>>() else { return Err(gone()) };
        match received.message.0 {
            // There is one; more can only be a sandbox that is up to something.
            Answer::Terminal if self.has_terminal => Ok(None),
            Answer::Terminal => {
                self.has_terminal = true;
                let inner = received.descriptors.into_iter().next().ok_or_else(gone)?;
                if let Some(terminal) = &self.terminal {
                    terminal.enter(inner.as_fd()).map_err(RunError::terminal)?;
                    // Input that nobody reads any more is no reason to wait; output is shown here.
                    let [input, _] = Pump::terminal(terminal.descriptor(), inner.as_fd())
                        .map_err(RunError::terminal)?;
                    input.start().map_err(RunError::thread)?;
                } else if self.screen.is_some() {
                    let keys = inner.try_clone().map_err(RunError::System)?;
                    std::thread::Builder::new()
                        .spawn(move || type_in(keys))
                        .map_err(RunError::thread)?;
                }
                self.inner = Some(inner);
                Ok(None)
            }
            Answer::Stopped => {
                if let Some(terminal) = &self.terminal {
                    terminal.stop(self.inner.as_ref());
                    self.signal(libc::SIGCONT);
                }
                Ok(None)
            }
            answer => Ok(Some(answer)),
        }
    }

    fn signal(&mut self, signal: i32) {
        if signal == libc::SIGHUP && self.terminal.is_some() {
            self.leaving = Some(Instant::now() + GRACE);
        }
        match (signal, &self.terminal, &self.inner) {
            (libc::SIGWINCH, Some(terminal), Some(inner)) => terminal.resize(inner.as_fd()),
            (libc::SIGWINCH, _, _) => {}
            // A session that is gone has nobody left to signal.
            _ => drop(self.channel.send(&Json(Request::Signal(signal)), &[])),
        }
    }

    /// Waits until everything that was written has come out. A terminal can stay open for what was left running;
    /// then it is let go, at the latest after a moment. So are other outputs when the time is over:
    /// a program inside could hold them.
    fn finish_outputs(&mut self, until: Option<Instant>) {
        let moment = Instant::now() + GRACE;
        let is_early = |until: Instant| Instant::now() < until;
        while is_early(moment) && self.inner.as_ref().is_some_and(has_more) && self.show() {}
        let Some(until) = until else {
            for output in self.outputs.drain(..) {
                // A panic in a pump has been reported by its own thread.
                let _ = output.join();
            }
            return;
        };
        let until = until.max(moment);
        while is_early(until) && self.outputs.iter().any(|output| !output.is_finished()) {
            std::thread::sleep(QUIET);
        }
    }
}

/// Types the standard input into a terminal, and its end as somebody does who sits there: the key is
/// pressed twice where a line is not complete, since the first only sends it (termios(3), VEOF).
fn type_in(keys: OwnedFd) {
    let mut buffer = vec![0; CHUNK];
    let mut is_complete = true;
    loop {
        let read =
            rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut buffer[..]));
        let Ok(count @ 1..) = read else { break };
        is_complete = buffer[count - 1] == b'\n';
        if !write_all(keys.as_fd(), &buffer[..count]) {
            return;
        }
    }
    // A terminal that has gone needs no end.
    write_all(keys.as_fd(), &end_of_input(keys.as_fd(), is_complete));
}

/// Returns the keys that end a terminal's input, after a line that is complete or not; none for what is
/// no terminal.
#[must_use]
pub fn end_of_input(terminal: BorrowedFd<'_>, is_complete: bool) -> Vec<u8> {
    match rustix::termios::tcgetattr(terminal) {
        Ok(modes) => {
            vec![modes.special_codes[SpecialCodeIndex::VEOF]; if is_complete { 1 } else { 2 }]
        }
        Err(_) => Vec::new(),
    }
}

/// Returns whether the terminal says something within a moment.
fn has_more(inner: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(inner, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: QUIET.subsec_nanos().into() };
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&moment))) == Ok(1)
}

/// Returns whether all could be written.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(to, bytes)) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => return false,
        }
    }
    true
}
