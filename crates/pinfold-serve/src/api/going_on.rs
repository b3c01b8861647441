//! What goes on for one connection, by its numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use parking_lot::Mutex;
use pinfold_client::{Fault, Id, code};
use pinfold_host::directories::Places;
use pinfold_session::control::{self, Running, Session};
use pinfold_tools::{ErrorKind, ToolError, Tools};
use rustix::event::{PollFd, PollFlags};

use crate::exec::fault;
use crate::start::Started;

/// Requests of one connection that take long, at once.
const AT_ONCE: usize = 64;
/// Programs and watches of one connection at once.
const RUNNING: usize = 256;
/// Requests that wait until a program reads its input,
const INPUTS: usize = 64;
/// and bytes of them, unless it is one request alone.
const INPUT_BYTES: usize = 16 << 20;

/// What is to be written to a program's input, and whose request that answers.
pub(crate) struct Input {
    pub(crate) id: Option<Id>,
    pub(crate) data: Vec<u8>,
    pub(crate) end: bool,
}

/// A program that a client has started.
pub(crate) struct ExecHandle {
    pub(crate) running: Arc<Running>,
    pub(crate) input: Option<Inlet>,
}

/// Where a program's input is handed in.
pub(crate) struct Inlet {
    sender: SyncSender<Input>,
    /// Bytes that wait.
    waiting: Arc<AtomicUsize>,
}

/// Where it is taken from.
pub(crate) struct Outlet {
    inputs: Receiver<Input>,
    waiting: Arc<AtomicUsize>,
}

pub(crate) fn input() -> (Inlet, Outlet) {
    let (sender, inputs) = sync_channel(INPUTS);
    let waiting = Arc::new(AtomicUsize::new(0));
    (Inlet { sender, waiting: Arc::clone(&waiting) }, Outlet { inputs, waiting })
}

/// How something is taken back.
pub(crate) type TakeBack = Arc<dyn Fn() + Send + Sync>;

/// A request that takes long.
#[derive(Default)]
struct Request {
    take_back: Option<TakeBack>,
    /// Whether it was taken back, maybe before it could say how.
    is_taken_back: bool,
}

/// What goes on.
pub(crate) struct GoingOn {
    places: Places,
    next: AtomicU64,
    /// By their ids as text, which distinguishes a number from a string.
    requests: Mutex<HashMap<String, Request>>,
    pub(crate) execs: Mutex<HashMap<u64, ExecHandle>>,
    watches: Mutex<HashMap<u64, TakeBack>>,
    /// Whether the client has gone: what its requests still begin is taken back at once.
    is_over: AtomicBool,
    tools: Mutex<HashMap<String, Arc<Tools>>>,
    owned: Mutex<HashMap<String, Started>>,
}

