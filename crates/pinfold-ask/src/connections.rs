//! Questions about connections that no rule names.
//!
//! A question is about a host and a port, so a thousand connections are one question. What a sandbox can make of
//! them is bounded: how many wait, how many there are in all, and how many are about one site.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinfold_egress::{DoorAnswer, Doorkeeper, smallest_rule};
use pinfold_host::audit::{Audit, Event};
use pinfold_host::directories::Places;
use pinfold_host::io::small_thread;
use pinfold_policy::limits::WallTime;
use pinfold_policy::network::{Endpoint, Host, HostName, HostPattern, Protocol};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::Ceiling;
use tokio::sync::oneshot;

use crate::approvals::{Answer, Answered, NoAnswer, Pending, Subject, Terms};
use crate::desk::Desk;
use crate::display::line;
use crate::loopback;
use crate::saved_hosts::{SavedHost, SavedHosts};

/// Questions that wait at once.
const MOST_WAITING: usize = 8;
/// Questions in one session.
const MOST: usize = 100;
/// Questions about hosts of one site that were not answered with yes.
const MOST_OF_SITE: usize = 5;
/// Connections that wait at once, whatever they are for.
const MOST_CONNECTIONS: usize = 4096;
/// How long nobody is asked again about what nobody has answered.
const SILENCE: Duration = Duration::from_secs(300);

/// What questions about connections are asked by.
pub struct ConnectionTerms {
    /// How long an answer may take.
    pub patience: WallTime,
    /// What no answer passes.
    pub ceiling: Ceiling,
    /// Hosts that an agent asks for by itself, about which nobody is asked.
    pub silent: Vec<HostPattern>,
    /// What `always` is for: the git directory, or the workspace.
    pub repository: PathBuf,
    /// Where pinfold keeps its files.
    pub places: Places,
    /// The session's log.
    pub audit: Arc<Audit>,
}

/// Asks about connections of one session.
pub struct Connections(Arc<Shared>);

struct Shared {
    desk: Arc<Desk>,
    terms: ConnectionTerms,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<Endpoint, Vec<oneshot::Sender<DoorAnswer>>>,
    settled: HashMap<Endpoint, Settled>,
    asked: usize,
    sites: HashMap<String, usize>,
}

/// What an answer means for the door, and who has given it.
struct Meaning {
    by: String,
    answer: DoorAnswer,
    /// What is to be saved.
    rule: Option<SavedHost>,
    /// Until when the same is not asked again, if it is refused.
    until: Option<Instant>,
}

/// A connection that is not asked about again.
struct Settled {
    why: String,
    until: Option<Instant>,
}

impl Connections {
    /// Returns what asks at this desk.
    #[must_use]
    pub fn new(desk: Arc<Desk>, terms: ConnectionTerms) -> Self {
        Self(Arc::new(Shared { desk, terms, state: Mutex::default() }))
    }
}

impl Doorkeeper for Connections {
    fn knows(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        let state = self.0.state.lock();
        let is_known = state.settled.keys().chain(state.waiting.keys()).any(|it| it.host == host);
        let is_open = state.why_not(&host).is_none();
        drop(state);
        is_known || is_open && !self.0.is_silent(&host) && self.0.desk.is_attended()
    }

    fn ask(&self, asked: &Endpoint, reply: oneshot::Sender<DoorAnswer>) {
        // A connection that has gone needs no answer.
        if let Some((reply, answer)) = self.0.ask(asked, reply) {
            let _ = reply.send(answer);
        }
    }

    fn answers_at(&self, address: SocketAddr) -> bool {
        let port = address.port();
        self.0.desk.answers_at(port) || loopback::is_of_session(&self.0.terms.places, port)
    }
}

impl Shared {
    /// Returns whether no question is made about a host, because its agent asks for it unasked, or because no answer
    /// could open it.
    fn is_silent(&self, host: &Host) -> bool {
        self.terms.silent.iter().any(|silent| silent.matches(host))
    }

    /// Has a question asked; what there is an answer for already comes back.
    fn ask(
        self: &Arc<Self>,
        asked: &Endpoint,
        reply: oneshot::Sender<DoorAnswer>,
    ) -> Option<(oneshot::Sender<DoorAnswer>, DoorAnswer)> {
        let rule = Valued::new(smallest_rule(asked), Origin::Flag { name: "an answer" });
        if self.is_silent(&asked.host) || self.terms.ceiling.check_host(&rule).is_err() {
            return Some((reply, DoorAnswer::Nobody));
        }
        let is_attended = self.desk.is_attended();
        let mut state = self.state.lock();
        if let Some(why) = state.settled(asked) {
            return Some((reply, DoorAnswer::No(why)));
        }
        let connections: usize = state.waiting.values().map(Vec::len).sum();
        if let Some(waiting) = state.waiting.get_mut(asked) {
            if connections >= MOST_CONNECTIONS {
                return Some((reply, DoorAnswer::Nobody));
            }
            waiting.push(reply);
            return None;
        }
        if !is_attended {
            return Some((reply, DoorAnswer::Nobody));
        }
        if let Some(why) = state.why_not(&asked.host) {
            return Some((reply, DoorAnswer::No(why.to_owned())));
        }
        let (shared, about) = (Arc::clone(self), asked.clone());
        state.begin(asked, reply);
        drop(state);
        if small_thread("ask", move || shared.see_to(&about)).is_err() {
            self.conclude(asked, &DoorAnswer::Nobody, None);
        }
        None
    }

