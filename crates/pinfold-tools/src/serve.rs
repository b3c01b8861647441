//! The sandbox's end: takes requests until the other end is closed.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::error::{ErrorKind, ToolError};
use crate::frame::{self, Frame};
use crate::incoming::Incoming;
use crate::operation::{Answer, Operation};
use crate::roots::Roots;
use crate::walk::Cancel;
use crate::{edit, find, grep, list, read, watch, write};
use parking_lot::Mutex;

/// How many requests run at the same time.
const AT_ONCE: usize = 64;
/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;

/// Does what is asked for on this socket until its other end is closed. What takes long goes on in a
/// thread of its own.
///
/// # Errors
/// Returns what reading and writing return; a message that is invalid.
pub fn serve(socket: OwnedFd, roots: Roots) -> io::Result<()> {
    let socket = UnixStream::from(socket);
    let mut reader = BufReader::with_capacity(BUFFER, Incoming(socket.try_clone()?));
    let service = Arc::new(Service {
        roots,
        writer: Mutex::new(socket),
        going_on: Mutex::new(HashMap::new()),
    });
    while let Some(Frame { id, header, content }) = frame::receive::<Operation>(&mut reader)? {
        match header {
            Some(operation) => service.take(id, operation, content)?,
            None => service.cancel(id),
        }
    }
    Ok(())
}

struct Service {
    roots: Roots,
    writer: Mutex<UnixStream>,
    going_on: Mutex<HashMap<u32, Arc<Cancel>>>,
}

impl Service {
    fn take(self: &Arc<Self>, id: u32, operation: Operation, content: Vec<u8>) -> io::Result<()> {
        let roots = &self.roots;
        let done = match operation {
            Operation::Read(asked) => {
                return match read::read(roots, &asked) {
                    Ok((done, content)) => self.answer(id, &Answer::Read(done), &content),
                    Err(error) => self.answer(id, &Answer::Failed(error), &[]),
                };
            }
            Operation::Write(asked) => write::write(roots, &asked, &content).map(Answer::Write),
            Operation::Edit(asked) => edit::edit(roots, &asked).map(Answer::Edit),
            Operation::List(asked) => list::list(roots, &asked).map(Answer::List),
            Operation::Stat(asked) => list::stat(roots, &asked).map(Answer::Stat),
            Operation::MakeDirectory(asked) => {
                roots.make_directory(&asked.path).map(|_| Answer::MakeDirectory)
            }
            long @ (Operation::Find(_) | Operation::Grep(_) | Operation::Watch(_)) => {
                match self.start(id, long) {
                    Ok(()) => return Ok(()),
                    Err(error) => Err(error),
                }
            }
        };
        self.answer(id, &done.unwrap_or_else(Answer::Failed), &[])
    }

    /// Does something that takes long.
    fn start(self: &Arc<Self>, id: u32, operation: Operation) -> Result<(), ToolError> {
        let busy = |what: &str| ToolError::new(ErrorKind::Request, what);
        let cancel = Arc::new(Cancel::new().map_err(ToolError::system(&"eventfd".into()))?);
        {
            let mut going_on = self.going_on.lock();
            if going_on.len() >= AT_ONCE {
                return Err(busy("too much at once; wait for something, or cancel it"));
            }
            if going_on.insert(id, Arc::clone(&cancel)).is_some() {
                return Err(busy("this number is in use"));
            }
        }
        let service = Arc::clone(self);
        let started = std::thread::Builder::new().spawn(move || {
            let answer = service.run(id, &operation, &cancel).unwrap_or_else(Answer::Failed);
            service.going_on.lock().remove(&id);
            // A client that does not listen any more is sent nothing.
            let _ = service.answer(id, &answer, &[]);
        });
        if started.is_err() {
            self.going_on.lock().remove(&id);
            return Err(busy("no more threads in this session (resources.pids)"));
        }
        Ok(())
    }

    fn run(&self, id: u32, operation: &Operation, cancel: &Cancel) -> Result<Answer, ToolError> {
        match operation {
            Operation::Find(asked) => find::find(&self.roots, asked, cancel).map(Answer::Find),
            Operation::Grep(asked) => grep::grep(&self.roots, asked, cancel).map(Answer::Grep),
            Operation::Watch(asked) => {
                let mut report = |event| self.answer(id, &Answer::Event(event), &[]).is_ok();
                watch::watch(&self.roots, asked, cancel, &mut report)?;
                Err(ToolError::gone())
            }
            _ => Err(ToolError::new(ErrorKind::Request, "not one that takes long")),
        }
    }

    fn cancel(&self, id: u32) {
        if let Some(cancel) = self.going_on.lock().get(&id) {
            cancel.cancel();
        }
    }

    fn answer(&self, id: u32, answer: &Answer, content: &[u8]) -> io::Result<()> {
        match frame::send(&mut *self.writer.lock(), id, Some(answer), content) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let error = ToolError::new(ErrorKind::TooLarge, "the answer is too large");
                frame::send(&mut *self.writer.lock(), id, Some(&Answer::Failed(error)), &[])
            }
            done => done,
        }
    }
}
