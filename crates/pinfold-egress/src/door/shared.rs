//! What every connection of one session's door needs.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use pinfold_policy::network::{Endpoint, NetworkPolicy, NetworkRule, Protocol, Refused};
use pinfold_policy::origin::Valued;
use rustls::ClientConfig;
use tokio::sync::{oneshot, watch};

use super::ask::{
    DoorAnswer, Doorkeeper, Lease, Leases, ONCE, SESSION, may_be_asked_about, smallest_rule,
};
use super::mint::SessionAuthority;
use super::names::Names;
use super::refusal::NoWay;
use super::vault::Vault;
use crate::gateway::{Event, Journal};
use crate::held::HeldBytes;
use crate::upstream::{Dns, Failure, WayOut, client_config};

/// What every connection of one session's door needs.
pub(super) struct Shared {
    pub(super) policy: watch::Receiver<Arc<NetworkPolicy>>,
    /// Rules that an answer has given for as long as a connection lasts.
    pub(super) leases: Arc<Leases>,
    pub(super) doorkeeper: Option<Arc<dyn Doorkeeper>>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) names: Mutex<Names>,
    pub(super) dns: Dns,
    pub(super) authority: Option<SessionAuthority>,
    pub(super) vault: Vault,
    pub(super) way: WayOut,
    pub(super) tls: OnceLock<Arc<ClientConfig>>,
    /// Memory for bodies that are looked into.
    pub(super) held: HeldBytes,
}

impl Shared {
    /// Returns the policy as it is now.
    pub(super) fn policy(&self) -> Arc<NetworkPolicy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(super) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock()
    }

    /// Decides on a connection, and asks the user if no rule names it. What comes back has to be kept
    /// as long as the connection.
    ///
    /// # Errors
    /// Returns what the client gets as the reason.
    pub(super) async fn decide(&self, asked: &Endpoint) -> Result<Option<Lease>, NoWay> {
        let refused = match self.policy().decide(asked) {
            Ok(rule) if rule.origin == ONCE => {
                return Ok(Some(self.leases.take(rule.value.clone())));
            }
            Ok(_) => return Ok(None),
            Err(refused) => refused,
        };
        let doorkeeper = self.doorkeeper.as_ref().filter(|_| may_be_asked_about(&refused));
        let Some(doorkeeper) = doorkeeper else { return Err(self.refuse(refused, None)) };
        let rule = smallest_rule(asked);
        let (reply, answer) = oneshot::channel();
        doorkeeper.ask(asked, reply);
        match answer.await.unwrap_or(DoorAnswer::Nobody) {
            DoorAnswer::Once => Ok(Some(self.leases.take(rule))),
            DoorAnswer::Session => {
                self.leases.policy.change(|policy| {
                    if policy.decide(asked).is_err() {
                        policy.allow.push(Valued::new(rule, SESSION));
                    }
                });
                Ok(None)
            }
            DoorAnswer::No(why) => Err(self.refuse(refused, Some(why))),
            DoorAnswer::Nobody => Err(self.refuse(refused, None)),
        }
    }

    /// Decides on a connection and records it. The lease is kept as long as the connection.
    ///
    /// # Errors
    /// Returns what the client gets as the reason.
    pub(super) async fn admit(&self, asked: &Endpoint) -> Result<(Protocol, Option<Lease>), NoWay> {
        let lease = self.decide(asked).await?;
        let policy = self.policy();
        let rule = policy.decide(asked).map_err(|refused| self.refuse(refused, None))?;
        let (host, by) = (asked.to_string(), rule.to_string());
        let event = Event::Connect { asked: &host, rule: &by };
        self.journal.record(&event).map_err(|_| NoWay::NotRecorded)?;
        Ok((rule.value.protocol_at(asked.port), lease))
    }

    /// Records a refusal, with what the user has answered.
    pub(super) fn refuse(&self, refused: Refused, answer: Option<String>) -> NoWay {
        let (asked, mut reason) = (refused.asked().to_string(), refused.to_string());
        if let Some(answer) = &answer {
            reason = format!("{reason}; {answer}");
        }
        let hint = refused.hint().map(|hint| hint.to_string());
        let event = Event::Refused { asked: &asked, reason: &reason, hint: hint.as_deref() };
        // What is refused stays refused, recorded or not.
        let _ = self.journal.record(&event);
        answer.map_or(NoWay::Refused(refused), |_| NoWay::Denied(reason))
    }

    /// Returns whether TLS with a host is ended here. A session that began without an authority has none
    /// for a host of strangers that was allowed later.
    pub(super) fn intercepts(&self, asked: &Endpoint) -> bool {
        let policy = self.policy();
        self.vault.knows(asked)
            || policy.must_intercept(asked)
            || self.authority.is_some() && policy.intercepts(asked)
    }

    /// Returns whether requests to a host have to be seen.
    pub(super) fn looks_into(&self, asked: &Endpoint) -> bool {
        self.intercepts(asked) || self.requests_rule(asked).is_some()
    }

    /// Returns a rule for a host and port that decides by requests.
    pub(super) fn requests_rule(&self, asked: &Endpoint) -> Option<Box<NetworkRule>> {
        let policy = self.policy();
        policy.rules_for(asked).find(|rule| rule.looks_at_requests()).cloned().map(Box::new)
    }

    /// Returns how servers prove themselves; the trusted certificates are read when first needed.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, Failure> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = client_config(&self.way.roots)?;
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(config))))
    }

    /// Waits until the policy no longer allows a connection.
    pub(super) async fn until_forbidden(&self, asked: &Endpoint) {
        let mut policy = self.policy.clone();
        while policy.borrow_and_update().decide(asked).is_ok() {
            if policy.changed().await.is_err() {
                // Nobody can change it any more.
                return std::future::pending().await;
            }
        }
    }
}
