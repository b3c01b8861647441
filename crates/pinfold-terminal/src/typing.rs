//! Keys on their way to a program that may read them late.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Pieces of what was typed that wait for a program to read them. More are lost, as in any terminal.
const WAITING: usize = 64;
/// How long a detached terminal waits for a program to take what was typed before.
const LAST_KEYS: Duration = Duration::from_secs(1);

/// Types into a session's terminal on a thread of its own: a program that reads nothing must not keep
/// anybody from detaching.
#[derive(Debug)]
pub struct Typing {
    waiting: SyncSender<Vec<u8>>,
    /// Closed when all of it is written.
    written: Receiver<Infallible>,
}

impl Typing {
    /// Types into this terminal from now on.
    ///
    /// # Errors
    /// Returns the error of starting a thread.
    pub fn start(terminal: OwnedFd) -> io::Result<Self> {
        let (waiting, next) = sync_channel::<Vec<u8>>(WAITING);
        let (writer, written) = sync_channel(0);
        let write = move || {
            let _writer: SyncSender<Infallible> = writer;
            let mut terminal = File::from(terminal);
            // A terminal whose other side is gone takes nothing; the end of the session is reported
            // elsewhere.
            while let Ok(bytes) = next.recv()
                && terminal.write_all(&bytes).is_ok()
            {}
        };
        std::thread::Builder::new().spawn(write)?;
        Ok(Self { waiting, written })
    }

    /// Types this after what waits.
    pub fn keys(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            // What a program does not read is lost, as where a terminal's own buffer is full.
            let _ = self.waiting.try_send(bytes);
        }
    }

    /// Waits a moment for what was typed last.
    pub fn finish(self) {
        drop(self.waiting);
        // Either way it is over: closed, or nobody reads it.
        let _ = self.written.recv_timeout(LAST_KEYS);
    }
}
