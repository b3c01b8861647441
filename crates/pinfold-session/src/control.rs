//! Changing a live session: a socket that only the session's own user reaches.
//!
//! It lies in the session's private directory, which no inside sees, and goes with it. Each
//! connection is one request and one answer, each one line of JSON.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pinfold_egress::PolicyHandle;
use pinfold_policy::network::NetworkRule;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::Ceiling;
use serde::{Deserialize, Serialize};

use crate::RunError;
use crate::audit::{Audit, Event};
use crate::places::Places;

/// The socket's name in the session's private directory.
const NAME: &str = "control";

/// How long a request may take to arrive, and an answer to be taken: the session waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Bytes of the longest request.
const LONGEST: u64 = 4096;

/// What can be asked of a live session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Let a host be reached.
    Allow(String),
    /// Take a rule away; connections that nothing else allows are cut.
    Forbid(String),
}

/// What a live session answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// The rules that are in force now, each with who gave it.
    Rules(Vec<String>),
    Error(String),
}

/// A live session's end.
pub(crate) struct Control {
    listener: UnixListener,
    policy: PolicyHandle,
    ceiling: Ceiling,
    audit: Arc<Audit>,
}

impl Control {
    /// Opens the socket in the session's private directory.
    ///
    /// # Errors
    /// What bind(2) says.
    pub(crate) fn open(
        private: &Path,
        policy: PolicyHandle,
        ceiling: Ceiling,
        audit: Arc<Audit>,
    ) -> io::Result<Self> {
        let listener = through_directory(private, |path| UnixListener::bind(path))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, policy, ceiling, audit })
    }

    /// Readable when somebody asks for something.
    pub(crate) fn waiting(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers whoever asks. A client that is slow or gone is its own loss.
    pub(crate) fn serve(&self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = self.answer(stream);
        }
    }

    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        // The directory keeps other users away; a descriptor may still have been passed on.
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        if peer.uid != rustix::process::geteuid() {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new((&stream).take(LONGEST)).read_line(&mut line)?;
        let changed = serde_json::from_str(&line).map_err(|error| error.to_string());
        let answer = match changed.and_then(|change| self.change(&change)) {
            Ok(rules) => Answer::Rules(rules),
            Err(why) => Answer::Error(why),
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    /// Makes a change, recorded before it takes effect.
    fn change(&self, change: &Change) -> Result<Vec<String>, String> {
        let mut policy = (*self.policy.current()).clone();
        let (what, text) = match change {
            Change::Allow(text) => ("allow", text),
            Change::Forbid(text) => ("forbid", text),
        };
        let rule: NetworkRule = text.parse().map_err(|error| format!("{text}: {error}"))?;
        match change {
            Change::Allow(_) => {
                let rule = Valued::new(rule.clone(), Origin::Flag { name: "pinfold allow" });
                self.ceiling.check_host(&rule).map_err(|error| error.to_string())?;
                policy.allow.push(rule);
            }
            Change::Forbid(_) => {
                let before = policy.allow.len();
                policy.allow.retain(|known| known.value != rule);
                if policy.allow.len() == before {
                    let known: Vec<String> =
                        policy.allow.iter().map(|known| known.value.to_string()).collect();
                    return Err(format!(
                        "there is no rule {rule}; there are: {}",
                        known.join(", ")
                    ));
                }
            }
        }
        let event = Event::PolicyChange { what, rule: rule.to_string() };
        self.audit.record(&event).map_err(|error| error.to_string())?;
        let rules = policy.allow.iter().map(ToString::to_string).collect();
        self.policy.replace(policy);
        Ok(rules)
    }
}

/// Asks a live session for a change and returns the rules that are in force afterwards.
///
/// # Errors
/// No such session, more than one, or what the session answers.
pub fn change(
    places: &Places,
    session: Option<&str>,
    change: &Change,
) -> Result<Vec<String>, RunError> {
    let directory = find(places, session)?;
    let asked = through_directory(&directory, |path| ask(path, change));
    match asked.map_err(RunError::System)? {
        Answer::Rules(rules) => Ok(rules),
        Answer::Error(why) => Err(RunError::refused(why, None)),
    }
}

fn ask(path: &Path, change: &Change) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(path)?;
    let mut line = serde_json::to_vec(change)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// The private directory of the session that is meant: the one whose name begins so, or the only
/// one that can be changed.
fn find(places: &Places, session: Option<&str>) -> Result<PathBuf, RunError> {
    let all = std::fs::read_dir(places.state.join("private"));
    let all = all.into_iter().flatten().flatten().map(|entry| entry.path());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let meant = |path: &PathBuf| {
        let name = name(path).unwrap_or_default();
        session.is_none_or(|begin| name.starts_with(begin)) && is_live(path)
    };
    let mut found: Vec<PathBuf> = all.filter(meant).collect();
    match (found.len(), session) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(session)) => Err(RunError::refused(
            format!("no live session {session} with a network can be changed"),
            Some("`pinfold audit` shows the names; a session without any network rule has none to change".to_owned()),
        )),
        (0, None) => Err(RunError::refused("no live session with a network", None)),
        (_, _) => {
            let names: Vec<String> = found.iter().filter_map(|path| name(path)).collect();
            let hint = format!("name one with --session: {}", names.join(", "));
            Err(RunError::refused("more than one live session is meant", Some(hint)))
        }
    }
}

/// Whether a session answers there: a dead one may have left its socket.
fn is_live(private: &Path) -> bool {
    through_directory(private, |path| UnixStream::connect(path)).is_ok()
}

/// A socket's path has room for 107 bytes (unix(7)); by way of a descriptor any directory fits.
fn through_directory<T>(
    directory: &Path,
    socket: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let opened = File::open(directory)?;
    socket(Path::new(&format!("/proc/self/fd/{}/{NAME}", opened.as_raw_fd())))
}
