//! The Model Context Protocol (modelcontextprotocol.io) on standard streams: the tools of a session
//! for any agent.
//!
//! The caller is a model, and does what it has read somewhere. So everything that decides about the
//! session was said by the user who started this server: a model chooses neither directories nor
//! options, and reaches no session but those of this server.

mod call;
mod definitions;
mod memory;
mod revision;
mod sessions;
mod text;
mod toolset;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use pinfold_client::{Fault, Id, Message, code, read_line, write_line};
use pinfold_host::audit::Audit;
use pinfold_host::session_id::SessionId;
use pinfold_memory::MemoryTools;
use serde_json::{Value, json};

use call::Call;
use memory::Memory;
use revision::Era;
use sessions::Sessions;
use toolset::{Asked, Failure, Toolset};

/// Calls at once.
const AT_ONCE: usize = 64;

/// Serves the Model Context Protocol.
#[derive(Debug)]
pub struct Mcp {
    directory: PathBuf,
    options: Vec<OsString>,
    memory: Option<MemoryTools>,
}

/// One client.
struct Server {
    sessions: Arc<Sessions>,
    toolsets: Vec<Arc<dyn Toolset>>,
    to: Mutex<Box<dyn Write + Send>>,
    /// Calls that go on, by their ids as text.
    calls: Mutex<HashMap<String, Arc<Call>>>,
}

impl Mcp {
    /// Serves tools of sessions that work in this directory, with these options of `pinfold run`, and those of a diary.
    #[must_use]
    pub fn new(directory: PathBuf, options: Vec<OsString>, memory: Option<MemoryTools>) -> Self {
        Self { directory, options, memory }
    }

    /// Answers one client until it says nothing more. Then its sessions end.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn serve(
        self,
        places: pinfold_host::directories::Places,
        mut from: impl BufRead,
        to: impl Write + Send + 'static,
    ) -> io::Result<()> {
        let mut toolsets: Vec<Arc<dyn Toolset>> = Vec::new();
        if let Some(tools) = self.memory {
            // What calls of one server may fill of the log is bounded as for a session.
            let audit = Audit::open(&places.state, Some(SessionId::generate()?))?;
            toolsets.push(Arc::new(Memory::new(tools, audit)));
        }
        let sessions = Arc::new(Sessions::new(places, self.directory, self.options));
        toolsets.insert(0, Arc::clone(&sessions) as _);
        let server = Arc::new(Server {
            sessions,
            toolsets,
            to: Mutex::new(Box::new(to)),
            calls: Mutex::default(),
        });
        let read = loop {
            match read_line(&mut from) {
                Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(Some(line)) => {
                    if let Err(error) = server.take(&line) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        server.calls.lock().values().for_each(|call| call.cancel());
        server.sessions.end_all();
        read
    }
}

impl Server {
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
        let (server, of_thread) = (Arc::clone(self), id.clone());
        let started = thread::Builder::new().name(name.clone()).spawn(move || {
            let progress = params["_meta"]["progressToken"].clone();
            let tell = |done: u64, message: &str| {
                if !call.is_cancelled() {
                    server.progress(&progress, done, message);
                }
            };
            let arguments = params["arguments"].clone();
            let asked = Asked { name: &name, arguments, call: &call, tell: &tell };
            let result = toolset.call(asked);
            if let Some(said) = toolset::failed(&result) {
                let id = of_thread.to_string();
                let arguments = &params["arguments"];
                let failure = Failure { name: &name, id: &id, arguments, said: &said };
                server.toolsets.iter().for_each(|toolset| toolset.note(&failure));
            }
            let result = result.map(|result| era.complete(result));
            server.calls.lock().remove(&of_thread.to_string());
            // What was taken back is not answered; a client that has gone wants no answer.
            if !call.is_cancelled() {
                let _ = server.send(&Message::Response { id: of_thread, result });
            }
        });
        match started {
            Ok(_) => Ok(()),
            Err(error) => {
                self.calls.lock().remove(&id.to_string());
                refuse(Fault::refused(error.to_string(), None))
            }
        }
    }

    fn begin(&self, id: &Id, call: &Arc<Call>) -> Result<(), Fault> {
        let mut calls = self.calls.lock();
        if calls.len() >= AT_ONCE {
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
            (Era::Begun, "initialize") => Ok(revision::initialize(params)),
            (Era::Begun, "ping") => Ok(json!({})),
            (Era::Named, "server/discover") => Ok(era.cacheable(revision::discover())),
            (_, "tools/list") => {
                let tools: Vec<Value> =
                    self.toolsets.iter().flat_map(|toolset| toolset.definitions()).collect();
                Ok(era.cacheable(json!({ "tools": tools })))
            }
            _ => Err(Fault::new(code::METHOD, format!("no method {method}"))),
        }
    }
}
