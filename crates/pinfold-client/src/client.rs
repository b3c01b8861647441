//! A client that several threads may use at once.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;
use pinfold_tools::Incoming;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::api::{
    Call, Ended, ExecExit, ExecOutput, ExecResize, ExecSignal, ExecStart, ExecWrite, FilesChanged,
    FilesUnwatch, FilesWatch, Notification, Stream, TerminalSize,
};
use crate::line::{read_line, write_line};
use crate::message::{Fault, Message};

/// How many events of one program or watch are queued before the connection stops reading.
const WAITING: usize = 64;

/// Why a call failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing listens on the socket, or the connection broke.
    #[error("pinfold serve: {0}")]
    Io(#[from] io::Error),
    /// The server reported an error.
    #[error(transparent)]
    Refused(#[from] Fault),
    /// The server closed the connection.
    #[error("pinfold serve has ended")]
    Gone,
    /// The server's response could not be parsed.
    #[error("pinfold serve answers something else: {0}")]
    Answer(#[from] serde_json::Error),
}

/// A connection to `pinfold serve`. It ends the sessions that it started when it is dropped, except detached ones.
#[derive(Debug)]
pub struct Client {
    socket: Mutex<UnixStream>,
    shared: Arc<Mutex<Shared>>,
}

/// Pending calls, programs and watches.
#[derive(Debug, Default)]
struct Shared {
    next: u64,
    calls: HashMap<u64, Waiting>,
    execs: HashMap<u64, SyncSender<ExecEvent>>,
    watches: HashMap<u64, SyncSender<FilesChanged>>,
    is_over: bool,
}

#[derive(Debug)]
struct Waiting {
    answer: SyncSender<Result<Value, Fault>>,
    follows: Follows,
}

/// Which notifications follow a response. It must be known before the next message is read.
#[derive(Debug)]
enum Follows {
    Nothing,
    Exec(SyncSender<ExecEvent>),
    Watch(SyncSender<FilesChanged>),
}

impl Client {
    /// Connects to a server's Unix socket.
    ///
    /// # Errors
    /// Returns the error of `connect(2)`.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        Self::new(UnixStream::connect(socket)?)
    }

    /// Returns a client of the server at the other end.
    ///
    /// # Errors
    /// Returns the error of `dup(2)` and starting a thread.
    pub fn new(socket: UnixStream) -> Result<Self, ClientError> {
        let reader = socket.try_clone()?;
        let shared = Arc::new(Mutex::new(Shared::default()));
        let of_reader = Arc::clone(&shared);
        thread::Builder::new()
            .name("pinfold".to_owned())
            .spawn(move || listen(reader, &of_reader))?;
        Ok(Self { socket: Mutex::new(socket), shared })
    }

    /// Calls a method and waits for its result.
    ///
    /// # Errors
    /// Returns the server's error, and [`ClientError::Gone`] if the connection ended.
    pub fn call<C: Call>(&self, call: &C) -> Result<C::Answer, ClientError> {
        self.ask(call, Follows::Nothing)
    }

    /// Starts a program and returns a stream of its events.
    ///
    /// # Errors
    /// Returns the errors of [`Self::call`].
    pub fn exec(&self, start: &ExecStart) -> Result<Exec<'_>, ClientError> {
        let (sender, events) = sync_channel(WAITING);
        let started = self.ask(start, Follows::Exec(sender))?;
        Ok(Exec { client: self, id: started.exec, events, has_ended: false })
    }

    /// Watches a path and returns a stream of its changes.
    ///
    /// # Errors
    /// Returns the errors of [`Self::call`].
    pub fn watch(&self, watch: &FilesWatch) -> Result<Watching<'_>, ClientError> {
        let (sender, changes) = sync_channel(WAITING);
        let started = self.ask(watch, Follows::Watch(sender))?;
        Ok(Watching { client: self, id: started.watch, changes })
    }

    fn ask<C: Call>(&self, call: &C, follows: Follows) -> Result<C::Answer, ClientError> {
        let (answer, answered) = sync_channel(1);
        let id = {
            let mut shared = self.shared.lock();
            if shared.is_over {
                return Err(ClientError::Gone);
            }
            shared.next += 1;
            let id = shared.next;
            shared.calls.insert(id, Waiting { answer, follows });
            id
        };
        let params = serde_json::to_value(call)?;
        let request = Message::Request { id: id.into(), method: C::METHOD.to_owned(), params };
        self.send(&request)?;
        let result = answered.recv().map_err(|_| ClientError::Gone)??;
        Ok(serde_json::from_value(result)?)
    }

    fn send(&self, message: &impl Serialize) -> Result<(), ClientError> {
        Ok(write_line(&mut *self.socket.lock(), message)?)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The thread that listens has a descriptor of its own.
        let _ = self.socket.lock().shutdown(Shutdown::Both);
    }
}

/// An event of a running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It wrote output.
    Output(Stream, Vec<u8>),
    /// It ended, and all its output was received.
    Exit(Ended),
    /// It could not be executed, or its session ended.
    Failed(String),
}

/// A running program. Dropping it before its end kills the program and its descendants.
///
/// Its events are to be taken as they come: while 64 wait to be, nothing more of the connection is heard,
/// the answers of other calls included, so that output is held up where it is made and fills no memory.
/// A thread that takes them makes long calls by a [`Client`] of its own.
#[derive(Debug)]
pub struct Exec<'a> {
    client: &'a Client,
    id: u64,
    events: Receiver<ExecEvent>,
    has_ended: bool,
}

