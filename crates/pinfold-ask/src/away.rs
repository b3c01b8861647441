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
use pinfold_host::Refusal;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::directories::Places;
use pinfold_host::io::small_thread;
use pinfold_host::launcher::{Bounds, Launcher};
use pinfold_policy::settings::AskSettings;
use serde_json::{Value, json};

use crate::approvals::{Answer, Approvals, Approver, Pending, Subject};
use crate::display::line;
use crate::link_server::{self, Follow};
use crate::links::{Followed, Links, Visit};
use crate::loopback::{self, NoListener};
use crate::question_text::{lines_of, title_of};
use crate::webhook::Webhook;

/// How soon a new question is noticed, at the latest.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes that a command may print.
const MOST_PRINTED: usize = 64 << 10;
/// Questions that are with a user who is away at once; others follow as these are settled.
const MOST_BROUGHT: usize = 8;

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
    other: OtherSessions,
}

/// Follows a link of another session: returns its question, or nothing once it is answered.
type OtherSessions =
    Arc<dyn Fn(&str, &str, Visit) -> Result<Option<Pending>, Refusal> + Send + Sync>;

impl Away {
    /// Returns the ways of the settings, if there are any. `other` follows links of other sessions of this user's.
    pub fn find(
        settings: &AskSettings,
        host: Host<'_>,
        of: OfSession,
        other: impl Fn(&str, &str, Visit) -> Result<Option<Pending>, Refusal> + Send + Sync + 'static,
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
    links_at: Mutex<LinksAt>,
    is_over: Arc<AtomicBool>,
}

/// Where links lead to.
#[derive(Clone, Copy)]
enum LinksAt {
    /// No question has waited yet.
    Unknown,
    /// This session serves them at this port.
    Here(u16),
    /// Another session of this user's serves them at this port, as long as it lives.
    OtherSession(u16),
    /// Nobody serves them.
    Nowhere,
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
            links_at: Mutex::new(LinksAt::Unknown),
            is_over: Arc::default(),
        })
    }

    /// Is there to be asked again, after a question did not arrive.
    pub(crate) fn presence(&self) {
        let mut approver = self.approver.lock();
        if approver.is_none() && !self.is_over.load(Ordering::Relaxed) {
            // A user who cannot be woken cannot be asked.
            *approver = self.approvals.attend().ok();
        }
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Brings questions from now on.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
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
                let mut brought = self.brought.lock();
                let is_next = brought.len() < MOST_BROUGHT && brought.insert(one.id);
                drop(brought);
                if is_next {
                    self.bring(one);
                }
            }
            self.approvals.wait(LOOK);
        }
    }

    /// Listens for answers, unless another session of this user's does so at the port.
    fn listen(&self) {
        let mut links_at = self.links_at.lock();
        if matches!(*links_at, LinksAt::Unknown | LinksAt::OtherSession(_)) {
            *links_at = self.find_port().unwrap_or_else(|why| {
                // Who has the port now may have been sent a link that was for a session.
                self.links.revoke();
                self.report(&why.to_string());
                LinksAt::Nowhere
            });
        }
    }

    /// Listens at the port, or finds which session does.
    ///
    /// # Errors
    /// Returns why nobody serves links.
    fn find_port(&self) -> Result<LinksAt, Refusal> {
        let Away { port, places, of, .. } = &self.away;
        let listener = match loopback::listen(*port, places, &of.private) {
            Ok(listener) => listener,
            Err(NoListener::OtherSession(port)) => return Ok(LinksAt::OtherSession(port)),
            Err(error) => return Err(Refusal::of(error)),
        };
        let failed = |error: io::Error| Refusal::new("answer links are not served").because(error);
        let port = listener.local_addr().map_err(failed)?.port();
        let (links, is_over) = (Arc::clone(&self.links), Arc::clone(&self.is_over));
        let own = self.away.of.id.clone();
        let other = Arc::clone(&self.away.other);
        let follow: Follow = Arc::new(move |session, token, visit| {
            if session == own {
                return links.follow(token, visit).ok();
            }
            let followed = other(session, token, visit).ok()?;
            Some(followed.map_or(Followed::Answer(None), Followed::Question))
        });
        self.links.set_port(port);
        let served = link_server::serve(listener, follow, move || is_over.load(Ordering::Relaxed));
        served.map(|()| LinksAt::Here(port)).map_err(|error| {
            self.links.set_port(0);
            failed(error)
        })
    }

    fn bring(self: &Arc<Self>, pending: Pending) {
        let body = Arc::new(self.message(&pending));
        let ways =
            usize::from(self.away.webhook.is_some()) + usize::from(!self.away.command.is_empty());
        let failed = Arc::new(Mutex::new(0));
        let go = |way: fn(&Self, u64, &[u8]) -> Result<(), Refusal>| {
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

    fn post(&self, id: u64, body: &[u8]) -> Result<(), Refusal> {
        let id = format!("{}-{id}", self.away.of.id);
        self.away.webhook.as_ref().map_or(Ok(()), |webhook| webhook.post(&id, body))
    }

    /// Gives the question to the user's command. What it prints may be the answer.
    fn run(&self, id: u64, body: &[u8]) -> Result<(), Refusal> {
        let Some(deadline) = self.approvals.deadline(id) else { return Ok(()) };
        let patience = deadline.saturating_duration_since(Instant::now());
        let bounds = Bounds { patience, most: MOST_PRINTED };
        let argv = self.away.command.clone();
        let output = match self.away.launcher.run_bounded(argv, &[], &[], Some(body), bounds) {
            Ok(output) => output,
            // Nobody waits for its answer any more.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(()),
            Err(error) => return Err(Refusal::new(format!("the command cannot be run: {error}"))),
        };
        if output.code != Some(0) {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or_default();
            return Err(Refusal::new(format!("the command failed: {}", line(said.as_bytes()))));
        }
        let Some(answer) = printed(&output.stdout)? else { return Ok(()) };
        // It may have been answered since, which is fine.
        drop(self.approvals.answer(id, answer, "command"));
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
        let (LinksAt::Here(port) | LinksAt::OtherSession(port)) = *self.links_at.lock() else {
            return None;
        };
        let base = self.away.base_url.clone();
        let base = base.unwrap_or_else(|| format!("http://127.0.0.1:{port}"));
        let session = &self.away.of.id;
        let always = pending.rule.is_some().then_some(Answer::Always);
        let deny = Answer::Deny { reason: None };
        let answers = [Answer::Once, Answer::Session, deny].into_iter().chain(always);
        let link = |answer: Answer| {
            let token = self.links.token_for(pending.id, &answer)?;
            let word = link_server::word_of(&answer);
            Some((word.to_owned(), format!("{base}/{session}/{token}/{word}").into()))
        };
        answers.map(link).collect::<Option<serde_json::Map<_, _>>>().map(Value::Object)
    }
}

/// Returns the answer that a command has printed, if it has: a word, and of a denial the reason behind it.
///
/// # Errors
/// Returns what it printed instead.
fn printed(output: &[u8]) -> Result<Option<Answer>, Refusal> {
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
            Err(Refusal::new(format!("the command printed no answer: {}", line(first.as_bytes()))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_answer() {
        let answer = |output: &[u8]| printed(output).unwrap();
        assert!(answer(b"").is_none() && answer(b" \n").is_none());
        assert_eq!(answer(b"once\n"), Some(Answer::Once));
        assert_eq!(answer(b"always"), Some(Answer::Always));
        let reason = Some("use the mirror".to_owned());
        assert_eq!(answer(b"deny use the mirror\n"), Some(Answer::Deny { reason }));
        for output in [&b"yes"[..], b"once more", b"onceonce", b"{}", b"\xffonce", b"ONCE"] {
            assert!(printed(output).is_err(), "{output:?}");
        }
    }
}
