//! A user who is away is asked by a webhook and by a command, and answers by links or by what the command prints.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use pinfold_host::Host;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::directories::Places;
use pinfold_host::io::small_thread;
use pinfold_host::launcher::{Bounds, Launcher};
use pinfold_policy::settings::AskSettings;
use serde_json::{Value, json};

use crate::approvals::{Answer, Approvals, Approver, Pending, Subject};
use crate::display::line;
use crate::link_server::{self, Follow};
use crate::links::Links;
use crate::loopback::{self, NoListener};
use crate::question_text::{lines_of, title_of};
use crate::webhook::Webhook;

/// How soon a new question is noticed, at the latest.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that a command may print.
const MOST_PRINTED: usize = 64 << 10;

/// The session that asks.
pub struct OfSession {
    /// Its id.
    pub id: String,
    /// Its workspace.
    pub workspace: PathBuf,
    /// Its private directory.
    pub private: PathBuf,
    /// Its log.
    pub audit: Arc<Audit>,
}

/// How a user who is away is asked.
pub struct Away {
    of: OfSession,
    /// A program and its arguments, or nothing.
    command: Vec<OsString>,
    webhook: Option<Webhook>,
    /// The port of answer links; any if absent.
    port: Option<u16>,
    /// How answer links begin, where they lead to that port from elsewhere.
    base_url: Option<String>,
    launcher: Launcher,
    places: Places,
    /// Links of other sessions come to the one that has the port.
    other: Follow,
}

impl Away {
    /// Returns the ways of the settings, if there are any. `other` follows links of other sessions of this user's.
    pub fn find(
        settings: &AskSettings,
        host: Host<'_>,
        of: OfSession,
        other: impl Fn(&str, &str, Option<Answer>) -> Result<Option<Pending>, String>
        + Send
        + Sync
        + 'static,
    ) -> Option<Self> {
        let webhook = Webhook::find(settings, host);
        let command: Vec<OsString> =
            settings.command.iter().map(|word| OsString::from(&word.value)).collect();
        let has_a_way = webhook.is_some() || !command.is_empty();
        has_a_way.then(|| Self {
            of,
            command,
            webhook,
            port: settings.port.as_ref().map(|port| port.value),
            base_url: settings.base_url.as_ref().map(|url| url.value.as_str().to_owned()),
            launcher: host.launcher.clone(),
            places: host.places.clone(),
            other: Arc::new(other),
        })
    }
}

/// Brings questions to a user who is away.
pub(crate) struct Courier {
    away: Away,
    approvals: Arc<Approvals>,
    links: Arc<Links>,
    /// Held unless no question can be brought.
    approver: Mutex<Option<Approver>>,
    /// Questions that are on their way, or have arrived.
    brought: Mutex<HashSet<u64>>,
    is_listening: AtomicBool,
    is_over: Arc<AtomicBool>,
}

impl Courier {
    /// Returns a courier, who is there to be asked from now on.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)`.
    pub(crate) fn new(away: Away, approvals: &Arc<Approvals>) -> io::Result<Self> {
        Ok(Self {
            away,
            approvals: Arc::clone(approvals),
            links: Arc::new(Links::new(approvals)),
            approver: Mutex::new(Some(approvals.attend()?)),
            brought: Mutex::default(),
            is_listening: AtomicBool::new(false),
            is_over: Arc::default(),
        })
    }

    /// Is there to be asked again, after a question did not arrive.
    pub(crate) fn presence(&self) {
        let mut approver = self.approver.lock();
        if approver.is_none() && !self.is_over.load(Ordering::Relaxed) {
            // Who cannot be woken cannot be asked.
            *approver = self.approvals.attend().ok();
        }
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Brings questions from now on.
    ///
    /// # Errors
    /// Returns an error if no thread can be had.
    pub(crate) fn start(this: &Arc<Self>) -> io::Result<()> {
        let courier = Arc::clone(this);
        small_thread("ask-away", move || courier.until_end()).map(drop)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.approver.lock().take());
    }

