//! What happens at a session's doors, recorded, and shown to the user where it matters.

mod used;

use std::collections::{BTreeSet, HashSet};
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use pinfold_egress::{Event as DoorEvent, Journal};
use pinfold_host::audit::{Audit, Event, Login};
use pinfold_host::note::{Note, Topic};
use pinfold_host::rate_limit::Pace;
use pinfold_policy::network::{Endpoint, HostPattern, NetworkRule};
use pinfold_terminal::notices::Notices;
use pinfold_terminal::notices::attached::Bulletin;
use pinfold_terminal::notify;

pub use used::Used;

/// Hands what happens at the doors to the audit log, and refusals to the user as well.
pub(crate) struct Records {
    audit: Arc<Audit>,
    /// Hosts of which a refusal is not shown.
    silent: Vec<HostPattern>,
    refusals: Mutex<Refusals>,
    reached: Mutex<BTreeSet<String>>,
    used: Mutex<Used>,
}

/// What was refused so far.
struct Refusals {
    live: LiveLines,
    /// Lines about what the sandbox asked for, as often as it likes.
    refused: HashSet<String>,
    /// Lines about what is wrong outside, which no number of the others may hide.
    failed: HashSet<String>,
    waiting: Vec<Note>,
    pace: Pace,
}

/// What is shown while the session lives; the rest is shown at its end.
pub(crate) enum LiveLines {
    /// All lines: nothing else writes on the user's screen.
    All,
    /// Urgent ones, over the screen of the sandbox.
    Urgent(Arc<Notices>),
    /// Urgent ones, over the screens of those who are attached.
    Attached(Arc<Bulletin>),
    /// None: the program has the screen.
    None,
}

/// Whether the user can do something about a line now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Usual,
    Urgent,
}

/// Hosts that one session remembers having reached.
const MOST_REACHED: usize = 1000;

/// Lines about refusals that one session shows, and as many about failures; the audit log has all.
const MOST_LINES: usize = 20;

impl Records {
    /// Returns the records of a session. Refusals of `silent` hosts are recorded and not shown.
    pub(crate) fn new(audit: Arc<Audit>, live: LiveLines, silent: Vec<HostPattern>) -> Self {
        let (refused, failed) = (HashSet::new(), HashSet::new());
        let (waiting, pace) = (Vec::new(), Pace::default());
        let refusals = Mutex::new(Refusals { live, refused, failed, waiting, pace });
        Self { audit, silent, refusals, reached: Mutex::default(), used: Mutex::default() }
    }

    /// Returns the lines that are still to be shown, at the end.
    pub(crate) fn rest(&self) -> Vec<Note> {
        let mut refusals = self.refusals.lock();
        std::mem::take(&mut refusals.waiting)
    }

    /// Returns what was used of models.
    pub(crate) fn used(&self) -> Used {
        self.used.lock().clone()
    }

    /// Returns the smallest rules for everything that was reached.
    pub(crate) fn reached(&self) -> Vec<NetworkRule> {
        let reached = self.reached.lock();
        let mut rules: Vec<NetworkRule> =
            reached.iter().filter_map(|asked| NetworkRule::exactly(asked)).collect();
        rules.dedup();
        rules
    }

    /// Returns where notices for clients that attach are posted.
    pub(crate) fn bulletin(&self) -> Option<Arc<Bulletin>> {
        match &self.refusals.lock().live {
            LiveLines::Attached(bulletin) => Some(Arc::clone(bulletin)),
            LiveLines::All | LiveLines::Urgent(_) | LiveLines::None => None,
        }
    }

    /// Records an internal error, and notifies the user once.
    pub(crate) fn fault(&self, what: &str) {
        let mut refusals = self.refusals.lock();
        refusals.show(Note::warning(format!("a fault of pinfold's own: {what}")), Urgency::Usual);
        let step = refusals.pace.step();
        drop(refusals);
        if step.is_some() {
            // The session goes on whether or not that can be recorded.
            let _ = self.audit.record(&Event::Fault { what: what.to_owned() });
        }
    }

    fn refused(
        &self,
        door: &'static str,
        asked: &str,
        reason: &str,
        hint: Option<&str>,
    ) -> io::Result<()> {
        if !self.is_silent(asked) {
            let mut refusals = self.refusals.lock();
            let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
            let text = format!("refused: {reason}{hint}");
            refusals.show(Note::new(Topic::Refused, text), Urgency::Usual);
        }
        self.denied(door, asked.to_owned(), reason.to_owned())
    }

    /// Records that a secret went into a request.
    fn credential_use(
        &self,
        provider: impl ToString,
        method: impl Display,
        host: &str,
        path: &str,
    ) -> io::Result<()> {
        self.audit.record(&Event::CredentialUse {
            provider: provider.to_string(),
            request: format!("{method} {path}"),
            host: host.to_owned(),
        })
    }

    fn is_silent(&self, asked: &str) -> bool {
        let asked = Endpoint::parse(asked, None);
        asked.is_ok_and(|asked| self.silent.iter().any(|silent| silent.matches(&asked.host)))
    }

