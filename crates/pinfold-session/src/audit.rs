//! The audit log: one line of JSON for each thing that crossed or was refused, written before
//! it takes effect.
//!
//! `<state>/audit.jsonl` is only ever appended to, under a lock. A writer that was killed in
//! the middle of a line leaves a tail without a newline; the next writer cuts it off, so that
//! no reader ever meets a broken record. The file lies outside every grant.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use rustix::fs::FlockOperation;
use serde::Serialize;
use serde_json::Value;

use crate::SessionId;

/// The log's file name in the state directory.
const FILE: &str = "audit.jsonl";

/// What is recorded. The words are part of the format.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// A session begins.
    Session {
        /// Whose authority it has.
        subject: String,
        /// The workspace on the host.
        workspace: String,
        /// The boundary that keeps it in.
        boundary: &'a str,
        /// What the boundary enforces.
        enforced: Value,
        /// The grants, each with its access and who gave it.
        grants: Vec<Value>,
        /// The restrictions within them.
        restrictions: Vec<Value>,
    },
    /// A command is started.
    Launch {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The working directory inside.
        cwd: String,
        /// The boundary and the wrappers that handled it.
        handled_by: Vec<String>,
    },
    /// The authority was asked.
    Decision {
        /// What was asked for.
        access: &'a str,
        /// Of what.
        path: String,
        /// `allow` or `deny`.
        outcome: &'a str,
        /// Why.
        reason: String,
    },
    /// A real credential is about to be put into a request.
    CredentialUse {
        /// The provider.
        provider: String,
        /// The request.
        request: String,
        /// Towards which host.
        host: String,
    },
    /// A connection to a host is about to be opened.
    Connection {
        /// Host and port, by the name that was asked for.
        to: String,
        /// The rule that allows it, and who gave it.
        rule: String,
    },
    /// Something was refused.
    Denial {
        /// At which door.
        door: &'a str,
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// What the inside wrote and the host did not take.
    Kept {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// The session ended.
    End {
        /// The command's exit status as the caller sees it.
        status: u8,
        /// The limit that ended or hindered it.
        limit: Option<&'a str>,
    },
}

/// The log, open for one session.
#[derive(Debug)]
pub struct Audit {
    file: Mutex<File>,
    path: PathBuf,
    session: Option<SessionId>,
}

impl Audit {
    /// Opens the log in the state directory; made if missing, readable by the user alone.
    ///
    /// # Errors
    /// What open(2) says, with the path: a session that cannot be recorded does not start.
    pub fn open(state: &Path, session: Option<SessionId>) -> io::Result<Self> {
        let path = state.join(FILE);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .map_err(|error| named(&path, &error))?;
        Ok(Self { file: Mutex::new(file), path, session })
    }

    /// Appends one record. When this returns the kernel has it; it survives the end of this
    /// process, but not of the machine within the next seconds.
    ///
    /// # Errors
    /// What write(2) says, with the path.
    pub fn record(&self, event: &Event<'_>) -> io::Result<()> {
        let mut record = serde_json::to_value(event)?;
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        record["time"] = time.into();
        record["session"] = self.session.as_ref().map(SessionId::as_str).into();
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        append(&mut file, &line).map_err(|error| named(&self.path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write the audit log {}: {error}", path.display()))
}

/// Appends under a lock, after cutting off what a killed writer left half-written. A line that
/// cannot be written whole (a full disk) is taken back.
fn append(file: &mut File, line: &[u8]) -> io::Result<()> {
    rustix::fs::flock(&*file, FlockOperation::LockExclusive)?;
    let outcome = (|| {
        let end = cut_broken_tail(file)?;
        file.write_all(line).inspect_err(|_| {
            // The disk is full: make room for the next attempt by taking the part back.
            let _ = file.set_len(end);
        })
    })();
    rustix::fs::flock(&*file, FlockOperation::Unlock)?;
    outcome
}

/// The length of the log, which ends with a whole line.
fn cut_broken_tail(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    let mut block = [0_u8; 512];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        // One byte decides in the ordinary case.
        if end == length {
            file.seek(SeekFrom::Start(length - 1))?;
            let mut last = [0_u8; 1];
            file.read_exact(&mut last)?;
            if last == [b'\n'] {
                return Ok(length);
            }
        }
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(newline) = part.iter().rposition(|byte| *byte == b'\n') {
            end = start + newline as u64 + 1;
            break;
        }
        end = start;
    }
    if end != length {
        file.set_len(end)?;
    }
    Ok(end)
}

/// Reads the log, and goes on reading when `follow` says so.
pub struct Reader {
    input: io::BufReader<File>,
    partial: Vec<u8>,
}

impl Reader {
    /// Opens the log for reading; `None` when nothing was ever recorded.
    ///
    /// # Errors
    /// What open(2) says, with the path.
    pub fn open(state: &Path) -> io::Result<Option<Self>> {
        let path = state.join(FILE);
        match File::open(&path) {
            Ok(file) => Ok(Some(Self { input: io::BufReader::new(file), partial: Vec::new() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot read the audit log {}: {error}", path.display()),
            )),
        }
    }

    /// The next whole record, `None` at the present end.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn next_record(&mut self) -> io::Result<Option<Value>> {
        use std::io::BufRead;
        loop {
            self.input.read_until(b'\n', &mut self.partial)?;
            if self.partial.last() != Some(&b'\n') {
                return Ok(None);
            }
            let line = std::mem::take(&mut self.partial);
            if let Ok(value) = serde_json::from_slice(&line) {
                return Ok(Some(value));
            }
        }
    }
}

#[cfg(test)]
mod tests;