    /// Asks one question, and gives everybody who waits for it the answer.
    fn see_to(&self, asked: &Endpoint) {
        let id = self.desk.approvals().number();
        let request = Event::ConnectionRequest { id, to: asked.to_string() };
        // What cannot be recorded is not asked.
        if self.terms.audit.record(&request).is_err() {
            return self.conclude(asked, &DoorAnswer::Nobody, None);
        }
        let terms = Terms { patience: self.terms.patience.duration(), waits: false };
        let is_withdrawn = || {
            let state = self.state.lock();
            let waiting = state.waiting.get(asked);
            waiting.is_none_or(|all| all.iter().all(oneshot::Sender::is_closed))
        };
        let outcome = self.desk.ask(self.question(id, asked), terms, is_withdrawn);
        let Meaning { by, answer, rule, until } = self.meaning(asked, outcome);
        let (outcome, reason) = match (&answer, &rule) {
            (DoorAnswer::Once, _) => ("allow", Some("once".to_owned())),
            (DoorAnswer::Session, Some(rule)) => ("allow", Some(format!("always: {rule}"))),
            (DoorAnswer::Session, None) => ("allow", None),
            (DoorAnswer::No(why), _) => ("deny", Some(why.clone())),
            (DoorAnswer::Nobody, _) => ("deny", Some("no answer".to_owned())),
        };
        let decision = Event::ConnectionDecision { id, outcome, by: &by, reason };
        let is_recorded = self.terms.audit.record(&decision).is_ok();
        let is_refused = matches!(answer, DoorAnswer::No(_) | DoorAnswer::Nobody);
        let answer = match rule {
            _ if !is_recorded && !is_refused => DoorAnswer::Nobody,
            // A rule that outlives the session is written once it is recorded.
            Some(rule) => match SavedHosts::new(&self.terms.places).add(&rule) {
                Ok(()) => answer,
                Err(error) => DoorAnswer::No(format!("the rule cannot be written: {error}")),
            },
            None => answer,
        };
        self.conclude(asked, &answer, until);
    }

    fn question(&self, id: u64, asked: &Endpoint) -> Pending {
        let host = line(asked.host.to_string().as_bytes());
        let mut details = Vec::new();
        match &asked.host {
            Host::Address(_) => details.push("an address, which has no name to check".to_owned()),
            Host::Name(name) if name.as_str().split('.').any(|it| it.starts_with("xn--")) => {
                let what = "its real form is shown: it has letters that are not ASCII, and can look like another name";
                details.push(what.to_owned());
            }
            Host::Name(_) => {}
        }
        let protocol = Protocol::of_port(asked.port).word().to_owned();
        let subject = Subject::Connection { host, port: asked.port, protocol };
        let rule = self.saved(asked).map(|saved| saved.to_string());
        Pending { id, subject, details, rule }
    }

    /// Returns what `always` writes; none where the repository's path is no text.
    fn saved(&self, asked: &Endpoint) -> Option<SavedHost> {
        let repository = self.terms.repository.clone();
        repository.to_str()?;
        Some(SavedHost { repository, rule: smallest_rule(asked).to_string() })
    }

    fn meaning(&self, asked: &Endpoint, outcome: Result<Answered, NoAnswer>) -> Meaning {
        let ours = |answer| {
            let until = Instant::now().checked_add(SILENCE);
            Meaning { by: "pinfold".to_owned(), answer, rule: None, until }
        };
        let Answered { answer, by } = match outcome {
            Ok(answered) => answered,
            Err(NoAnswer::Late) => {
                let patience = &self.terms.patience;
                return ours(DoorAnswer::No(format!("nobody answered within {patience}")));
            }
            Err(NoAnswer::Crowded) => {
                return ours(DoorAnswer::No("too many questions came after it".to_owned()));
            }
            Err(NoAnswer::Nobody | NoAnswer::Withdrawn | NoAnswer::Over) => {
                return ours(DoorAnswer::Nobody);
            }
        };
        let (answer, rule) = match answer {
            Answer::Once => (DoorAnswer::Once, None),
            Answer::Session => (DoorAnswer::Session, None),
            Answer::Always => match self.saved(asked) {
                Some(rule) => (DoorAnswer::Session, Some(rule)),
                None => (DoorAnswer::No("no rule can allow this".to_owned()), None),
            },
            Answer::Deny { reason } => {
                let reason =
                    reason.map_or(String::new(), |it| format!(": {}", line(it.as_bytes())));
                (DoorAnswer::No(format!("denied by its user{reason}")), None)
            }
        };
        Meaning { by, answer, rule, until: None }
    }

