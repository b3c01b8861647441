//! A channel: one program, and its streams within the windows of both sides (RFC 4254, sections 5 and 6).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::SshError;
use crate::connection::{
    CHANNEL_CLOSE, CHANNEL_DATA, CHANNEL_EOF, CHANNEL_REQUEST, EXTENDED_DATA, Sender, WINDOW_ADJUST,
};
use crate::message::Message;
use crate::program::{Command, Program, Size, StartProgram, Started, What};

/// Bytes that a client may send before a program has read them.
pub(crate) const WINDOW: u32 = 1 << 20;
/// Variables that a client may ask for.
const MOST_VARIABLES: usize = 64;
/// How long what a program has left running may keep its outputs open without writing.
const QUIET: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// What a terminal reads as the end of its input.
const END_OF_INPUT: u8 = 4;

/// The only kind of extended data.
const STDERR: u32 = 1;

/// A channel as the client's messages see it.
pub(crate) struct Channel {
    shared: Arc<Shared>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    terminal: Option<Size>,
    input: Option<mpsc::Sender<Vec<u8>>>,
    program: Option<Arc<dyn Program>>,
    /// Whether a program was started, or could not be.
    is_started: bool,
}

/// What the threads of a channel share.
struct Shared {
    theirs: u32,
    largest: u32,
    sender: Arc<Sender>,
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes that were sent.
    sent: AtomicU64,
}

struct State {
    /// Bytes that may be sent.
    window: u32,
    /// Bytes that the client may send.
    own_window: u32,
    /// Whether output waits for the client.
    is_waiting: bool,
    /// Nothing is sent after the channel was closed.
    is_closed: bool,
}

impl Channel {
    pub(crate) fn new(theirs: u32, window: u32, largest: u32, sender: &Arc<Sender>) -> Self {
        let state = State { window, own_window: WINDOW, is_waiting: false, is_closed: false };
        let shared = Arc::new(Shared {
            theirs,
            largest: largest.max(1),
            sender: Arc::clone(sender),
            state: Mutex::new(state),
            changed: Condvar::new(),
            sent: AtomicU64::new(0),
        });
        let (env, is_started) = (Vec::new(), false);
        Self { shared, env, terminal: None, input: None, program: None, is_started }
    }

    /// Returns whether nothing was started on it.
    pub(crate) fn is_free(&self) -> bool {
        !self.is_started && !self.shared.state.lock().is_closed
    }

    pub(crate) fn answer(&self, kind: u8) -> Result<(), SshError> {
        self.shared.sender.send(Message::of(kind).number(self.shared.theirs))
    }

    pub(crate) fn set_terminal(&mut self, term: Vec<u8>, size: Size) -> bool {
        self.terminal = Some(size);
        self.set_variable(b"TERM", &term)
    }

    pub(crate) fn set_variable(&mut self, name: &[u8], value: &[u8]) -> bool {
        let has_room = self.env.len() < MOST_VARIABLES;
        if has_room {
            self.env.push((name.to_vec(), value.to_vec()));
        }
        has_room
    }

    pub(crate) fn resize(&mut self, size: Size) -> bool {
        let Some(terminal) = &mut self.terminal else { return false };
        *terminal = size;
        if let Some(program) = &self.program {
            program.resize(size);
        }
        true
    }

    pub(crate) fn signal(&self, name: &[u8]) -> bool {
        match (&self.program, str::from_utf8(name)) {
            (Some(program), Ok(name)) => {
                program.signal(name);
                true
            }
            _ => false,
        }
    }

