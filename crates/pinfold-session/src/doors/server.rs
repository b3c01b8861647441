//! The thread that serves the doors: from when something first comes, and as often as it takes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use pinfold_egress::{Egress, StopHandle, stop_channel};
use pinfold_host::faults::Faults;
use rustix::pipe::PipeFlags;

use crate::RunError;

use crate::doors::records::Records;

/// How often the doors of one session are served again after an internal error.
const MOST_RESTARTS: u32 = 10;

/// The doors of a session, and who serves them.
pub(crate) struct DoorServer {
    /// Gone once they have failed too often; then the kernel refuses connections.
    egress: Option<Arc<Egress>>,
    records: Arc<Records>,
    /// Watched from the first connection on: a command that never uses the doors pays for none.
    faults: Option<Faults>,
    thread: Option<Thread>,
    restarts: u32,
}

struct Thread {
    stop: StopHandle,
    handle: JoinHandle<io::Result<()>>,
    /// Ends when the thread does, however it does.
    ended: OwnedFd,
}

impl DoorServer {
    /// Serves nothing yet.
    pub(crate) fn new(egress: Egress, records: Arc<Records>) -> Self {
        let egress = Some(Arc::new(egress));
        Self { egress, records, faults: None, thread: None, restarts: 0 }
    }

    /// Returns what to wait for: somebody who comes to a door, or news of the thread that serves them.
    pub(crate) fn waiting(&self) -> Vec<BorrowedFd<'_>> {
        let faults = self.faults.iter().map(Faults::waiting);
        match (&self.thread, &self.egress) {
            (Some(thread), _) => faults.chain([thread.ended.as_fd()]).collect(),
            (None, Some(egress)) => faults.chain(egress.sockets()).collect(),
            (None, None) => faults.collect(),
        }
    }

    /// Deals with what was waited for.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub(crate) fn turn(&mut self) -> Result<(), RunError> {
        self.report_faults();
        match self.thread.take() {
            Some(thread) if thread.is_over() => {
                self.over(thread);
                Ok(())
            }
            Some(thread) => {
                self.thread = Some(thread);
                Ok(())
            }
            None => self.start(),
        }
    }

    fn start(&mut self) -> Result<(), RunError> {
        let Some(egress) = self.egress.clone() else { return Ok(()) };
        if self.faults.is_none() {
            self.faults = Some(Faults::watch().map_err(RunError::thread)?);
        }
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let pipe = rustix::pipe::pipe_with(flags);
        let (ended, alive) = pipe.map_err(|errno| RunError::thread(errno.into()))?;
        let (stop, stopped) = stop_channel();
        let serve = move || {
            let _alive = alive;
            egress.serve(stopped)
        };
        let handle = std::thread::Builder::new()
            .name("egress".to_owned())
            .spawn(serve)
            .map_err(RunError::thread)?;
        self.thread = Some(Thread { stop, handle, ended });
        Ok(())
    }

    /// Notes that nobody serves any more: the next client is served by another thread.
    fn over(&mut self, thread: Thread) {
        let why = match thread.handle.join() {
            Ok(Ok(())) => "ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "broke".to_owned(),
        };
        self.report_faults();
        self.restarts += 1;
        if self.restarts <= MOST_RESTARTS {
            self.records.fault(&format!("{why}; the doors are served again"));
        } else {
            self.egress = None;
            self.records.fault(&format!("{why}, too often; the doors stay shut in this session"));
        }
    }

    fn report_faults(&self) {
        for place in self.faults.iter().flat_map(Faults::taken) {
            self.records.fault(&format!("a connection or a thread broke at {place}"));
        }
    }

    /// Ends the serving.
    pub(crate) fn stop(self) {
        if let Some(Thread { stop, handle, .. }) = self.thread {
            stop.stop();
            let _ = handle.join();
        }
    }
}

impl Thread {
    /// Returns whether the other end of the pipe is gone.
    fn is_over(&self) -> bool {
        rustix::io::read(&self.ended, &mut [0_u8; 1]) == Ok(0)
    }
}
