//! The terminal of a detached session: shown to every attached client, and written to the log.
//!
//! It is read on a thread of its own, whether somebody is attached or not: a program must not wait because
//! nobody looks. Who is attached gets what was written by a socket that takes what it has room for. What
//! does not fit is skipped for that one alone, and painted again when it takes something again. Keys go
//! into the terminal directly, by a descriptor.

mod modes;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use pinfold_wire::Window;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use rustix::termios::Winsize;

use crate::stdio::{Bounded, STACK};

pub use modes::Modes;
pub(crate) use modes::UNFINISHED;

/// Bytes that a terminal's log holds at most: what is painted over and over needs no gibibyte.
const LONGEST: u64 = 64 << 20;
/// Bytes that are read at once; a terminal gives 4 KiB.
const CHUNK: usize = 16 * 1024;
/// How long another size is shown to have everything painted: programs look at the size after the signal,
/// and some do nothing when it is what it was.
const MOMENT: Duration = Duration::from_millis(100);
/// What comes after a gap. CAN ends a sequence that was cut (ECMA-48, 8.3.5).
const GAP: &[u8] = b"\x18\r\npinfold: something was written faster than it was shown here\r\n";

/// A terminal that can be attached to. Dropping it shows it to nobody any more.
pub struct Screen {
    shared: Arc<Shared>,
    next: u32,
}

struct Shared {
    terminal: OwnedFd,
    /// Wakes the thread when it has something new to wait for.
    wake: OwnedFd,
    state: Mutex<State>,
}

struct State {
    viewers: Vec<Viewer>,
    modes: Modes,
    window: Window,
    /// When to give the terminal its own size back.
    repainting: Option<Instant>,
}

/// Somebody who is attached.
struct Viewer {
    id: u32,
    socket: Arc<OwnedFd>,
    /// None for one who only looks.
    window: Option<Window>,
    is_behind: bool,
}

/// What somebody who attaches is given.
pub struct Seat {
    /// By which to come back to it.
    pub id: u32,
    /// Where what is written comes from.
    pub output: OwnedFd,
    /// Where keys go.
    pub keys: OwnedFd,
}

impl Screen {
    /// Shows a terminal and keeps what is written to it in a log, until its other side is closed, which
    /// the handle waits for.
    ///
    /// # Errors
    /// Returns what eventfd(2), dup(2) and starting a thread say.
    pub fn show(
        terminal: &OwnedFd,
        window: Window,
        log: OwnedFd,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let state = Mutex::new(State {
            viewers: Vec::new(),
            modes: Modes::default(),
            window,
            repainting: None,
        });
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { terminal: terminal.try_clone()?, wake, state });
        let thread = Arc::clone(&shared);
        let mut log = Bounded::new(log.into(), LONGEST);
        let work = move || {
            thread.serve(&mut log);
            log.end();
            // Who is attached sees the end.
            thread.state().viewers.clear();
        };
        let handle = std::thread::Builder::new().stack_size(STACK).spawn(work)?;
        Ok((Self { shared, next: 0 }, handle))
    }

    /// Attaches somebody whose window is so large; one without a window only looks.
    ///
    /// # Errors
    /// Returns the error of `socketpair(2)` and `dup(2)`.
    pub fn attach(&mut self, window: Option<Window>) -> io::Result<Seat> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (ours, output) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        let keys = self.shared.terminal.try_clone()?;
        let (id, socket) = (self.next, Arc::new(ours));
        self.next = self.next.wrapping_add(1);
        let mut state = self.shared.state();
        let mut viewer = Viewer { id, socket, window, is_behind: false };
        viewer.show(&state.modes.enter());
        state.viewers.push(viewer);
        self.shared.fit(&mut state);
        Ok(Seat { id, output, keys })
    }

    /// Somebody's window has another size, or has to be painted again.
    pub fn resize(&self, id: u32, window: Window) {
        let mut state = self.shared.state();
        if let Some(viewer) = state.viewers.iter_mut().find(|viewer| viewer.id == id)
            && viewer.window.is_some()
        {
            viewer.window = Some(window);
        }
        self.shared.fit(&mut state);
    }

    /// Notes that a client has gone.
    pub fn leave(&self, id: u32) {
        let mut state = self.shared.state();
        state.viewers.retain(|viewer| viewer.id != id);
        if state.smallest().is_some_and(|window| window != state.window) {
            self.shared.fit(&mut state);
        }
    }
}

