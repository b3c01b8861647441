//! The audit log: one line of JSON for each thing that crossed or was refused, written before
//! it takes effect.
//!
//! `<state>/audit.jsonl` is only ever appended to, under a lock. A writer that was killed in
//! the middle of a line leaves a tail without a newline; the next writer cuts it off, so that
//! no reader ever meets a broken record. The file lies outside every grant.
//!
//! A full file is renamed to `audit.NUMBER.jsonl` and never written again. The oldest are removed
//! when there are many, but not before their time: see `files`. What one session provokes is
//! bounded, so that it cannot fill the log: see `budget`.

mod budget;
mod files;
mod reader;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use pinfold_policy::authority::{Grant, Restriction};
use pinfold_policy::path::{Brief, HostPath, InsidePath};
use rustix::fs::FlockOperation;
use serde::Serialize;
use serde_json::Value;

use crate::directories::Places;
use crate::io::lock;
use crate::session_id::SessionId;

use self::budget::{Budget, Verdict};
use self::files::Files;
pub use self::reader::Reader;

/// Bytes of a file that is full: some four thousand runs.
const LARGEST: u64 = 16 << 20;

/// Where a signature logs in to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Login {
    /// The host.
    pub host: String,
    /// The user.
    pub user: String,
    /// The fingerprint of the host's key.
    pub host_key: String,
}

/// What a program is started for.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It is the session's command.
    Command,
    /// The repository asks for it before the command.
    Resume,
    /// Somebody has it run beside the command.
    Exec,
    /// pinfold itself needs it, on the host.
    Host,
}

/// What is recorded. The words are part of the format.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event<'a> {
    /// A session begins.
    Session {
        /// Whose authority it has.
        subject: String,
        /// Whose name it works in, if in somebody's.
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<&'a str>,
        /// The workspace on the host.
        workspace: String,
        /// The boundary that keeps it in.
        boundary: &'a str,
        /// What the boundary enforces.
        enforced: Value,
        /// The grants, each with its access and who gave it.
        grants: Vec<GrantRecord<'a>>,
        /// The restrictions within them; of very many the first.
        restrictions: Vec<RestrictionRecord<'a>>,
        /// How many more there are.
        #[serde(skip_serializing_if = "is_zero")]
        more_restrictions: usize,
    },
    /// A command is started.
    Launch {
        /// What for.
        purpose: Purpose,
        /// The program and its arguments.
        argv: Vec<String>,
        /// The working directory inside.
        cwd: String,
        /// The boundary and the wrappers that handled it.
        handled_by: Vec<String>,
    },
    /// Somebody outside is given the session's tools.
    Tools,
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
    /// A signature is about to be made for the inside.
    Signature {
        /// `git-signature` or `ssh-login`.
        purpose: &'a str,
        /// The fingerprint of the key that signs.
        key: String,
        /// Of a login: where to.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<Login>,
    },
    /// A model has answered.
    Usage {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// Tokens that were sent and that no cache held.
        input: u64,
        /// Tokens that were received.
        output: u64,
        /// Tokens that a cache held.
        cache_read: u64,
        /// Tokens that a cache took up.
        cache_write: u64,
        /// What it cost, in USD; none for a model without a known price.
        usd: Option<f64>,
        /// Whether the provider did not say so itself.
        estimated: bool,
    },
    /// A connection to a host is about to be opened.
    Connection {
        /// Host and port, by the name that was asked for.
        to: String,
        /// The rule that allows it, and who gave it.
        rule: String,
    },
    /// The policy of the live session is about to change.
    PolicyChange {
        /// `allow` or `forbid`.
        what: &'a str,
        /// The rule.
        rule: String,
    },
    /// A person has decided on what a session changed in a view of its workspace.
    Review {
        /// `apply` or `discard`.
        what: &'a str,
        /// The workspace on the host.
        workspace: String,
        /// How many paths it is about.
        changes: usize,
        /// Whether protected paths are taken, too.
        protected: bool,
        /// Whether what others changed meanwhile is overwritten.
        overwrite: bool,
    },
    /// A user is about to trust a repository's settings as they are.
    Trust {
        /// The workspace on the host.
        workspace: String,
        /// The hash of the content.
        content: String,
    },
    /// The inside asks the host to run something.
    HostExecRequest {
        /// Its number in the session.
        id: u64,
        /// The executable, escaped.
        executable: String,
        /// Its arguments, each escaped.
        args: Vec<String>,
        /// The working directory inside, escaped.
        cwd: String,
    },
    /// That is about to be run, or is not.
    HostExecDecision {
        /// The request's number.
        id: u64,
        /// `allow` or `deny`.
        outcome: &'a str,
        /// Whose decision: a settings file, `approvals.json`, `terminal`, who answered at the control
        /// socket, `session` for what was approved for it, or `pinfold`.
        by: &'a str,
        /// By which rule, or for how long.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Why not.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What ran on the host has ended.
    HostExecEnd {
        /// The request's number.
        id: u64,
        /// Its status, or 128 + the signal that ended it.
        status: Option<u8>,
        /// Why it was ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
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
    /// Something of pinfold's own broke, and the session went on.
    Fault {
        /// What, and where in the program.
        what: String,
    },
    /// What the inside wrote and the host did not take.
    Kept {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// What the user was told at the end of the session, perhaps in fewer words.
    Note {
        /// What it is about.
        topic: &'static str,
        /// The words.
        text: String,
    },
    /// Records of the session were not written, because it provoked too many.
    Dropped {
        /// How many so far, of all that it provoked.
        records: u64,
    },
    /// The session ended.
    End {
        /// The command's exit status as the caller sees it.
        status: u8,
        /// The limit that ended or hindered it.
        limit: Option<&'a str>,
    },
}

// By reference, because serde passes it so.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A grant as it is recorded.
#[derive(Debug, Serialize)]
pub struct GrantRecord<'a> {
    root: &'a str,
    host: &'a HostPath,
    inside: &'a InsidePath,
    access: Vec<&'static str>,
    source: String,
}

impl<'a> From<&'a Grant> for GrantRecord<'a> {
    fn from(grant: &'a Grant) -> Self {
        Self {
            root: grant.root.id.as_str(),
            host: &grant.root.host,
            inside: &grant.root.inside,
            access: grant.access.words().collect(),
            source: grant.source.to_string(),
        }
    }
}