    /// Lets more be sent.
    pub(crate) fn widen(&self, by: u32) -> Result<(), SshError> {
        let mut state = self.shared.state.lock();
        let wider = state.window.checked_add(by);
        state.window = wider.ok_or(SshError::Malformed("a window that is too large"))?;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Takes input for the program.
    pub(crate) fn take(&self, data: &[u8]) -> Result<(), SshError> {
        let mut state = self.shared.state.lock();
        let left =
            u32::try_from(data.len()).ok().and_then(|length| state.own_window.checked_sub(length));
        state.own_window = left.ok_or(SshError::Malformed("more than the window allows"))?;
        drop(state);
        if let Some(input) = &self.input {
            // A program that reads no more gets none.
            let _ = input.send(data.to_vec());
        }
        Ok(())
    }

    pub(crate) fn end_input(&mut self) {
        drop(self.input.take());
    }

    /// Closes it, because the client has done so.
    pub(crate) fn close(self) {
        self.shared.close();
        self.kill();
    }

    /// Ends the program, and what waits for the client.
    pub(crate) fn kill(&self) {
        if let Some(program) = &self.program {
            program.kill();
        }
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
    }

    /// Starts a program. What hinders that is shown to the client as its error output.
    pub(crate) fn start(&mut self, what: What, start: &dyn StartProgram) -> Result<(), SshError> {
        let (env, terminal) = (std::mem::take(&mut self.env), self.terminal);
        let shared = Arc::clone(&self.shared);
        self.is_started = true;
        let started = match start.start(Command { what, env, terminal }) {
            Ok(started) => started,
            // Not here: the client may have given no window yet, and this thread is the one that hears of more.
            Err(error) => {
                return thread(move || {
                    shared.write(format!("pinfold: {error}\r\n").as_bytes(), Some(STDERR));
                    shared.conclude(255);
                });
            }
        };
        let Started { input, output, errors, program } = started;
        let (sender, receiver) = mpsc::channel();
        let has_terminal = terminal.is_some();
        self.input = Some(sender);
        self.program = Some(Arc::clone(&program));
        let feeding = Arc::clone(&shared);
        thread(move || feeding.feed(&receiver, &input, has_terminal))?;
        let (ended, outputs) = mpsc::channel::<()>();
        for (stream, kind) in [(Some(output), None), (errors, Some(STDERR))] {
            let Some(stream) = stream else { continue };
            let (showing, ended) = (Arc::clone(&shared), ended.clone());
            thread(move || {
                showing.show(&stream, kind);
                drop(ended);
            })?;
        }
        drop(ended);
        thread(move || {
            let status = program.wait();
            shared.wait_for_outputs(&outputs);
            shared.conclude(status);
        })
    }
}

fn thread(work: impl FnOnce() + Send + 'static) -> Result<(), SshError> {
    std::thread::Builder::new().name("ssh".to_owned()).spawn(work)?;
    Ok(())
}

impl Shared {
    /// Gives a program its input, and the client room for more of it.
    fn feed(&self, input: &Receiver<Vec<u8>>, to: &OwnedFd, is_terminal: bool) {
        let mut is_read = true;
        while let Ok(data) = input.recv() {
            is_read = is_read && write_all(to, &data);
            let length = u32::try_from(data.len()).unwrap_or(0);
            self.state.lock().own_window += length;
            let message = Message::of(WINDOW_ADJUST).number(self.theirs).number(length);
            // The reader of the connection notices that the client has gone.
            let _ = self.send_unless_closed(message);
        }
        if is_terminal && is_read {
            write_all(to, &[END_OF_INPUT]);
        }
    }

    /// Sends what a program writes, until it has ended.
    fn show(&self, from: &OwnedFd, kind: Option<u32>) {
        let mut buffer = vec![0; 32 << 10];
        loop {
            match rustix::io::read(from, &mut buffer[..]) {
                // How a terminal whose other side is closed says so is EIO (pty(7)).
                Ok(0) | Err(Errno::IO) => return,
                Ok(count) => {
                    if !self.write(&buffer[..count], kind) {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut ready = [PollFd::new(from, PollFlags::IN)];
                    let _ = rustix::event::poll(&mut ready, None);
                }
                Err(_) => return,
            }
        }
    }

    /// Sends bytes as the client's window allows; false if there is nobody to send them to.
    fn write(&self, mut bytes: &[u8], kind: Option<u32>) -> bool {
        while !bytes.is_empty() {
            let mut state = self.state.lock();
            while state.window == 0 && !state.is_closed {
                state.is_waiting = true;
                self.changed.wait(&mut state);
                state.is_waiting = false;
            }
            if state.is_closed {
                return false;
            }
            let most = state.window.min(self.largest) as usize;
            let (now, later) = bytes.split_at(most.min(bytes.len()));
            let message = match kind {
                None => Message::of(CHANNEL_DATA).number(self.theirs),
                Some(kind) => Message::of(EXTENDED_DATA).number(self.theirs).number(kind),
            };
            // Under the lock, so that nothing is sent after the end.
            if self.sender.send(message.string(now)).is_err() {
                return false;
            }
            state.window -= u32::try_from(now.len()).unwrap_or(state.window);
            self.sent.fetch_add(now.len() as u64, Ordering::Relaxed);
            bytes = later;
        }
        true
    }

    /// Waits until the outputs of a program that has ended have ended, too. What it has left running with them keeps
    /// nobody waiting; a client that reads slowly gets everything.
    fn wait_for_outputs(&self, outputs: &Receiver<()>) {
        let (mut seen, mut since) = (self.sent.load(Ordering::Relaxed), Instant::now());
        while outputs.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
            let now = self.sent.load(Ordering::Relaxed);
            if now != seen || self.state.lock().is_waiting {
                (seen, since) = (now, Instant::now());
            }
            if since.elapsed() >= QUIET {
                return;
            }
        }
    }

    /// Says how a program has ended, and closes.
    fn conclude(&self, status: u32) {
        let request = Message::of(CHANNEL_REQUEST).number(self.theirs).string(b"exit-status");
        // The reader of the connection notices that the client has gone.
        let _ = self.send_unless_closed(Message::of(CHANNEL_EOF).number(self.theirs));
        let _ = self.send_unless_closed(request.flag(false).number(status));
        self.close();
    }

    fn close(&self) {
        let mut state = self.state.lock();
        if !state.is_closed {
            state.is_closed = true;
            let _ = self.sender.send(Message::of(CHANNEL_CLOSE).number(self.theirs));
        }
        self.changed.notify_all();
    }

    fn send_unless_closed(&self, message: Message) -> Result<(), SshError> {
        let state = self.state.lock();
        if state.is_closed { Ok(()) } else { self.sender.send(message) }
    }
}

/// Writes all bytes, also where that cannot be done at once; false if nobody reads them.
fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut ready = [PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT)];
                let _ = rustix::event::poll(&mut ready, None);
                if ready[0].revents().contains(PollFlags::HUP | PollFlags::ERR) {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}
