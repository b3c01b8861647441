//! The audit log: one line of JSON for each thing that crossed or was refused, written before
//! it takes effect.
//!
//! `<state>/audit.jsonl` is only ever appended to, under a lock. A writer that was killed in
//! the middle of a line leaves a tail without a newline; the next writer cuts it off, so that
//! no reader ever meets a broken record. The file lies outside every grant.
//!
//! A full file is renamed to `audit.NUMBER.jsonl` and never written again. The oldest are removed
//! when there are many, but not before their time: see `files`. What one session provokes is
//! bounded, so that it cannot fill the log: see `budget`. Each record vouches for those before it:
//! see `chain`.

mod budget;
mod chain;
mod event;
mod files;
mod reader;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::fs::FlockOperation;

use crate::directories::Places;
use crate::session_id::SessionId;

use self::budget::{Budget, Verdict};
use self::chain::Chain;
pub use self::chain::{Verified, verify};
pub use self::event::{Event, GrantRecord, Login, Purpose, RestrictionRecord};
use self::files::Files;
pub use self::reader::Reader;

/// Bytes of a file that is full: some four thousand runs.
const LARGEST: u64 = 16 << 20;

/// The log, open for one session.
#[derive(Debug)]
pub struct Audit {
    file: Mutex<File>,
    files: Files,
    largest: u64,
    session: Option<SessionId>,
    /// Of a session; what users do outside of sessions has none.
    budget: Option<Mutex<Budget>>,
}

impl Audit {
    /// Opens the log in the state directory; made if missing, readable by the user alone.
    ///
    /// # Errors
    /// Returns the error of `open(2)`, with the path: a session that cannot be recorded does not start.
    pub fn open(state: &Path, session: Option<SessionId>) -> io::Result<Self> {
        Places::make_private(state)?;
        let files = Files::of(state);
        let file = files.open().map_err(|error| files.named("write", &error))?;
        let budget = session.is_some().then(Mutex::default);
        Ok(Self { file: Mutex::new(file), files, largest: LARGEST, session, budget })
    }

    /// Appends one record. When this returns the kernel has it; it survives the end of this
    /// process, but not of the machine within the next seconds.
    ///
    /// A record that the sandbox provoked, and that is beyond the session's budget, is counted
    /// instead.
    ///
    /// # Errors
    /// Returns the error of `write(2)`, with the path; or that the session has recorded too much for
    /// something that must not happen without a record.
    pub fn record(&self, event: &Event<'_>) -> io::Result<()> {
        let line = self.line(event)?;
        if let Some(budget) = &self.budget {
            let mut budget = budget.lock();
            match budget.take(event, line.len() + chain::LENGTH) {
                Verdict::Write => {}
                Verdict::Drop(None) => return Ok(()),
                Verdict::Drop(Some(records)) => return self.write(&Event::Dropped { records }),
                Verdict::Refuse => {
                    return Err(io::Error::other("the session has recorded too much lately"));
                }
            }
            let dropped = budget.dropped();
            if matches!(event, Event::End { .. }) && dropped > 0 {
                self.write(&Event::Dropped { records: dropped })?;
            }
        }
        self.put(&line)
    }

    /// Returns a record without its end, which is the chain.
    fn line(&self, event: &Event<'_>) -> io::Result<Vec<u8>> {
        let mut line = budget::line(event)?;
        // What every record has comes last, in place of the brace that ends the event's own members.
        line.pop();
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let session = serde_json::to_string(&self.session.as_ref().map(SessionId::as_str))?;
        write!(line, ",\"session\":{session},\"time\":\"{time}\"")?;
        Ok(line)
    }

    fn write(&self, event: &Event<'_>) -> io::Result<()> {
        self.put(&self.line(event)?)
    }

    /// Appends a record.
    fn put(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock();
        self.append(&mut file, line).map_err(|error| self.files.named("write", &error))
    }

    /// Appends to the file that has the log's name now. Who holds its lock alone renames it, so
    /// two writers at once begin one new file.
    fn append(&self, file: &mut File, line: &[u8]) -> io::Result<()> {
        loop {
            let current = locked(file, |file| {
                if !self.files.is_current(file)? {
                    return Ok(false);
                }
                let end = cut_broken_tail(file)?;
                let length = (line.len() + chain::LENGTH) as u64;
                // A file that cannot be renamed goes on growing: recording comes first.
                if end > 0 && end + length > self.largest && self.files.rotate().is_ok() {
                    return Ok(false);
                }
                let before = match end {
                    0 => Chain::of_full(&self.files)?,
                    end => Chain::at_end(file, end)?.unwrap_or_default(),
                };
                write(file, end, &before.add(line.to_vec()).1)?;
                Ok(true)
            })?;
            if current {
                return Ok(());
            }
            *file = self.files.open()?;
        }
    }
}

fn locked<T>(file: &mut File, work: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    rustix::fs::flock(&*file, FlockOperation::LockExclusive)?;
    let outcome = work(file);
    rustix::fs::flock(&*file, FlockOperation::Unlock)?;
    outcome
}

/// Appends a line. One that cannot be written whole (a full disk) is taken back.
fn write(file: &mut File, end: u64, line: &[u8]) -> io::Result<()> {
    file.write_all(line).inspect_err(|_| {
        // Make room for the next attempt.
        let _ = file.set_len(end);
    })
}

/// Returns the length of the log, which ends with a whole line.
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

#[cfg(test)]
mod tests;