/// A restriction as it is recorded.
#[derive(Debug, Serialize)]
pub struct RestrictionRecord<'a> {
    host: String,
    effect: String,
    reason: &'a str,
    source: String,
}

impl<'a> From<&'a Restriction> for RestrictionRecord<'a> {
    fn from(restriction: &'a Restriction) -> Self {
        Self {
            host: Brief(restriction.host.as_path()).to_string(),
            effect: restriction.effect.to_string(),
            reason: &restriction.reason.text,
            source: restriction.source.to_string(),
        }
    }
}

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
    /// What open(2) says, with the path: a session that cannot be recorded does not start.
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
    /// A record that the inside provoked, and that is beyond the session's budget, is counted instead.
    ///
    /// # Errors
    /// What write(2) says, with the path; or that the session has recorded too much for something
    /// that must not happen without a record.
    pub fn record(&self, event: &Event<'_>) -> io::Result<()> {
        let line = self.line(event)?;
        if let Some(budget) = &self.budget {
            let mut budget = lock(budget);
            match budget.take(event, line.len()) {
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

    fn line(&self, event: &Event<'_>) -> io::Result<Vec<u8>> {
        let mut line = budget::line(event)?;
        // What every record has comes last, before the brace that ends the event's own members.
        line.pop();
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let session = serde_json::to_string(&self.session.as_ref().map(SessionId::as_str))?;
        writeln!(line, ",\"session\":{session},\"time\":\"{time}\"}}")?;
        Ok(line)
    }

    fn write(&self, event: &Event<'_>) -> io::Result<()> {
        self.put(&self.line(event)?)
    }

    fn put(&self, line: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.file);
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
                // A file that cannot be renamed goes on growing: recording comes first.
                if end > 0 && end + line.len() as u64 > self.largest && self.files.rotate().is_ok()
                {
                    return Ok(false);
                }
                write(file, end, line)?;
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

#[cfg(test)]
mod tests;