    fn until_end(self: Arc<Self>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let pending = self.approvals.pending();
            self.brought.lock().retain(|id| pending.iter().any(|one| one.id == *id));
            if pending.is_empty() {
                self.approvals.wait_for_request(LOOK * 10);
                continue;
            }
            self.listen();
            for one in pending {
                if self.brought.lock().insert(one.id) {
                    self.bring(one);
                }
            }
            self.approvals.wait(LOOK);
        }
    }

    /// Listens for answers, unless another session of this user's does so at the port.
    fn listen(&self) {
        if self.is_listening.load(Ordering::Relaxed) {
            return;
        }
        let Away { port, places, of, .. } = &self.away;
        let listener = match loopback::listen(*port, places, &of.private) {
            Ok(listener) => listener,
            Err(NoListener::OtherSession) => return,
            Err(error) => {
                // It is said once; questions go out without links.
                self.is_listening.store(true, Ordering::Relaxed);
                return self.report(&error.to_string());
            }
        };
        let Ok(address) = listener.local_addr() else { return };
        let (links, is_over) = (Arc::clone(&self.links), Arc::clone(&self.is_over));
        let own = self.away.of.id.clone();
        let other = Arc::clone(&self.away.other);
        let follow: Follow = Arc::new(move |session, token, answer| {
            if session == own {
                links.follow(token, answer).map_err(|error| error.to_string())
            } else {
                other(session, token, answer)
            }
        });
        self.links.set_port(address.port());
        let served = link_server::serve(listener, follow, move || is_over.load(Ordering::Relaxed));
        self.is_listening.store(true, Ordering::Relaxed);
        if let Err(error) = served {
            self.links.set_port(0);
            self.report(&format!("answer links are not served: {error}"));
        }
    }

    fn bring(self: &Arc<Self>, pending: Pending) {
        let body = Arc::new(self.message(&pending));
        let ways =
            usize::from(self.away.webhook.is_some()) + usize::from(!self.away.command.is_empty());
        let failed = Arc::new(Mutex::new(0));
        let go = |way: fn(&Self, u64, &[u8]) -> Result<(), String>| {
            let (courier, body, failed) =
                (Arc::clone(self), Arc::clone(&body), Arc::clone(&failed));
            let id = pending.id;
            let bring = move || {
                let Err(why) = way(&courier, id, &body) else { return };
                let mut failed = failed.lock();
                *failed += 1;
                courier.report(&format!("a question did not reach its user: {why}"));
                if *failed == ways {
                    courier.give_up(id);
                }
            };
            // TLS needs more stack than a small thread has.
            let thread = std::thread::Builder::new().name("ask-away".to_owned()).spawn(bring);
            if let Err(error) = thread {
                self.report(&format!("a question did not reach its user: {error}"));
            }
        };
        if self.away.webhook.is_some() {
            go(Self::post);
        }
        if !self.away.command.is_empty() {
            go(Self::run);
        }
    }

    fn post(&self, id: u64, body: &[u8]) -> Result<(), String> {
        let id = format!("{}-{id}", self.away.of.id);
        self.away.webhook.as_ref().map_or(Ok(()), |webhook| webhook.post(&id, body))
    }

    /// Gives the question to the user's command. What it prints may be the answer.
    fn run(&self, id: u64, body: &[u8]) -> Result<(), String> {
        let Some(deadline) = self.approvals.deadline(id) else { return Ok(()) };
        let patience = deadline.saturating_duration_since(Instant::now());
        let bounds = Bounds { patience, most: MOST_PRINTED };
        let argv = self.away.command.clone();
        let output = match self.away.launcher.run_bounded(argv, &[], &[], Some(body), bounds) {
            Ok(output) => output,
            // Nobody waits for its answer any more.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(()),
            Err(error) => return Err(format!("the command cannot be run: {error}")),
        };
        if output.code != Some(0) {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or_default();
            return Err(format!("the command failed: {}", line(said.as_bytes())));
        }
        let Some(answer) = printed(&output.stdout)? else { return Ok(()) };
        // It may have been answered since, which is fine.
        let _ = self.approvals.answer(id, answer, "command");
        Ok(())
    }

    /// Is not there any more if no question has arrived: then nobody waits for an answer that cannot come.
    fn give_up(&self, id: u64) {
        let mut brought = self.brought.lock();
        let is_last = brought.iter().all(|other| *other == id);
        brought.remove(&id);
        if is_last {
            drop(self.approver.lock().take());
        }
    }

    fn report(&self, what: &str) {
        // The question is refused in any case.
        let _ = self.away.of.audit.record(&Event::Fault { what: what.to_owned() });
    }

    /// Returns a question as it is sent.
    fn message(&self, pending: &Pending) -> Vec<u8> {
        let mut data = json!({
            "session": self.away.of.id,
            "workspace": line(self.away.of.workspace.as_os_str().as_encoded_bytes()),
            "id": pending.id,
            "title": title_of(pending),
            "text": lines_of(pending).join("\n"),
            "details": pending.details,
        });
        match &pending.subject {
            Subject::Command { executable, command, cwd } => {
                data["kind"] = "command".into();
                data["command"] =
                    json!({ "executable": executable, "command": command, "cwd": cwd });
            }
            Subject::Connection { host, port, protocol } => {
                data["kind"] = "connection".into();
                data["connection"] = json!({ "host": host, "port": port, "protocol": protocol });
            }
        }
        if let Some(links) = self.links_for(pending) {
            data["answers"] = links;
        }
        let left = self.approvals.deadline(pending.id);
        let left = left.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        data["seconds"] = left.unwrap_or_default().as_secs().into();
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        json!({ "type": "pinfold.question", "timestamp": now, "data": data }).to_string().into()
    }

    /// Returns the links that answer a question; none where nobody would serve them.
    fn links_for(&self, pending: &Pending) -> Option<Value> {
        let Away { port, base_url, of, places, .. } = &self.away;
        let session = &of.id;
        let port = match self.links.port() {
            // Another session serves them.
            None => (*port).filter(|port| loopback::is_of_session(places, *port))?,
            Some(own) => own,
        };
        let base = base_url.clone().unwrap_or_else(|| format!("http://127.0.0.1:{port}"));
        let token = self.links.token_for(pending.id)?;
        let link = |word: &str| format!("{base}/{session}/{token}/{word}");
        let mut links = json!({
            "once": link("once"), "session": link("session"), "deny": link("deny"),
        });
        if pending.rule.is_some() {
            links["always"] = link("always").into();
        }
        Some(links)
    }
}

