//! Showing the terminal of a detached session at this one.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pinfold_host::directories::Places;
use pinfold_host::ipc::Json;
use pinfold_host::session_id::SessionId;
use pinfold_host::suspended;
use pinfold_host::sys;
use pinfold_terminal::caller::CallerTerminal;
use pinfold_terminal::detach_keys::{DetachKeys, Watching};
use pinfold_terminal::notices::attached::AttachedNotices;
use pinfold_terminal::notify;
use pinfold_terminal::screen::Modes;
use pinfold_terminal::typing::Typing;
use pinfold_wire::Channel;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::client::{gone, named, refused, send};
use super::message::{Answer, Request};
use crate::detach;
use crate::outcome::RunError;

/// How long the beginning of the keys is held back.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a log is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that are shown or typed at once.
const CHUNK: usize = 16 * 1024;
/// What interrupts a program that reads keys as they are.
const INTERRUPT: u8 = 0x03;

/// How to attach.
#[derive(Debug)]
pub struct Attach {
    /// By which keys to detach.
    pub keys: DetachKeys,
    /// Whether nothing is typed into it.
    pub read_only: bool,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachEnd {
    /// The session goes on; this is its own name.
    Detached(String),
    /// The session has ended with this status.
    Ended(u8),
}

struct Viewer {
    session: String,
    channel: Channel,
    signals: OwnedFd,
    /// Where keys come from; None for one who only looks from no terminal.
    terminal: Option<CallerTerminal>,
    keys: Watching,
    /// Until when the beginning of the keys is held back.
    held: Option<Instant>,
    /// None where nothing is typed.
    typing: Option<Typing>,
    shown: Shown,
    notices: AttachedNotices,
}

/// What there is to be dealt with.
struct Ready {
    /// The session has something to say.
    has_ended: bool,
    signalled: bool,
    noticed: bool,
    written: bool,
    typed: bool,
}

/// Where what is written comes from.
enum Shown {
    /// The session's terminal, and what it has asked of this one.
    Screen { output: Option<OwnedFd>, modes: Box<Modes> },
    /// The log of a session without one.
    Log(File),
}

/// Attaches this process's terminal to the session that is meant, until it is detached or the session
/// ends. A session without a terminal shows what it writes from now on.
///
/// # Errors
/// Returns an error if there is no such session; one that is suspended, or has neither terminal nor log;
/// no terminal here to type at.
pub fn attach(places: &Places, session: &str, attach: Attach) -> Result<AttachEnd, RunError> {
    let (session, channel) = named(places, Some(session))?;
    suspended::goes_on(&channel)?;
    let mut terminal = caller(attach.read_only)?;
    let window = terminal.as_ref().filter(|_| !attach.read_only).map(CallerTerminal::size);
    send(&channel, Request::Attach { window, with_notices: true })?;
    let received = channel.receive::<Json<Answer>>().ok().flatten().ok_or_else(gone)?;
    let mut ends = received.descriptors.into_iter();
    let (shown, notices, to) = match received.message.0 {
        answer @ (Answer::Attached | Answer::AttachedWithNotices) => {
            let output = Some(ends.next().ok_or_else(gone)?);
            let has_notices = matches!(answer, Answer::AttachedWithNotices);
            let notices = if has_notices { ends.next() } else { None };
            (Shown::Screen { output, modes: Box::default() }, notices, ends.next())
        }
        Answer::NoTerminal => (follow(places, &session)?, None, None),
        answer => return Err(refused(answer)),
    };
    let notices = AttachedNotices::new(notices);
    if matches!(shown, Shown::Log(_)) {
        // Keys have nowhere to go, and end this by the signals that they are.
        terminal = None;
    } else {
        say(&session, &attach, terminal.is_some());
    }
    if let Some(terminal) = &mut terminal {
        terminal.guard().map_err(RunError::terminal)?;
    }
    let signals = sys::signal_events().map_err(|errno| RunError::System(errno.into()))?;
    let typing = to.filter(|_| terminal.is_some()).map(Typing::start);
    let typing = typing.transpose().map_err(RunError::thread)?;
    let (keys, held) = (Watching::new(attach.keys), None);
    let mut viewer =
        Viewer { session, channel, signals, terminal, keys, held, typing, shown, notices };
    viewer.enter()?;
    let end = viewer.until_end();
    viewer.leave();
    if viewer.terminal.is_some() {
        viewer.notices.all().iter().for_each(|notice| notify!("pinfold: {notice}"));
    }
    if let Some(typing) = viewer.typing {
        typing.finish();
    }
    end
}

/// Returns the terminal to type at, which is needed unless somebody only looks.
fn caller(read_only: bool) -> Result<Option<CallerTerminal>, RunError> {
    let ends = [rustix::stdio::stdin(), rustix::stdio::stdout()];
    match (ends.into_iter().all(rustix::termios::isatty), read_only) {
        (true, _) => CallerTerminal::find().map_err(RunError::terminal),
        (false, true) => Ok(None),
        (false, false) => Err(RunError::refused(
            "attaching takes a terminal for input and output",
            Some("`--read-only` shows what is written without one".to_owned()),
        )),
    }
}

/// Returns the log of a session without a terminal, from its present end.
fn follow(places: &Places, session: &str) -> Result<Shown, RunError> {
    let path = SessionId::parse(session).map(|session| detach::log_of(places, &session));
    let mut log = path.and_then(|path: PathBuf| File::open(path).ok()).ok_or_else(|| {
        let what =
            format!("the session {session} has the terminal or the streams it was started with");
        let hint = format!("`pinfold shell {session}` opens a shell in it");
        RunError::refused(what, Some(hint))
    })?;
    io::Seek::seek(&mut log, io::SeekFrom::End(0)).map_err(RunError::System)?;
    notify!(
        "pinfold: {session} has no terminal; what it writes from now on (`pinfold logs -f {session}` \
         shows all of it)"
    );
    Ok(Shown::Log(log))
}

fn say(session: &str, attach: &Attach, has_keys: bool) {
    let looks = if attach.read_only { ", to look only" } else { "" };
    let way = match (has_keys, attach.read_only) {
        (true, true) => format!("; {} or ctrl-c detaches", attach.keys),
        (true, false) => format!("; {} detaches", attach.keys),
        (false, _) => String::new(),
    };
    notify!("pinfold: attached to {session}{looks}{way}");
}

impl Viewer {
    /// Takes the terminal, at first or after a stop.
    fn enter(&self) -> Result<(), RunError> {
        let Some(terminal) = &self.terminal else { return Ok(()) };
        terminal.raw().map_err(RunError::terminal)?;
        if let Shown::Screen { modes, .. } = &self.shown {
            show(&modes.enter());
        }
        Ok(())
    }

