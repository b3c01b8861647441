//! The one message of a caller, and the one of the runner's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::policy::is_canonical;
use crate::refusal::Refusal;

/// Bytes: no request is longer.
pub const LONGEST: usize = 64 << 10;
/// Descriptors that one message carries (`SCM_MAX_FD`, include/net/scm.h).
pub const MOST_DESCRIPTORS: usize = 253;
/// What goes along with them is the caller's executable on the way here, and directories and files of the policy's on the
/// way to init.
pub const MOST_GRANTS: usize = MOST_DESCRIPTORS - 2 - MOST_FILES;
/// Files with variables that a policy names at most.
pub const MOST_FILES: usize = 15;
/// What init sends first to the caller. The kernel says who sent it (`SO_PASSCRED`, unix(7)).
pub const HELLO: &[u8] = b"H";

/// What a request begins with.
pub const VERSION: &[u8] = b"pinfold-runner 1\n";
/// What a refusal begins with.
pub const REFUSED: u8 = b'R';

/// What a caller asks for. With it come descriptors: of the caller's executable, and of each grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The session's id.
    pub session: String,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Thousandths of a CPU.
    pub cpus: Option<u32>,
    /// Tasks.
    pub tasks: Option<u64>,
    /// The files and directories of the session.
    pub grants: Vec<Wanted>,
}

/// A file or directory of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Where it lies.
    pub path: PathBuf,
    /// Whether the session may change it.
    pub is_writable: bool,
}

impl Request {
    /// Reads a message.
    ///
    /// # Errors
    /// Returns what is wrong in it.
    pub fn decode(message: &[u8]) -> Result<Self, Refusal> {
        let mut rest = message.strip_prefix(VERSION).ok_or_else(|| {
            Refusal::new(
                "the request is of another version of pinfold",
                "install pinfold and pinfold-runner from one package",
            )
        })?;
        let session = String::from_utf8(take(&mut rest)?.to_vec()).ok();
        let session = session.filter(|id| is_session(id)).ok_or_else(malformed)?;
        let mut limit = || first(&mut rest).map(u64::from_le_bytes).map(|n| (n > 0).then_some(n));
        let (memory, cpus, tasks) = (limit()?, limit()?, limit()?);
        let cpus = cpus.map(u32::try_from).transpose().map_err(|_| malformed())?;
        let count = u32::from_le_bytes(first(&mut rest)?) as usize;
        if count > MOST_GRANTS {
            return Err(malformed());
        }
        let mut grants = Vec::with_capacity(count);
        for _ in 0..count {
            let [is_writable] = first(&mut rest)?;
            let name = take(&mut rest)?;
            let path = Path::new(OsStr::from_bytes(name)).to_owned();
            if !is_canonical(&path) || name.contains(&0) || is_writable > 1 {
                return Err(malformed());
            }
            grants.push(Wanted { path, is_writable: is_writable == 1 });
        }
        if !rest.is_empty() {
            return Err(malformed());
        }
        Ok(Self { session, memory, cpus, tasks, grants })
    }
}

/// Returns whether a text is a session's id: nothing else of a caller's gets into the name of a unit.
fn is_session(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 12 && text.bytes().all(is_digit)
}

pub(crate) fn malformed() -> Refusal {
    Refusal::plain("malformed request")
}

fn first<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Refusal> {
    rest.split_off(..N).and_then(|taken| taken.try_into().ok()).ok_or_else(malformed)
}

fn take<'m>(rest: &mut &'m [u8]) -> Result<&'m [u8], Refusal> {
    let length = u16::from_le_bytes(first(rest)?).into();
    rest.split_off(..length).ok_or_else(malformed)
}

impl Refusal {
    /// Returns it as a message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let hint = self.hint.as_deref().unwrap_or_default();
        let mut message = [&[REFUSED], self.what.as_bytes(), &[0], hint.as_bytes()].concat();
        message.truncate(LONGEST);
        message
    }
}

#[cfg(test)]
mod tests;
