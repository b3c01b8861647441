//! Who serves the host-exec door: nobody until somebody comes, then a thread for each client.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use pinfold_host::io::small_thread;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::client::Client;
use crate::context::Context;
use crate::conversation::converse;

/// Clients at once; who comes later waits to be heard.
const MOST: usize = 256;

/// The door of a session, and who serves it.
pub struct Broker {
    listener: Option<OwnedFd>,
    context: Arc<Context>,
    stop: Arc<OwnedFd>,
    serving: Option<JoinHandle<()>>,
}

impl Broker {
    /// Serves nothing yet.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)`.
    pub fn new(listener: OwnedFd, context: Context) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (listener, context) = (Some(listener), Arc::new(context));
        Ok(Self { listener, context, stop: Arc::new(stop), serving: None })
    }

    /// Returns a descriptor that is readable when somebody comes for the first time.
    pub fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Starts to serve: somebody has come.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(&mut self) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (context, stop) = (Arc::clone(&self.context), Arc::clone(&self.stop));
        let serving = small_thread("host-exec", move || serve(&listener, &context, &stop));
        self.serving = Some(serving?);
        Ok(())
    }

    /// Ends the serving. Nobody is asked any more, and everything inside has ended, so every client is
    /// gone, and what ran for it is being ended.
    pub fn stop(&mut self) {
        let _ = rustix::io::write(self.stop.as_ref(), &1_u64.to_ne_bytes());
        if let Some(serving) = self.serving.take() {
            // A panic in it has been reported by its own thread.
            let _ = serving.join();
        }
    }
}

/// Hears clients until it is asked to stop, then waits for those that are left.
fn serve(listener: &OwnedFd, context: &Arc<Context>, stop: &OwnedFd) {
    let clients = Arc::new(Clients::default());
    loop {
        let mut ready = [PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None)).is_err()
            || !ready[0].revents().is_empty()
        {
            break;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(listener, flags) {
            Ok(socket) => {
                let place = clients.enter();
                let context = Arc::clone(context);
                // Without a thread the client is parted with.
                let _ = small_thread("host-exec", move || {
                    let _place = place;
                    converse(&context, &Client::new(socket));
                });
                clients.wait_for_fewer_than(MOST);
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            // No descriptor is free until a client has gone.
            Err(_) => clients.wait_for_a_change(),
        }
    }
    clients.wait_for_fewer_than(1);
}

/// Counts clients.
#[derive(Default)]
struct Clients {
    count: Mutex<usize>,
    changed: Condvar,
}

/// A client that is counted as long as this lives.
struct Place(Arc<Clients>);

impl Clients {
    fn enter(self: &Arc<Self>) -> Place {
        *self.count.lock() += 1;
        Place(Arc::clone(self))
    }

    fn wait_for_fewer_than(&self, most: usize) {
        let mut count = self.count.lock();
        while *count >= most {
            self.changed.wait(&mut count);
        }
    }

    fn wait_for_a_change(&self) {
        const LOOK: std::time::Duration = std::time::Duration::from_millis(100);
        let mut count = self.count.lock();
        let _ = self.changed.wait_for(&mut count, LOOK);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}