impl GoingOn {
    pub(crate) fn new(places: Places) -> Self {
        Self {
            places,
            next: AtomicU64::new(1),
            requests: Mutex::default(),
            execs: Mutex::default(),
            watches: Mutex::default(),
            is_over: AtomicBool::new(false),
            tools: Mutex::default(),
            owned: Mutex::default(),
        }
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn session(&self, name: &str) -> Result<Session, Fault> {
        Session::find(&self.places, name).map_err(fault)
    }

    /// Keeps a session until the connection ends.
    pub(crate) fn own(&self, started: Started) {
        self.owned.lock().insert(started.session().to_owned(), started);
    }

    /// Lets go of a session that has ended.
    pub(crate) fn disown(&self, session: &str) {
        drop(self.owned.lock().remove(session));
        self.tools.lock().clear();
    }

    /// Uses a session's tools, which are asked for once.
    pub(crate) fn with_tools<T>(
        &self,
        session: &str,
        with: impl FnOnce(&Tools) -> Result<T, ToolError>,
    ) -> Result<T, Fault> {
        let tools = self.tools(session)?;
        with(&tools).map_err(|error| {
            if error.kind == ErrorKind::Gone {
                // The next request asks for new ones.
                self.tools.lock().retain(|_, other| !Arc::ptr_eq(other, &tools));
            }
            error.into()
        })
    }

    pub(crate) fn tools(&self, session: &str) -> Result<Arc<Tools>, Fault> {
        if let Some(tools) = self.tools.lock().get(session) {
            return Ok(Arc::clone(tools));
        }
        let tools = Arc::new(self.session(session)?.tools().map_err(fault)?);
        Ok(Arc::clone(self.tools.lock().entry(session.to_owned()).or_insert(tools)))
    }

    /// Begins something that takes long.
    pub(crate) fn begin(&self, id: &Id) -> Result<(), Fault> {
        let mut requests = self.requests.lock();
        if requests.len() >= AT_ONCE {
            let hint = Some("wait for an answer, or cancel a request");
            return Err(Fault::refused("too many requests at once", hint));
        }
        match requests.entry(id.to_string()) {
            Entry::Occupied(_) => {
                Err(Fault::new(code::REQUEST, "a request with this id is still being answered"))
            }
            Entry::Vacant(place) => {
                place.insert(Request::default());
                Ok(())
            }
        }
    }

    /// Says how what has begun is taken back, which is done now if it was to be before.
    pub(crate) fn can_be_taken_back(&self, id: &Id, take_back: TakeBack) {
        let is_late = {
            let mut requests = self.requests.lock();
            let request = requests.entry(id.to_string()).or_default();
            request.take_back = Some(Arc::clone(&take_back));
            request.is_taken_back || self.is_over()
        };
        // Not under the lock: the sandbox may be slow to hear of it.
        if is_late {
            take_back();
        }
    }

    pub(crate) fn end(&self, id: &Id) {
        self.requests.lock().remove(&id.to_string());
    }

    pub(crate) fn cancel(&self, id: &Id) {
        let take_back = self.requests.lock().get_mut(&id.to_string()).and_then(|request| {
            request.is_taken_back = true;
            request.take_back.clone()
        });
        if let Some(take_back) = take_back {
            take_back();
        }
    }

    /// Says how a watch is ended, which is done now if the client has gone.
    pub(crate) fn watches(&self, number: u64, take_back: TakeBack) {
        let is_late = {
            let mut watches = self.watches.lock();
            watches.insert(number, Arc::clone(&take_back));
            self.is_over()
        };
        if is_late {
            take_back();
        }
    }

    /// Forgets a watch that has ended.
    pub(crate) fn forget_watch(&self, number: u64) {
        self.watches.lock().remove(&number);
    }

    /// Ends a watch, if there is such a one.
    pub(crate) fn end_watch(&self, number: u64) -> Result<(), Fault> {
        let take_back = self.watches.lock().get(&number).cloned();
        let none = || Fault::refused("no such watch, or it has ended", None);
        take_back.map(|take_back| take_back()).ok_or_else(none)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn has_room(&self) -> Result<(), Fault> {
        if self.execs.lock().len() + self.watches.lock().len() < RUNNING {
            Ok(())
        } else {
            Err(Fault::refused("too many programs and watches at once", None))
        }
    }

    /// Hands in what is to be written; the answer follows when it is.
    pub(crate) fn write(&self, exec: u64, input: Input) -> Result<(), Fault> {
        let none = |what: &str| Err(Fault::refused(what, None));
        match self.execs.lock().get(&exec) {
            None => none("no such program, or it has ended"),
            Some(ExecHandle { input: None, .. }) => none("it has no input"),
            Some(ExecHandle { input: Some(Inlet { sender, waiting }), .. }) => {
                let (bytes, before) = (input.data.len(), waiting.load(Ordering::Relaxed));
                if before > 0 && before.saturating_add(bytes) > INPUT_BYTES {
                    return none("too much waits to be read by it");
                }
                waiting.fetch_add(bytes, Ordering::Relaxed);
                sender.try_send(input).or_else(|error| {
                    waiting.fetch_sub(bytes, Ordering::Relaxed);
                    match error {
                        TrySendError::Full(_) => none("too much waits to be read by it"),
                        TrySendError::Disconnected(_) => none("its input has ended"),
                    }
                })
            }
        }
    }

    /// Ends everything: the client has gone.
    pub(crate) fn end_all(&self) {
        // Before the tables are read: later users of them check whether it is over.
        self.is_over.store(true, Ordering::SeqCst);
        let of_requests: Vec<TakeBack> =
            self.requests.lock().values().filter_map(|request| request.take_back.clone()).collect();
        let of_watches: Vec<TakeBack> = self.watches.lock().values().cloned().collect();
        of_requests.iter().chain(&of_watches).for_each(|take_back| take_back());
        self.execs.lock().values().for_each(|exec| exec.running.kill());
        self.tools.lock().clear();
        let owned = std::mem::take(&mut *self.owned.lock());
        drop(owned);
    }
}

/// Writes what is handed in, in its order, until there is no more or nobody reads. The end is typed
/// where it is a terminal, which stays open for its output.
pub(crate) fn feed(
    pipe: OwnedFd,
    Outlet { inputs, waiting }: Outlet,
    answer: impl Fn(Id, Result<(), Fault>),
) {
    let mut pipe = Some(File::from(pipe));
    let mut is_complete = true;
    for Input { id, data, end } in inputs {
        let written = match &pipe {
            Some(file) => {
                is_complete = data.last().map_or(is_complete, |last| *last == b'\n');
                let keys =
                    if end { control::end_of_input(file.as_fd(), is_complete) } else { Vec::new() };
                let written = write_all(file, &data).and_then(|()| write_all(file, &keys));
                written.map_err(|error| Fault::refused(format!("its input: {error}"), None))
            }
            None => Err(Fault::refused("its input has ended", None)),
        };
        waiting.fetch_sub(data.len(), Ordering::Relaxed);
        if end || written.is_err() {
            pipe = None;
        }
        if let Some(id) = id {
            answer(id, written);
        }
    }
}

/// Writes all of it, waiting for room, until nobody is there to read it.
fn write_all(mut to: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut room = [PollFd::new(&to, PollFlags::OUT)];
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut room, None))?;
                if room[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