/// Returns the answer that a command has printed, if it has: a word, and of a denial the reason behind it.
///
/// # Errors
/// Returns what it printed instead.
fn printed(output: &[u8]) -> Result<Option<Answer>, String> {
    let output = String::from_utf8_lossy(output);
    let text = output.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match (word, rest.trim()) {
        ("", _) => Ok(None),
        ("once", "") => Ok(Some(Answer::Once)),
        ("session", "") => Ok(Some(Answer::Session)),
        ("always", "") => Ok(Some(Answer::Always)),
        ("deny", "") => Ok(Some(Answer::Deny { reason: None })),
        ("deny", reason) => Ok(Some(Answer::Deny { reason: Some(reason.to_owned()) })),
        _ => {
            let first: String = text.chars().take(80).collect();
            Err(format!("the command printed no answer: {}", line(first.as_bytes())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_answer() {
        assert_eq!(printed(b""), Ok(None));
        assert_eq!(printed(b" \n"), Ok(None));
        assert_eq!(printed(b"once\n"), Ok(Some(Answer::Once)));
        assert_eq!(printed(b"always"), Ok(Some(Answer::Always)));
        let reason = Some("use the mirror".to_owned());
        assert_eq!(printed(b"deny use the mirror\n"), Ok(Some(Answer::Deny { reason })));
        for output in [&b"yes"[..], b"once more", b"onceonce", b"{}", b"\xffonce", b"ONCE"] {
            assert!(printed(output).is_err(), "{output:?}");
        }
    }
}