impl State {
    /// Returns what all who may write see whole.
    fn smallest(&self) -> Option<Window> {
        let windows = self.viewers.iter().filter_map(|viewer| viewer.window);
        windows
            .filter(|(rows, columns)| *rows > 0 && *columns > 0)
            .reduce(|(rows, columns), (others, theirs)| (rows.min(others), columns.min(theirs)))
    }
}

impl Shared {
    /// Locks the state, which is whole between any two steps.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Gives the terminal the smallest window, by which everything is painted again.
    fn fit(&self, state: &mut State) {
        let window = state.smallest().unwrap_or(state.window);
        if window == state.window && state.repainting.is_none() {
            let (rows, columns) = window;
            self.set((if rows > 1 { rows - 1 } else { rows + 1 }, columns));
            state.repainting = Some(Instant::now() + MOMENT);
            // It counts the notifications; that nobody has read it for so long is impossible.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        } else if state.repainting.is_none() {
            self.set(window);
        }
        state.window = window;
    }

    fn set(&self, (rows, columns): Window) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal whose other side is gone has no size.
        let _ = rustix::termios::tcsetwinsize(&self.terminal, size);
    }

    /// Reads until nobody holds the other side.
    fn serve(&self, log: &mut Bounded) {
        let mut buffer = vec![0; CHUNK];
        loop {
            let Ok(is_readable) = self.wait() else { return };
            self.catch_up();
            if !is_readable {
                continue;
            }
            // EIO is how a terminal whose other side is closed says so (pty(7)).
            let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.terminal, &mut buffer));
            let Some(bytes) = read.ok().filter(|count| *count > 0).map(|count| &buffer[..count])
            else {
                return;
            };
            log.take(bytes);
            let mut state = self.state();
            state.modes.follow(bytes);
            state.viewers.iter_mut().for_each(|viewer| viewer.show(bytes));
        }
    }

    /// Waits until there is something to read, which it says, or something else to do.
    fn wait(&self) -> Result<bool, Errno> {
        let (behind, until): (Vec<Arc<OwnedFd>>, _) = {
            let state = self.state();
            let behind = state.viewers.iter().filter(|viewer| viewer.is_behind);
            (behind.map(|viewer| Arc::clone(&viewer.socket)).collect(), state.repainting)
        };
        let mut ready = vec![
            PollFd::new(&self.terminal, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        ready.extend(behind.iter().map(|socket| PollFd::new(&**socket, PollFlags::OUT)));
        let patience =
            until.map(|until| until.saturating_duration_since(Instant::now())).map(|patience| {
                Timespec {
                    tv_sec: patience.as_secs() as i64,
                    tv_nsec: i64::from(patience.subsec_nanos()),
                }
            });
        match rustix::event::poll(&mut ready, patience.as_ref()) {
            Ok(_) => Ok(!ready[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Does what it was woken for: a size to be set back, somebody who takes something again.
    fn catch_up(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut state = self.state();
        if state.repainting.is_some_and(|until| Instant::now() >= until) {
            state.repainting = None;
            self.set(state.window);
        }
        let State { viewers, modes, .. } = &mut *state;
        let mut has_gap = false;
        viewers.retain_mut(|viewer| {
            let room = if viewer.is_behind { viewer.room() } else { PollFlags::empty() };
            if room == PollFlags::OUT {
                viewer.is_behind = false;
                viewer.show(&[GAP, &modes.enter()].concat());
                has_gap = true;
            }
            // Nobody takes anything there any more.
            !room.intersects(PollFlags::HUP | PollFlags::ERR)
        });
        if has_gap {
            self.fit(&mut state);
        }
    }
}

impl Viewer {
    /// Shows what there is room for.
    fn show(&mut self, bytes: &[u8]) {
        if self.is_behind || bytes.is_empty() {
            return;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::io::retry_on_intr(|| rustix::net::send(&*self.socket, bytes, flags));
        self.is_behind = sent != Ok(bytes.len());
    }

    /// Returns `OUT` once it has taken most of what it was shown (unix_writable in net/unix/af_unix.c).
    fn room(&self) -> PollFlags {
        let mut ready = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Nothing is ready where poll(2) fails.
        let _ = rustix::event::poll(&mut ready, Some(&at_once));
        ready[0].revents()
    }
}
