//! The session's doors: which there are, what serves them, and what is reported about them.

mod used;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use pinfold_boundary::{Cover, Door, Doors, LaunchError};
use pinfold_egress::{
    DoorConfig, DoorSockets, Egress, Event as DoorEvent, Journal, NetworkDoor, PolicyHandle,
    SessionAuthority, WayOut,
};
use pinfold_host::Host;
use pinfold_host::audit::{Audit, Event, Login};
use pinfold_host::io::lock;
use pinfold_host::note::{Note, Topic};
use pinfold_host::rate_limit::Pace;
use pinfold_policy::network::{Endpoint, HostPattern, NetworkPolicy, NetworkRule};
use pinfold_policy::settings::Settings;
use pinfold_terminal::notices::Notices;
use pinfold_terminal::notify;

use crate::RunError;
use crate::gateway::{self, Provider};
use crate::placed;
use crate::publish::{self, Sockets};
use crate::ssh::Ssh;
use crate::trust::Trust;

use used::Used;

/// The port of the outward door. Like the gateway's it lies below 1024, so nothing inside can
/// take it.
const OUTWARD: u16 = 881;
/// The port of the domain name system (RFC 1035).
const NAMES: u16 = 53;

/// The proxy's address as programs are given it.
pub(crate) const PROXY_URL: &str = "http://127.0.0.1:881";
/// What programs reach without the proxy.
pub(crate) const NO_PROXY: &str = "localhost,127.0.0.1,::1,pinfold";

/// The sockets that init opens. Where no host is allowed there is still somebody to say so, but
/// nothing is handed over: a connection to an address fails in the kernel.
///
/// # Errors
/// Refuses a service of this machine at a port that pinfold uses in the sandbox.
pub(crate) fn wanted(
    with_gateway: bool,
    lives_on: LivesOn,
    policy: &NetworkPolicy,
    ssh: Option<&Ssh>,
) -> Result<Vec<Door>, RunError> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let gateway = with_gateway.then(|| Door::Listener(local(gateway::PORT)));
    let (names, outward) = if is_open(with_gateway, lives_on, policy) {
        (Some(Door::Listener(local(NAMES))), Door::Outward(OUTWARD))
    } else {
        (None, Door::Listener(local(OUTWARD)))
    };
    let ssh = ssh.map(|_| Ssh::door());
    let loopback = policy.loopback_ports();
    if let Some(own) = loopback.iter().find(|port| [gateway::PORT, OUTWARD, NAMES].contains(port)) {
        let what = format!("--allow-internal-host localhost:{own}: pinfold uses this port itself");
        let hint = "let the service listen at another port".to_owned();
        return Err(RunError::refused(what, Some(hint)));
    }
    let loopback = loopback.into_iter().map(|port| Door::Listener(local(port)));
    let doors = ssh.into_iter().chain(gateway).chain(loopback).chain([Door::Datagrams(NAMES)]);
    Ok(doors.chain(names).chain([outward]).collect())
}

/// Whether a session outlives the process that started it, or waits for commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LivesOn(pub(crate) bool);

/// Whether connections are handed over at all: where some host is allowed, and for agents and sessions
/// that live on, which live long enough for a rule to be added. In others only programs that use the
/// proxy reach what a later rule allows.
fn is_open(with_gateway: bool, lives_on: LivesOn, policy: &NetworkPolicy) -> bool {
    with_gateway || lives_on.0 || !policy.is_empty()
}

/// What serves a session's doors, and what the sandbox is still to be given for them.
pub(crate) struct Opened {
    pub(crate) egress: Egress,
    /// Variables with placeholders, as `NAME=VALUE`.
    pub(crate) variables: Vec<Vec<u8>>,
    /// The trust stores that the session's own cover.
    pub(crate) covers: Vec<Cover>,
    /// Changes the policy while the session lives; or why nothing can be reached.
    pub(crate) policy: Result<PolicyHandle, String>,
    /// Whether only programs that use a proxy reach what is allowed.
    pub(crate) by_proxy: bool,
    /// Where the doors ask for sockets of the sandbox's network.
    pub(crate) sockets: Option<Sockets>,
}

