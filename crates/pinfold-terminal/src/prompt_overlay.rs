//! The caller's terminal with a question or a notice over it: output of the sandbox waits until the screen is
//! given back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use pinfold_host::io::{small_thread, timespec};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::termios::Winsize;

use crate::screen::{Modes, UNFINISHED};

/// Bytes that are moved at once.
const CHUNK: usize = 64 * 1024;
/// Takes away what could hide a question or move it, whichever program asked for it: text for the line of the
/// terminal's state, cells that are not erased (DECSCA ends ISO's protection, too), rows that scroll by themselves, an
/// origin that moves with them, margins, text that pushes other text away, other characters, attributes, and waiting
/// with what is drawn (ECMA-48, xterm's control sequences, synchronized output).
const PLAIN: &str = "\x1b[0$}\x1b[0\"q\x1b[?6l\x1b[?69l\x1b[r\x1b[4l\x1b(B\x0f\x1b[0m\x1b[?2026l";
/// Keys that wait for a sandbox that does not read.
const MOST_KEYS: usize = 64 * 1024;

/// What a user typed while the screen was held, as it came.
#[derive(Debug)]
pub struct Typed {
    /// When.
    pub at: Instant,
    pub bytes: Vec<u8>,
}

/// Between the caller's terminal and the sandbox's.
#[derive(Debug, Default)]
pub struct Passage {
    ends: OnceLock<Ends>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct Ends {
    caller: OwnedFd,
    inside: OwnedFd,
}

/// Who gets what is typed while the screen is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The holder alone: a key answers its question.
    ToHolder,
    /// The sandbox, as without a holder, which only learns of them.
    ToSandbox,
}

#[derive(Debug, Default)]
struct State {
    /// Set while somebody holds the screen.
    held: Option<Keys>,
    typed: Vec<Typed>,
    modes: Modes,
    /// Notices have to be off the screen.
    is_quiet: bool,
    is_over: bool,
}

impl State {
    /// Returns whether the holder of the screen has to give it back now.
    fn is_recalled(&self) -> bool {
        self.is_over || self.is_quiet && self.held == Some(Keys::ToSandbox)
    }
}

impl Passage {
    /// Moves bytes in both directions from now on. The handle is for output: its end has to be
    /// waited for.
    ///
    /// # Errors
    /// Returns the error of `fcntl(2)` and starting a thread.
    pub fn start(
        self: &Arc<Self>,
        caller: BorrowedFd<'_>,
        inside: BorrowedFd<'_>,
    ) -> io::Result<JoinHandle<()>> {
        let duplicate = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        rustix::io::ioctl_fionbio(inside, true)?;
        let ends = Ends { caller: duplicate(caller)?, inside: duplicate(inside)? };
        if self.ends.set(ends).is_err() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let input = Arc::clone(self);
        small_thread("terminal", move || input.move_keys())?;
        let output = Arc::clone(self);
        small_thread("terminal", move || output.move_output())
    }

    /// Returns whether this process may use the terminal now: it belongs to its foreground job.
    pub fn is_foreground(&self) -> bool {
        let Some(ends) = self.ends.get() else { return false };
        let own = rustix::process::getpgrp();
        rustix::termios::tcgetpgrp(&ends.caller).is_ok_and(|group| group == own)
    }

    /// Ends the use of the screen by questions and notices. Returns once the screen was given back.
    pub fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        self.changed.notify_all();
        while state.held.is_some() {
            self.changed.wait(&mut state);
        }
    }

    /// Takes notices off the screen, and shows none until the work is done, as while the terminal is the shell's.
    pub fn without_notices(&self, work: impl FnOnce()) {
        let mut state = self.state();
        state.is_quiet = true;
        self.changed.notify_all();
        while state.held == Some(Keys::ToSandbox) {
            self.changed.wait(&mut state);
        }
        drop(state);
        work();
        self.state().is_quiet = false;
        self.changed.notify_all();
    }

    /// Takes the screen, once nobody else holds it. All that the sandbox has written is on it. Returns `None` at
    /// the end of the session.
    pub fn hold(&self, keys: Keys) -> Option<Held<'_>> {
        let mut state = self.state();
        let must_wait =
            |state: &State| state.held.is_some() || state.is_quiet && keys == Keys::ToSandbox;
        while must_wait(&state) && !state.is_over {
            self.changed.wait(&mut state);
        }
        if state.is_over {
            return None;
        }
        state.held = Some(keys);
        state.typed.clear();
        let (is_alternate, colours) = (state.modes.is_alternate(), state.modes.usual_colours());
        drop(state);
        Some(Held { passage: self, is_alternate, colours })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn move_output(&self) {
        let Some(ends) = self.ends.get() else { return };
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = match rustix::io::read(&ends.inside, &mut buffer[..]) {
                Ok(0) => return,
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    if ready(&ends.inside, PollFlags::IN).is_err() {
                        return;
                    }
                    continue;
                }
                // EIO is how a terminal whose other side is closed says so (pty(7)).
                Err(_) => return,
            };
            let mut state = self.state();
            while state.held.is_some() {
                self.changed.wait(&mut state);
            }
            state.modes.follow(&buffer[..count]);
            crate::notify::follow(&buffer[..count]);
            // Under the lock, so that nobody takes the screen in the middle of it.
            if write_all(ends.caller.as_fd(), &buffer[..count]).is_err() {
                return;
            }
        }
    }

    fn move_keys(&self) {
        let Some(ends) = self.ends.get() else { return };
        let (mut keys, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let mut wanted = Vec::new();
            if keys.len() < MOST_KEYS {
                wanted.push(PollFd::new(&ends.caller, PollFlags::IN));
            }
            let first = wanted.len();
            if !keys.is_empty() {
                wanted.push(PollFd::new(&ends.inside, PollFlags::OUT));
            }
            if rustix::io::retry_on_intr(|| rustix::event::poll(&mut wanted, None)).is_err() {
                return;
            }
            let is = |index: usize| wanted.get(index).is_some_and(|it| !it.revents().is_empty());
            let (is_typed, takes) = (first == 1 && is(0), is(first));
            if is_typed {
                match rustix::io::read(&ends.caller, &mut buffer[..]) {
                    Ok(0) => return,
                    Ok(count) => self.typed(&buffer[..count], &mut keys),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => return,
                }
            }
            if takes {
                match rustix::io::write(&ends.inside, &keys) {
                    Ok(count) => drop(keys.drain(..count)),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => return,
                }
            }
        }
    }

    /// Gives what was typed to the holder of the screen, to the sandbox, or to both.
    fn typed(&self, bytes: &[u8], keys: &mut Vec<u8>) {
        let mut state = self.state();
        if state.held != Some(Keys::ToHolder) {
            keys.extend_from_slice(bytes);
        }
        if state.held.is_some() {
            state.typed.push(Typed { at: Instant::now(), bytes: bytes.to_vec() });
            self.changed.notify_all();
        }
    }
}