    fn conclude(&self, asked: &Endpoint, answer: &DoorAnswer, until: Option<Instant>) {
        for reply in self.state.lock().end(asked, answer, until) {
            let _ = reply.send(answer.clone());
        }
    }
}

impl State {
    /// Returns what a connection was refused with, as long as it is not asked about again.
    fn settled(&mut self, asked: &Endpoint) -> Option<String> {
        let is_over = |settled: &Settled| settled.until.is_some_and(|it| it <= Instant::now());
        if self.settled.get(asked).is_some_and(is_over) {
            self.settled.remove(asked);
        }
        self.settled.get(asked).map(|settled| settled.why.clone())
    }

    /// Returns why no question about a host is made: its sandbox has made too many.
    fn why_not(&self, host: &Host) -> Option<&'static str> {
        if self.waiting.len() >= MOST_WAITING {
            return Some("too many questions wait for an answer");
        }
        if self.asked >= MOST {
            return Some("this session has asked too many questions");
        }
        let of_site = self.sites.get(&site(host)).copied().unwrap_or_default();
        (of_site >= MOST_OF_SITE).then_some("too many questions were about hosts of this site")
    }

    fn begin(&mut self, asked: &Endpoint, reply: oneshot::Sender<DoorAnswer>) {
        self.asked += 1;
        *self.sites.entry(site(&asked.host)).or_default() += 1;
        self.waiting.insert(asked.clone(), vec![reply]);
    }

    /// Ends a question, and returns who waits for its answer.
    fn end(
        &mut self,
        asked: &Endpoint,
        answer: &DoorAnswer,
        until: Option<Instant>,
    ) -> Vec<oneshot::Sender<DoorAnswer>> {
        match answer {
            DoorAnswer::Once | DoorAnswer::Session => {
                if let Some(count) = self.sites.get_mut(&site(&asked.host)) {
                    *count = count.saturating_sub(1);
                }
            }
            DoorAnswer::No(why) => {
                self.settled.insert(asked.clone(), Settled { why: why.clone(), until });
            }
            DoorAnswer::Nobody => {}
        }
        self.waiting.remove(asked).unwrap_or_default()
    }
}

/// Returns what hosts of probably one owner have in common: the last two labels of a name. Names below a public
/// suffix with two labels count together, which only makes questions about them fewer.
fn site(host: &Host) -> String {
    match host {
        Host::Name(name) => {
            let mut labels: Vec<&str> = name.as_str().rsplit('.').take(2).collect();
            labels.reverse();
            labels.join(".")
        }
        Host::Address(address) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pinfold_policy::network::NetworkRule;

    use super::*;

    fn endpoint(host: &str, port: u16) -> Endpoint {
        Endpoint { host: host.parse().unwrap(), port }
    }

    /// What a sandbox would try with `always`: a name that is saved as a rule for more than was asked about.
    #[test]
    fn saved_rule_is_for_what_was_asked_about_and_nothing_more() {
        let longest = format!("{0}.{0}.{0}.example", "a".repeat(63));
        for host in ["example.com", "EXAMPLE.com", "93.184.216.34", "2606:2800::34", &longest] {
            for port in [1, 22, 80, 443, 65535] {
                let asked = endpoint(host, port);
                let rule = smallest_rule(&asked);
                let read: NetworkRule = rule.to_string().parse().unwrap();
                assert_eq!(read, rule, "{host}");
                assert!(rule.hosts.matches(&asked.host) && rule.ports.contains(port));
                for other in ["xexample.com", "x.example.com", "example.com.x", "93.184.216.35"] {
                    assert!(!read.hosts.matches(&endpoint(other, 1).host), "{host}: {other}");
                }
                assert!(!read.ports.contains(port ^ 8));
            }
        }
        for odd in [
            "*",
            "*.com",
            "a b.com",
            "example.com:80",
            "a,b",
            "x\n.com",
            "[::1",
            "",
            "a..b",
            "\u{202e}moc",
        ] {
            let host = odd.parse::<Host>();
            let rule = host.map(|host| smallest_rule(&Endpoint { host, port: 80 }).to_string());
            assert!(
                rule.as_ref().is_err() || rule.as_ref().is_ok_and(|it| it.starts_with("xn--")),
                "{odd}: {rule:?}"
            );
        }
    }

    #[test]
    fn names_that_are_one_host_are_one_question() {
        for other in ["Example.COM", "example.com."] {
            match other.parse::<Host>() {
                Ok(host) => assert_eq!(host, endpoint("example.com", 1).host, "{other}"),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        let of = |host: &str| site(&endpoint(host, 1).host);
        assert_eq!(of("a.b.example.com"), "example.com");
        assert_eq!(of("localhost"), "localhost");
        assert_ne!(of("93.184.216.34"), of("93.184.216.35"));
    }
}