/// Puts together what serves the sockets that [`wanted`] asked for. Reads secrets, so init must
/// have been cloned.
///
/// # Errors
/// A required secret or a key that is not there, a proxy of the host that cannot be used, or an init that
/// sent other sockets.
pub(crate) fn open(
    doors: Doors,
    provider: Option<Provider>,
    settings: &Settings,
    host: Host<'_>,
    records: &Arc<Records>,
    (trust, ssh): (Option<&Trust>, Option<Ssh>),
) -> Result<Opened, RunError> {
    let policy = &settings.network;
    let by_proxy = !doors.handed_over;
    let is_closed = provider.is_none() && policy.is_empty();
    if by_proxy && !is_closed {
        notify!(
            "pinfold: note: only programs that use a proxy reach the network in this run \
             (`pinfold doctor` says why)"
        );
    }
    let mut sockets = doors.sockets.into_iter();
    let mut next = || sockets.next().ok_or(LaunchError::Silent);
    let ssh = match ssh {
        Some(ssh) => {
            let journal = Arc::clone(records) as Arc<dyn Journal>;
            Some(ssh.serve(UnixListener::from(next()?), journal)?)
        }
        None => None,
    };
    let gateway = match provider {
        Some(provider) => {
            let listener = TcpListener::from(next()?);
            let journal = Arc::clone(records) as Arc<dyn Journal>;
            Some((provider.gateway(host, settings, journal)?, vec![listener]))
        }
        None => None,
    };
    let ports = policy.loopback_ports();
    let loopback = ports.iter().map(|_| next().map(TcpListener::from));
    let loopback = loopback.collect::<Result<Vec<_>, LaunchError>>()?;
    let names = UdpSocket::from(next()?);
    let outward = sockets.map(TcpListener::from).collect();
    let secrets = placed::place(settings, host)?;
    let variables = placed::environment(&secrets);
    let (authority, covers) = match trust {
        Some(trust) => {
            let authority = SessionAuthority::generate();
            let authority = authority.map_err(|error| RunError::refused(error, None))?;
            let covers = trust.fill(&authority).map_err(RunError::System)?;
            (Some(authority), covers)
        }
        None => (None, Vec::new()),
    };
    let (way, unreachable) = match WayOut::from_environment() {
        Ok(way) => (way, None),
        // Nothing is reached in this session, so what is wrong matters only once a rule is added.
        Err(error) if is_closed => (WayOut::default(), Some(error.to_string())),
        Err(error) => return Err(RunError::refused(&error, Some(error.hint()))),
    };
    let config = DoorConfig {
        policy: policy.clone(),
        journal: Arc::clone(records) as Arc<dyn Journal>,
        authority,
        secrets,
        way,
    };
    let (door, policy) = NetworkDoor::new(config, DoorSockets { names, outward, loopback });
    let (publishing, sockets) = match settings.publish.as_slice() {
        [] => (None, None),
        ports => {
            let journal = Arc::clone(records) as Arc<dyn Journal>;
            let (publishing, sockets) = publish::open(ports, journal)?;
            (Some(publishing), Some(sockets))
        }
    };
    let egress = Egress { gateway, door: Some(door), ssh, publishing };
    let policy = unreachable.map_or(Ok(policy), Err);
    Ok(Opened { egress, variables, covers, sockets, policy, by_proxy })
}

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
    /// None: nobody may be looking.
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

    /// The lines that are still to be shown, at the end.
    pub(crate) fn rest(&self) -> Vec<Note> {
        let mut refusals = lock(&self.refusals);
        std::mem::take(&mut refusals.waiting)
    }

    /// Returns a line about what was used of models, if anything was.
    pub(crate) fn used(&self) -> Option<Note> {
        let text = lock(&self.used).in_words()?;
        Some(Note::new(Topic::Usage, text))
    }

    /// The smallest rules for everything that was reached.
    pub(crate) fn reached(&self) -> Vec<NetworkRule> {
        let reached = lock(&self.reached);
        let rules = reached.iter().filter_map(|asked| NetworkRule::exactly(asked));
        let mut rules: Vec<NetworkRule> = rules.collect();
        rules.dedup();
        rules
    }

    /// Records an internal error, and notifies the user once.
    pub(crate) fn fault(&self, what: &str) {
        let mut refusals = lock(&self.refusals);
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
            let mut refusals = lock(&self.refusals);
            let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
            let text = format!("refused: {reason}{hint}");
            refusals.show(Note::new(Topic::Refused, text), Urgency::Usual);
        }
        self.denied(door, asked.to_owned(), reason.to_owned())
    }

    fn is_silent(&self, asked: &str) -> bool {
        let asked = Endpoint::parse(asked, None);
        asked.is_ok_and(|asked| self.silent.iter().any(|silent| silent.matches(&asked.host)))
    }

    /// Records what was refused, if it does not come too fast; what does is counted.
    fn denied(&self, door: &'static str, what: String, reason: String) -> io::Result<()> {
        let mut refusals = lock(&self.refusals);
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
    /// Shows each note once, and not more than a user reads.
    fn show(&mut self, note: Note, urgency: Urgency) {
        let is_refusal = note.topic == Topic::Refused;
        let shown = if is_refusal { &mut self.refused } else { &mut self.failed };
        if shown.len() > MOST_LINES || !shown.insert(note.text.clone()) {
            return;
        }
        let note = match (shown.len() > MOST_LINES, is_refusal) {
            (false, _) => note,
            (true, true) => {
                Note::new(Topic::Refused, "refused: more hosts; `pinfold audit` lists them")
            }
            (true, false) => Note::warning("more failures like these were not shown"),
        };
        match &self.live {
            LiveLines::All => return notify!("pinfold: {}", note.text),
            LiveLines::Urgent(notices) if urgency == Urgency::Urgent => notices.show(&note.text),
            LiveLines::Urgent(_) | LiveLines::None => {}
        }
        // What was on the screen for a few seconds may have been missed.
        self.waiting.push(note);
    }
}