impl Exec<'_> {
    /// Waits for the next event. Returns none after the end.
    pub fn event(&mut self) -> Option<ExecEvent> {
        let event = self.events.recv().ok();
        self.has_ended |= !matches!(event, Some(ExecEvent::Output(..)));
        event
    }

    /// Writes to the program's standard input.
    ///
    /// # Errors
    /// Returns an error if the program has no input or has ended.
    pub fn write(&self, data: &[u8]) -> Result<(), ClientError> {
        self.client.call(&ExecWrite { exec: self.id, data: data.into(), end: false }).map(drop)
    }

    /// Closes the program's standard input.
    ///
    /// # Errors
    /// Returns an error if the program has no input or has ended.
    pub fn end_input(&self) -> Result<(), ClientError> {
        let end = ExecWrite { exec: self.id, end: true, ..ExecWrite::default() };
        self.client.call(&end).map(drop)
    }

    /// Resizes the program's terminal.
    ///
    /// # Errors
    /// Returns an error if the program has no input or has ended.
    pub fn resize(&self, terminal: TerminalSize) -> Result<(), ClientError> {
        self.client.call(&ExecResize { exec: self.id, terminal }).map(drop)
    }

    /// Sends the program a signal.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub fn signal(&self, signal: i32) -> Result<(), ClientError> {
        self.client.call(&ExecSignal { exec: self.id, signal }).map(drop)
    }
}

impl Drop for Exec<'_> {
    fn drop(&mut self) {
        self.client.shared.lock().execs.remove(&self.id);
        if !self.has_ended {
            const KILL: i32 = 9;
            // Its answer is for nobody: waiting for it here could be for long.
            let kill = ExecSignal { exec: self.id, signal: KILL };
            let params = serde_json::to_value(kill).unwrap_or_default();
            let method = ExecSignal::METHOD.to_owned();
            let _ = self.client.send(&Message::Notification { method, params });
        }
    }
}

/// Something that is watched, as long as this lives. Its changes are to be taken as the events of an
/// [`Exec`] are.
#[derive(Debug)]
pub struct Watching<'a> {
    client: &'a Client,
    id: u64,
    changes: Receiver<FilesChanged>,
}

impl Watching<'_> {
    /// Waits for the next change. Returns none when the watch has ended.
    pub fn change(&mut self) -> Option<FilesChanged> {
        self.changes.recv().ok()
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.client.shared.lock().watches.remove(&self.id);
        let params = serde_json::to_value(FilesUnwatch { watch: self.id }).unwrap_or_default();
        let method = FilesUnwatch::METHOD.to_owned();
        let _ = self.client.send(&Message::Notification { method, params });
    }
}

/// Dispatches the server's messages until the connection ends.
fn listen(socket: UnixStream, shared: &Mutex<Shared>) {
    let mut reader = BufReader::new(Incoming(&socket));
    while let Ok(Some(line)) = read_line(&mut reader) {
        match Message::read(&line) {
            Ok(Message::Response { id, result }) => {
                shared.lock().answer(id.as_u64().unwrap_or_default(), result);
            }
            Ok(Message::Notification { method, params }) => deliver(shared, &method, params),
            Ok(Message::Request { .. }) | Err(_) => break,
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
    let mut shared = shared.lock();
    shared.is_over = true;
    shared.calls.clear();
    shared.execs.clear();
    shared.watches.clear();
}

impl Shared {
    fn answer(&mut self, id: u64, result: Result<Value, Fault>) {
        let Some(Waiting { answer, follows }) = self.calls.remove(&id) else { return };
        let number = |key: &str| result.as_ref().ok().and_then(|result| result[key].as_u64());
        match follows {
            Follows::Exec(sender) => {
                self.execs.extend(number("exec").map(|exec| (exec, sender)));
            }
            Follows::Watch(sender) => {
                self.watches.extend(number("watch").map(|watch| (watch, sender)));
            }
            Follows::Nothing => {}
        }
        // A caller that does not wait any more is sent nothing.
        let _ = answer.send(result);
    }
}

/// Passes on a notification. A slow receiver makes the connection wait, and nothing is sent while
/// the table is locked. Kinds that are not known here are for a newer client.
fn deliver(shared: &Mutex<Shared>, method: &str, params: Value) {
    if method == ExecOutput::METHOD
        && let Ok(output) = serde_json::from_value::<ExecOutput>(params.clone())
    {
        let sender = shared.lock().execs.get(&output.exec).cloned();
        let event = ExecEvent::Output(output.stream, output.data.into());
        sender.map(|sender| sender.send(event));
    } else if method == ExecExit::METHOD
        && let Ok(exit) = serde_json::from_value::<ExecExit>(params.clone())
    {
        let sender = shared.lock().execs.remove(&exit.exec);
        let event = match exit.ended {
            Some(ended) => ExecEvent::Exit(ended),
            None => ExecEvent::Failed(exit.error.unwrap_or_default()),
        };
        sender.map(|sender| sender.send(event));
    } else if method == FilesChanged::METHOD
        && let Ok(changed) = serde_json::from_value::<FilesChanged>(params)
    {
        let sender = match changed.change {
            Some(_) => shared.lock().watches.get(&changed.watch).cloned(),
            None => shared.lock().watches.remove(&changed.watch),
        };
        sender.map(|sender| sender.send(changed));
    }
}