    /// Records what was refused, if it does not come too fast; what does is counted.
    fn denied(&self, door: &'static str, what: String, reason: String) -> io::Result<()> {
        let mut refusals = self.refusals.lock();
        let Some(skipped) = refusals.pace.step() else { return Ok(()) };
        drop(refusals);
        let denial =
            |what: String, reason: String| self.audit.record(&Event::Denial { door, what, reason });
        if skipped > 0 {
            let reason = "refused faster than is recorded one by one".to_owned();
            denial(format!("{skipped} more"), reason)?;
        }
        denial(what, reason)
    }
}

impl Refusals {
    /// Shows each note once, and not more than a user reads. Returns whether it was new.
    fn show(&mut self, note: Note, urgency: Urgency) -> bool {
        let is_refusal = note.topic == Topic::Refused;
        let shown = if is_refusal { &mut self.refused } else { &mut self.failed };
        if shown.len() > MOST_LINES || !shown.insert(note.text.clone()) {
            return false;
        }
        let note = match (shown.len() > MOST_LINES, is_refusal) {
            (false, _) => note,
            (true, true) => {
                Note::new(Topic::Refused, "refused: more hosts; `pinfold audit` lists them")
            }
            (true, false) => Note::warning("more failures like these were not shown"),
        };
        match &self.live {
            LiveLines::All => {
                notify!("pinfold: {}", note.text);
                return true;
            }
            LiveLines::Urgent(notices) if urgency == Urgency::Urgent => notices.show(&note.text),
            LiveLines::Attached(bulletin) if urgency == Urgency::Urgent => {
                bulletin.post(&note.text)
            }
            LiveLines::Urgent(_) | LiveLines::Attached(_) | LiveLines::None => {}
        }
        // What was on the screen for a few seconds may have been missed.
        self.waiting.push(note);
        true
    }
}

impl Journal for Records {
    fn record(&self, event: &DoorEvent<'_>) -> io::Result<()> {
        match event {
            DoorEvent::CredentialUse { provider, method, host, path } => {
                self.credential_use(provider, method, host, path)
            }
            DoorEvent::Denied { status, reason, method, host, path, for_user } => {
                if *for_user {
                    let text = reason.trim_start_matches("pinfold: ");
                    self.refusals.lock().show(Note::warning(text), Urgency::Urgent);
                }
                let what = format!("{method} {host}{path}");
                self.denied("gateway", what, format!("{status}: {reason}"))
            }
            DoorEvent::Usage { provider, model, tokens, cost, estimated } => {
                self.used.lock().add(tokens, *cost, *estimated);
                self.audit.record(&Event::Usage {
                    provider: provider.to_string(),
                    model: (*model).to_owned(),
                    input: tokens.input,
                    output: tokens.output,
                    cache_read: tokens.cache_read,
                    cache_write: tokens.cache_write,
                    usd: cost.map(|nano| nano as f64 / 1e9),
                    estimated: *estimated,
                })
            }
            DoorEvent::Connect { asked, rule } => {
                let (to, rule) = ((*asked).to_owned(), (*rule).to_owned());
                let mut reached = self.reached.lock();
                if reached.len() < MOST_REACHED {
                    reached.insert(to.clone());
                }
                drop(reached);
                self.audit.record(&Event::Connection { to, rule })
            }
            DoorEvent::SecretUse { id, method, asked, path } => {
                self.credential_use(id, method, asked, path)
            }
            DoorEvent::Refused { asked, reason, hint } => {
                // A name that leads to a forbidden address was admitted before.
                self.reached.lock().remove(*asked);
                self.refused("network", asked, reason, *hint)
            }
            DoorEvent::GitSignature { key } => self.audit.record(&Event::Signature {
                purpose: "git-signature",
                key: (*key).to_owned(),
                login: None,
            }),
            DoorEvent::SshLogin { key, host, user, host_key } => {
                let login = Login {
                    host: (*host).to_owned(),
                    user: (*user).to_owned(),
                    host_key: (*host_key).to_owned(),
                };
                let (key, login) = ((*key).to_owned(), Some(login));
                self.audit.record(&Event::Signature { purpose: "ssh-login", key, login })
            }
            DoorEvent::SignatureRefused { what, reason, hint } => {
                self.refused("ssh-agent", what, reason, *hint)
            }
            DoorEvent::ProviderFailed { provider, host, what } => {
                let text = format!("provider `{provider}` at {host} {what}");
                if !self.refusals.lock().show(Note::warning(text), Urgency::Urgent) {
                    return Ok(());
                }
                self.audit.record(&Event::ProviderFailure {
                    provider: provider.to_string(),
                    host: (*host).to_owned(),
                    what: (*what).to_owned(),
                })
            }
            // Events that this version does not know are no reason to let a request pass.
            _ => Err(io::Error::other("unknown event at a door")),
        }
    }
}

#[cfg(test)]
mod tests;