/// The screen while pinfold draws on it; given back with the value.
pub struct Held<'a> {
    passage: &'a Passage,
    is_alternate: bool,
    /// Takes back colours in which nothing is seen.
    colours: &'static str,
}

impl Held<'_> {
    /// Begins to draw. A program that draws on the whole screen is asked to draw again afterwards;
    /// what other programs have written lies beneath the alternate screen, untouched.
    pub fn open(&self) {
        self.draw(taken(self.is_alternate, self.colours).as_bytes());
    }

    /// Writes to the terminal.
    pub fn draw(&self, bytes: &[u8]) {
        if let Some(ends) = self.passage.ends.get() {
            // A terminal that is gone shows nothing, and answers nothing.
            let _ = write_all(ends.caller.as_fd(), bytes);
        }
    }

    /// Rows and columns; what a terminal has that does not say.
    pub fn size(&self) -> (usize, usize) {
        let size = self.passage.ends.get().map(|ends| rustix::termios::tcgetwinsize(&ends.caller));
        match size {
            Some(Ok(size)) if size.ws_row > 0 && size.ws_col > 0 => {
                (size.ws_row.into(), size.ws_col.into())
            }
            _ => (24, 80),
        }
    }

    /// Returns whether the screen has to be given back now.
    pub fn is_recalled(&self) -> bool {
        self.passage.state().is_recalled()
    }

    /// Returns what was typed next; `None` if nothing was for so long.
    pub fn typed(&self, patience: Duration) -> Option<Typed> {
        let mut state = self.passage.state();
        if state.typed.is_empty() && !state.is_recalled() {
            let _ = self.passage.changed.wait_for(&mut state, patience);
        }
        if state.typed.is_empty() { None } else { Some(state.typed.remove(0)) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.draw(given_back(self.is_alternate).as_bytes());
        if let Some(ends) = self.passage.ends.get().filter(|_| self.is_alternate) {
            draw_again(&ends.inside);
        }
        let mut state = self.passage.state();
        state.held = None;
        state.typed.clear();
        drop(state);
        self.passage.changed.notify_all();
    }
}

/// Returns what takes the screen of a terminal: the alternate one, over what the program has written.
pub(crate) fn taken(is_alternate: bool, colours: &str) -> String {
    // Keys come as themselves, whatever the program asked the terminal for (kitty's protocol;
    // other terminals skip it).
    let enter = if is_alternate { "\x1b7" } else { "\x1b[?1049h" };
    format!("{UNFINISHED}{colours}{enter}\x1b[>0u{PLAIN}")
}

/// Returns what gives it back. A program on the alternate screen has to draw again.
pub(crate) fn given_back(is_alternate: bool) -> String {
    let leave = if is_alternate { "\x1b[2J\x1b8" } else { "\x1b[?1049l" };
    format!("{UNFINISHED}\x1b[0m\x1b[<1u{leave}")
}

/// Has the program inside draw its screen again: sends it another size, and the right one after it
/// (SIGWINCH twice; programs skip one that changes nothing).
fn draw_again(inside: &OwnedFd) {
    if let Ok(size) = rustix::termios::tcgetwinsize(inside) {
        let other = Winsize { ws_row: size.ws_row.saturating_sub(1).max(1), ..size };
        // A terminal that is gone has no size.
        let _ = rustix::termios::tcsetwinsize(inside, other);
        let _ = rustix::termios::tcsetwinsize(inside, size);
    }
}

fn ready(fd: &OwnedFd, flags: PollFlags) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut [PollFd::new(fd, flags)], None))?;
    Ok(())
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let patience = timespec(Duration::from_secs(1));
                let mut wanted = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
                rustix::event::poll(&mut wanted, Some(&patience))?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