impl Journal for Records {
    fn record(&self, event: &DoorEvent<'_>) -> io::Result<()> {
        match event {
            DoorEvent::CredentialUse { provider, method, host, path } => {
                self.audit.record(&Event::CredentialUse {
                    provider: provider.to_string(),
                    request: format!("{method} {path}"),
                    host: (*host).to_owned(),
                })
            }
            DoorEvent::Denied { status, reason, method, host, path, for_user } => {
                if *for_user {
                    let text = reason.trim_start_matches("pinfold: ");
                    lock(&self.refusals).show(Note::warning(text), Urgency::Urgent);
                }
                let what = format!("{method} {host}{path}");
                self.denied("gateway", what, format!("{status}: {reason}"))
            }
            DoorEvent::Usage { provider, model, tokens, cost, estimated } => {
                lock(&self.used).add(tokens, *cost, *estimated);
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
                let mut reached = lock(&self.reached);
                if reached.len() < MOST_REACHED {
                    reached.insert(to.clone());
                }
                drop(reached);
                self.audit.record(&Event::Connection { to, rule })
            }
            DoorEvent::SecretUse { id, method, asked, path } => {
                self.audit.record(&Event::CredentialUse {
                    provider: (*id).to_owned(),
                    request: format!("{method} {path}"),
                    host: (*asked).to_owned(),
                })
            }
            DoorEvent::Refused { asked, reason, hint } => {
                // A name that leads to a forbidden address was admitted before.
                lock(&self.reached).remove(*asked);
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
                let key = (*key).to_owned();
                let login = Some(login);
                self.audit.record(&Event::Signature { purpose: "ssh-login", key, login })
            }
            DoorEvent::SignatureRefused { what, reason, hint } => {
                self.refused("ssh-agent", what, reason, *hint)
            }
            DoorEvent::ProviderFailed { provider, host, what } => {
                let text = format!("provider {provider} at {host} {what}");
                lock(&self.refusals).show(Note::warning(text), Urgency::Urgent);
                Ok(())
            }
            // Events that this version does not know are no reason to let a request pass.
            _ => Err(io::Error::other("unknown event at a door")),
        }
    }
}

#[cfg(test)]
mod tests;
