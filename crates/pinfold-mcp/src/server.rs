//! One client, and what it is answered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};
use pinfold_client::{Fault, Id, Message, code, read_bounded_line, write_line};
use serde_json::{Value, json};

use crate::call::Call;
use crate::revision::{self, Era};
use crate::toolset::{self, Asked, Failure, Toolset};

/// What one client may have of this process.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Calls at once.
    pub at_once: usize,
    /// Bytes of a message.
    pub longest: usize,
}

/// A server for one client.
pub struct Server {
    toolsets: Vec<Arc<dyn Toolset>>,
    bounds: Bounds,
    instructions: &'static str,
    to: Mutex<Box<dyn Write + Send>>,
    /// Calls that go on or whose answers are under way, by their ids as text.
    calls: Mutex<HashMap<String, Arc<Call>>>,
    /// Notified when one of them is over.
    over: Condvar,
    /// Whether an answer was not taken: what comes after half a line could not be read.
    is_deaf: AtomicBool,
}

/// A call's place among those that go on, until its answer has been taken.
struct Place {
    server: Arc<Server>,
    id: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.server.calls.lock().remove(&self.id);
        self.server.over.notify_all();
    }
}

impl Server {
    /// Offers tools to a client that reads here, and tells it how to use them.
    #[must_use]
    pub fn new(
        toolsets: Vec<Arc<dyn Toolset>>,
        bounds: Bounds,
        instructions: &'static str,
        to: impl Write + Send + 'static,
    ) -> Arc<Self> {
        let (to, calls) = (Mutex::new(Box::new(to) as _), Mutex::default());
        let (over, is_deaf) = (Condvar::new(), AtomicBool::new(false));
        Arc::new(Self { toolsets, bounds, instructions, to, calls, over, is_deaf })
    }

    /// Answers the client until it says nothing more, and takes back the calls that go on then.
    ///
    /// # Errors
    /// Returns the error of reading and writing, also for a message that is too long or an answer that was not taken.
    pub fn serve(self: &Arc<Self>, from: &mut impl BufRead) -> io::Result<()> {
        let read = loop {
            if self.is_deaf.load(Ordering::SeqCst) {
                break Err(io::ErrorKind::TimedOut.into());
            }
            match read_bounded_line(from, self.bounds.longest) {
                Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(Some(line)) => {
                    if let Err(error) = self.take(&line) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.calls.lock().values().for_each(|call| call.cancel());
        read
    }

    /// Waits until no call goes on any more.
    pub(crate) fn wait(&self) {
        let mut calls = self.calls.lock();
        while !calls.is_empty() {
            self.over.wait(&mut calls);
        }
    }

    fn take(self: &Arc<Self>, line: &[u8]) -> io::Result<()> {
        match Message::read(line) {
            Ok(Message::Request { id, method, params }) => match Era::of(&method, &params) {
                Ok(era) if method == "tools/call" => self.call(era, id, params),
                era => {
                    let result = era.and_then(|era| self.answer(era, &method, &params));
                    self.send(&Message::Response { id, result })
                }
            },
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled"
                    && let Some(call) = self.calls.lock().get(&params["requestId"].to_string())
                {
                    call.cancel();
                }
                Ok(())
            }
            // Nothing is asked of clients.
            Ok(Message::Response { .. }) => Ok(()),
            Err((id, fault)) => self.send(&Message::Response { id, result: Err(fault) }),
        }
    }

    /// Calls a tool in a thread of its own.
    fn call(self: &Arc<Self>, era: Era, id: Id, params: Value) -> io::Result<()> {
        let refuse = |fault| self.send(&Message::Response { id: id.clone(), result: Err(fault) });
        let Some(name) = params["name"].as_str().map(str::to_owned) else {
            return refuse(Fault::new(code::PARAMS, "tools/call: name: expected a string"));
        };
        let toolset = self.toolsets.iter().find(|toolset| toolset.has(&name)).cloned();
        let Some(toolset) = toolset else {
            return refuse(Fault::new(code::PARAMS, format!("no tool {name}")));
        };
        let call = Arc::new(Call::default());
        if let Err(fault) = self.begin(&id, &call) {
            return refuse(fault);
        }
        // It is given back after the answer: who reads no answers gets no more calls for it.
        let place = Place { server: Arc::clone(self), id: id.to_string() };
        let of_thread = id.clone();
        let started = thread::Builder::new().name(name.clone()).spawn(move || {
            let server = &place.server;
            let progress = params["_meta"]["progressToken"].clone();
            let report = |done: u64, message: &str| {
                if !call.is_cancelled() {
                    server.progress(&progress, done, message);
                }
            };
            let arguments = params["arguments"].clone();
            let asked = Asked { name: &name, arguments, call: &call, report: &report };
            let result = toolset.call(asked);
            if let Some(said) = toolset::failed(&result) {
                let id = of_thread.to_string();
                let arguments = &params["arguments"];
                let failure = Failure { name: &name, id: &id, arguments, said: &said };
                server.toolsets.iter().for_each(|toolset| toolset.note(&failure));
            }
            let result = result.map(|result| era.complete(result));
            // What was taken back is not answered.
            if !call.is_cancelled()
                && server.send(&Message::Response { id: of_thread, result }).is_err()
            {
                server.is_deaf.store(true, Ordering::SeqCst);
            }
        });
        match started {
            Ok(_) => Ok(()),
            Err(error) => refuse(Fault::refused(error.to_string(), None)),
        }
    }

    fn begin(&self, id: &Id, call: &Arc<Call>) -> Result<(), Fault> {
        let mut calls = self.calls.lock();
        if calls.len() >= self.bounds.at_once {
            return Err(Fault::refused("too many calls at once", None));
        }
        match calls.entry(id.to_string()) {
            Entry::Occupied(_) => {
                Err(Fault::new(code::REQUEST, "a call with this id is still being answered"))
            }
            Entry::Vacant(place) => {
                place.insert(Arc::clone(call));
                Ok(())
            }
        }
    }

    /// Tells how far a call has come, if the client wants to know.
    fn progress(&self, token: &Value, progress: u64, message: &str) {
        if token.is_string() || token.is_number() {
            let params =
                json!({ "progressToken": token, "progress": progress, "message": message });
            let method = "notifications/progress".to_owned();
            // A client that has gone wants to know nothing.
            let _ = self.send(&Message::Notification { method, params });
        }
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        write_line(&mut *self.to.lock(), message)
    }

    fn answer(&self, era: Era, method: &str, params: &Value) -> Result<Value, Fault> {
        match (era, method) {
            (Era::Begun, "initialize") => Ok(revision::initialize(params, self.instructions)),
            (Era::Begun, "ping") => Ok(json!({})),
            (Era::Named, "server/discover") => {
                Ok(era.cacheable(revision::discover(self.instructions)))
            }
            (_, "tools/list") => {
                let tools: Vec<Value> =
                    self.toolsets.iter().flat_map(|toolset| toolset.definitions()).collect();
                Ok(era.cacheable(json!({ "tools": tools })))
            }
            _ => Err(Fault::new(code::METHOD, format!("no method {method}"))),
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}
