//! The outside's end: several requests at once on one socket. What it hears may be a lie.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use crate::error::{ErrorKind, ToolError};
use crate::frame::{self, Frame};
use crate::incoming::Incoming;
use crate::operation::{
    Answer, Edit, EditDone, Event, Find, FindDone, Grep, GrepDone, List, ListDone, MakeDirectory,
    Operation, Read, ReadDone, Stat, StatDone, Watch, Write, WriteDone,
};
use parking_lot::Mutex;

/// Events that wait to be taken. What comes when there are more is lost, and the loss is reported.
const EVENTS: usize = 1024;
/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;

type Answered = (Answer, Vec<u8>);

/// The tools of a session. Several threads may use them at once.
#[derive(Debug)]
pub struct Tools {
    writer: Mutex<UnixStream>,
    calls: Arc<Mutex<Calls>>,
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Calls {
    next: u32,
    waiting: HashMap<u32, Waiting>,
    is_over: bool,
}

#[derive(Debug)]
struct Waiting {
    sender: SyncSender<Answered>,
    /// Whether an event was lost since the last one that was delivered.
    has_lost: bool,
}

/// Something that was asked for. Dropped, it is taken back.
#[derive(Debug)]
pub struct Call<'a> {
    tools: &'a Tools,
    id: u32,
    answers: Receiver<Answered>,
    is_done: bool,
}

impl Tools {
    /// Returns the tools at the other end of a socket.
    ///
    /// # Errors
    /// Returns the error of `dup(2)` and starting a thread.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = UnixStream::from(socket);
        let reader = socket.try_clone()?;
        let calls = Arc::new(Mutex::new(Calls::default()));
        let of_reader = Arc::clone(&calls);
        thread::Builder::new()
            .name("tools".to_owned())
            .spawn(move || listen(reader, &of_reader))?;
        Ok(Self { writer: Mutex::new(socket), calls })
    }

    /// Asks for something without waiting for it.
    ///
    /// # Errors
    /// Returns an error for a session that has ended; more content than a message carries.
    pub fn call(&self, operation: &Operation, content: &[u8]) -> Result<Call<'_>, ToolError> {
        let is_watch = matches!(operation, Operation::Watch(_));
        let (sender, answers) = sync_channel(if is_watch { EVENTS } else { 1 });
        let id = {
            let mut calls = self.calls.lock();
            if calls.is_over {
                return Err(ToolError::gone());
            }
            let mut id = calls.next;
            while calls.waiting.contains_key(&id) {
                id = id.wrapping_add(1);
            }
            calls.next = id.wrapping_add(1);
            calls.waiting.insert(id, Waiting { sender, has_lost: false });
            id
        };
        let sent = frame::send(&mut *self.writer.lock(), id, Some(operation), content);
        if let Err(error) = sent {
            self.calls.lock().waiting.remove(&id);
            return Err(match error.kind() {
                io::ErrorKind::InvalidInput => {
                    ToolError::new(ErrorKind::TooLarge, "more content than one request carries")
                }
                _ => ToolError::gone(),
            });
        }
        Ok(Call { tools: self, id, answers, is_done: false })
    }

    fn ask(&self, operation: &Operation, content: &[u8]) -> Result<Answered, ToolError> {
        self.call(operation, content)?.answer()
    }

    /// Reads a file or a part of it.
    ///
    /// # Errors
    /// Returns what keeps it from being read.
    pub fn read(&self, read: Read) -> Result<(ReadDone, Vec<u8>), ToolError> {
        match self.ask(&Operation::Read(read), &[])? {
            (Answer::Read(done), content) => Ok((done, content)),
            _ => Err(confused()),
        }
    }

    /// Puts content into a file.
    ///
    /// # Errors
    /// Returns what keeps it from being written.
    pub fn write(&self, write: Write, content: &[u8]) -> Result<WriteDone, ToolError> {
        match self.ask(&Operation::Write(write), content)?.0 {
            Answer::Write(done) => Ok(done),
            _ => Err(confused()),
        }
    }

    /// Replaces text in a file.
    ///
    /// # Errors
    /// Returns what keeps it from being changed; a text that is not there, or not once.
    pub fn edit(&self, edit: Edit) -> Result<EditDone, ToolError> {
        match self.ask(&Operation::Edit(edit), &[])?.0 {
            Answer::Edit(done) => Ok(done),
            _ => Err(confused()),
        }
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// Returns what keeps it from being read.
    pub fn list(&self, list: List) -> Result<ListDone, ToolError> {
        match self.ask(&Operation::List(list), &[])?.0 {
            Answer::List(done) => Ok(done),
            _ => Err(confused()),
        }
    }

    /// Tells what there is at a path.
    ///
    /// # Errors
    /// Returns what keeps it from being looked at.
    pub fn stat(&self, stat: Stat) -> Result<StatDone, ToolError> {
        match self.ask(&Operation::Stat(stat), &[])?.0 {
            Answer::Stat(done) => Ok(done),
            _ => Err(confused()),
        }
    }

    /// Makes a directory with those above it.
    ///
    /// # Errors
    /// Returns what keeps it from being made.
    pub fn make_directory(&self, make: MakeDirectory) -> Result<(), ToolError> {
        match self.ask(&Operation::MakeDirectory(make), &[])?.0 {
            Answer::MakeDirectory => Ok(()),
            _ => Err(confused()),
        }
    }

    /// Finds files by their names.
    ///
    /// # Errors
    /// Returns an error for a pattern that cannot be read, a place that is no directory.
    pub fn find(&self, find: Find) -> Result<FindDone, ToolError> {
        self.call(&Operation::Find(find), &[])?.found()
    }

    /// Finds lines of files.
    ///
    /// # Errors
    /// Returns an error for a pattern that cannot be read, a place that is neither a file nor a
    /// directory.
    pub fn grep(&self, grep: Grep) -> Result<GrepDone, ToolError> {
        self.call(&Operation::Grep(grep), &[])?.lines()
    }

    /// Tells what changes, until the call is dropped ([`Call::event`]).
    ///
    /// # Errors
    /// Returns an error for a session that has ended.
    pub fn watch(&self, watch: Watch) -> Result<Call<'_>, ToolError> {
        self.call(&Operation::Watch(watch), &[])
    }
}