    /// Gives it back as it was.
    fn leave(&mut self) {
        show(self.notices.end().as_bytes());
        let Some(terminal) = &self.terminal else { return };
        if let Shown::Screen { modes, .. } = &self.shown {
            show(&modes.leave());
        }
        terminal.restore();
    }

    fn until_end(&mut self) -> Result<AttachEnd, RunError> {
        let mut is_detached = false;
        while !is_detached {
            let Ready { has_ended, signalled, noticed, written, typed } = self.wait()?;
            if noticed {
                self.show_notices();
            }
            if written && !self.notices.is_shown() {
                self.pass_output()?;
            }
            if has_ended {
                return self.ended();
            }
            if signalled {
                while let Some(signal) = sys::next_signal(&self.signals) {
                    is_detached |= self.signal(signal)?;
                }
            }
            if typed {
                is_detached |= self.pass_keys();
            } else if self.held.is_some_and(|until| Instant::now() >= until) {
                self.held = None;
                let passed = self.keys.let_go();
                self.type_in(passed);
            }
            if !typed {
                self.go_on_with_notices(&[]);
            }
        }
        Ok(AttachEnd::Detached(self.session.clone()))
    }

    /// Waits for what happens next. What the program writes waits while a notice is on the screen.
    fn wait(&self) -> Result<Ready, RunError> {
        let null = PollFlags::empty();
        let (output, look) = match &self.shown {
            Shown::Screen { .. } if self.notices.is_shown() => (None, self.notices.due()),
            Shown::Screen { output, .. } => (output.as_ref(), None),
            Shown::Log(_) => (None, Some(LOOK)),
        };
        let is_log = matches!(self.shown, Shown::Log(_));
        let terminal = self.terminal.as_ref().map(CallerTerminal::descriptor);
        let mut ready = [
            PollFd::new(&self.channel, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
            // Of those that are not there nothing is asked.
            output.map_or(PollFd::new(&self.signals, null), |fd| PollFd::new(fd, PollFlags::IN)),
            terminal.map_or(PollFd::new(&self.signals, null), |fd| {
                PollFd::from_borrowed_fd(fd, PollFlags::IN)
            }),
            self.notices.waiting().map_or(PollFd::new(&self.signals, null), |fd| {
                PollFd::from_borrowed_fd(fd, PollFlags::IN)
            }),
        ];
        let held = self.held.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = look.into_iter().chain(held).min().map(|patience| Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        match rustix::event::poll(&mut ready, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(RunError::System(errno.into())),
        }
        let [has_ended, signalled, written, typed, noticed] =
            ready.map(|ready| !ready.revents().is_empty());
        Ok(Ready { has_ended, signalled, noticed, written: written || is_log, typed })
    }

    /// Shows what the session has to say: over the screen, or as lines to one who looks from no terminal.
    fn show_notices(&mut self) {
        while let Some(notice) = self.notices.hear() {
            match (&self.terminal, &self.shown) {
                (Some(terminal), Shown::Screen { modes, .. }) => {
                    show(self.notices.show(notice, modes, size(terminal)).as_bytes());
                }
                (None, _) | (_, Shown::Log(_)) => notify!("pinfold: {notice}"),
            }
        }
    }

    /// Gives the screen back after a while, or a key.
    fn go_on_with_notices(&mut self, typed: &[u8]) {
        let Some(terminal) = self.terminal.as_ref().filter(|_| self.notices.is_shown()) else {
            return;
        };
        show(self.notices.turn(typed, size(terminal)).as_bytes());
        let is_alternate =
            matches!(&self.shown, Shown::Screen { modes, .. } if modes.is_alternate());
        if is_alternate && !self.notices.is_shown() {
            self.report_window();
        }
    }

    /// Shows what was written; when nothing comes any more, only the session's end is waited for.
    fn pass_output(&mut self) -> Result<bool, RunError> {
        match &mut self.shown {
            Shown::Log(log) => {
                let shown = io::copy(log, &mut io::stdout().lock()).map_err(RunError::System)?;
                Ok(shown > 0)
            }
            Shown::Screen { output, modes } => {
                let Some(from) = output else { return Ok(false) };
                let mut buffer = vec![0; CHUNK];
                let read = rustix::io::retry_on_intr(|| rustix::io::read(&*from, &mut buffer[..]));
                let bytes = &buffer[..read.unwrap_or(0)];
                if bytes.is_empty() {
                    *output = None;
                    return Ok(false);
                }
                modes.follow(bytes);
                if !show(bytes) {
                    return Err(RunError::refused("nobody takes what is shown", None));
                }
                Ok(true)
            }
        }
    }

    /// Returns how the session ended, after everything that it has written.
    fn ended(&mut self) -> Result<AttachEnd, RunError> {
        let answer = self.channel.receive::<Json<Answer>>().ok().flatten();
        show(self.notices.end().as_bytes());
        while self.pass_output()? {}
        match answer.map(|answer| answer.message.0) {
            Some(Answer::Code(status, _)) => Ok(AttachEnd::Ended(status)),
            Some(answer) => Err(refused(answer)),
            None => Err(gone()),
        }
    }

    /// Passes on what was typed; true when it detaches.
    fn pass_keys(&mut self) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        let mut buffer = vec![0; CHUNK];
        let read = rustix::io::read(terminal.descriptor(), &mut buffer[..]).unwrap_or(0);
        self.go_on_with_notices(&buffer[..read]);
        let (passed, is_over) = self.keys.read(&buffer[..read]);
        let interrupts = self.typing.is_none() && passed.contains(&INTERRUPT);
        self.type_in(passed);
        // A terminal that has gone types no more.
        if is_over || interrupts || read == 0 {
            return true;
        }
        self.held = self.keys.is_holding().then(|| Instant::now() + PATIENCE);
        false
    }

    fn type_in(&self, bytes: Vec<u8>) {
        if let Some(typing) = &self.typing {
            typing.keys(bytes);
        }
    }

    /// Deals with a signal; true when it detaches.
    fn signal(&mut self, signal: i32) -> Result<bool, RunError> {
        match signal {
            libc::SIGWINCH => self.report_window(),
            libc::SIGTSTP => {
                self.leave();
                sys::stop_self();
                self.enter()?;
                self.report_window();
            }
            libc::SIGINT | libc::SIGTERM | libc::SIGQUIT | libc::SIGHUP => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    /// Says how large this terminal is, by which everything is painted again.
    fn report_window(&self) {
        if let Some(terminal) = &self.terminal {
            // A session that is gone says so itself.
            drop(self.channel.send(&Json(Request::Window(terminal.size())), &[]));
        }
    }
}

/// Rows and columns of a terminal, for a notice over its screen.
fn size(terminal: &CallerTerminal) -> (usize, usize) {
    match terminal.size() {
        (rows @ 1.., columns @ 1..) => (rows.into(), columns.into()),
        _ => (24, 80),
    }
}

/// Writes to standard output as it is; whether all of it could be.
fn show(bytes: &[u8]) -> bool {
    let to: BorrowedFd<'_> = rustix::stdio::stdout();
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(to, rest)) {
            Ok(count) => rest = &rest[count..],
            Err(_) => return false,
        }
    }
    true
}