impl Tools {
    /// Takes a request back ([`Call::id`]). Its answer comes all the same, and says so if it was in
    /// time.
    pub fn cancel(&self, id: u32) {
        // A session that has ended does nothing any more.
        let _ = frame::send::<Operation>(&mut *self.writer.lock(), id, None, &[]);
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        // The thread that listens has a descriptor of its own.
        let _ = self.writer.lock().shutdown(Shutdown::Both);
    }
}

impl Call<'_> {
    /// Takes it back ([`Tools::cancel`]).
    pub fn cancel(&self) {
        self.tools.cancel(self.id);
    }

    /// Returns the number by which [`Tools::cancel`] knows it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    fn answer(mut self) -> Result<Answered, ToolError> {
        let answered = self.answers.recv();
        self.is_done = true;
        match answered {
            Ok((Answer::Failed(error), _)) => Err(error),
            Ok(answered) => Ok(answered),
            Err(_) => Err(ToolError::gone()),
        }
    }

    /// Returns the answer to [`Operation::Find`].
    ///
    /// # Errors
    /// Returns the errors of [`Tools::find`].
    pub fn found(self) -> Result<FindDone, ToolError> {
        match self.answer()?.0 {
            Answer::Find(done) => Ok(done),
            _ => Err(confused()),
        }
    }

    /// Returns the answer to [`Operation::Grep`].
    ///
    /// # Errors
    /// Returns the errors of [`Tools::grep`].
    pub fn lines(self) -> Result<GrepDone, ToolError> {
        match self.answer()?.0 {
            Answer::Grep(done) => Ok(done),
            _ => Err(confused()),
        }
    }

    /// Waits for the next change.
    ///
    /// # Errors
    /// Returns what cannot be watched any more.
    pub fn event(&mut self) -> Result<Event, ToolError> {
        match self.answers.recv() {
            Ok((Answer::Event(event), _)) => Ok(event),
            Ok((Answer::Failed(error), _)) => {
                self.is_done = true;
                Err(error)
            }
            Ok(_) => Err(confused()),
            Err(_) => Err(ToolError::gone()),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.cancel();
        }
    }
}

/// Hands answers out until there are none any more.
fn listen(socket: UnixStream, calls: &Mutex<Calls>) {
    let mut reader = BufReader::with_capacity(BUFFER, Incoming(&socket));
    // What is no message ends it as its end does: who talks nonsense is not listened to.
    while let Ok(Some(Frame { id, header: Some(answer), content })) =
        frame::receive::<Answer>(&mut reader)
    {
        if !calls.lock().hand_out(id, answer, content) {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
    let mut calls = calls.lock();
    calls.is_over = true;
    calls.waiting.clear();
}

impl Calls {
    /// Gives an answer to who waits for it; false for one that nobody asked for.
    fn hand_out(&mut self, id: u32, answer: Answer, content: Vec<u8>) -> bool {
        let Answer::Event(event) = answer else {
            let Some(waiting) = self.waiting.remove(&id) else { return false };
            // The waiting caller has room for the last one, or has gone.
            let _ = waiting.sender.try_send((answer, content));
            return true;
        };
        let Some(waiting) = self.waiting.get_mut(&id) else { return false };
        if waiting.has_lost {
            let lost = Event { change: crate::Change::Overflow, path: event.path.clone() };
            match waiting.sender.try_send((Answer::Event(lost), Vec::new())) {
                Ok(()) => waiting.has_lost = false,
                Err(_) => return true,
            }
        }
        let sent = waiting.sender.try_send((Answer::Event(event), Vec::new()));
        waiting.has_lost |= matches!(sent, Err(TrySendError::Full(_)));
        true
    }
}

fn confused() -> ToolError {
    ToolError::new(ErrorKind::Gone, "the session's tools answer something else")
}
