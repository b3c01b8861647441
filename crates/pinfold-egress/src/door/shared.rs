//! What every connection of one session's door needs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_policy::network::{Endpoint, NetworkPolicy, Protocol, Refused};
use tokio::sync::watch;

use super::names::Names;
use super::proxy::UpstreamProxy;
use super::refusal::NoWay;
use crate::gateway::{Event, Journal};
use crate::upstream::Dns;

/// What every connection of one session's door needs.
pub(super) struct Shared {
    pub(super) policy: watch::Receiver<Arc<NetworkPolicy>>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) names: Mutex<Names>,
    pub(super) dns: Dns,
    pub(super) proxy: Option<UpstreamProxy>,
}

impl Shared {
    /// The policy as it is now.
    pub(super) fn policy(&self) -> Arc<NetworkPolicy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(super) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides on a connection and records it.
    ///
    /// # Errors
    /// What the client is to be told.
    pub(super) fn admit(&self, asked: &Endpoint) -> Result<Protocol, NoWay> {
        let policy = self.policy();
        let rule = policy.decide(asked).map_err(|refused| self.refuse(refused))?;
        let (host, by) = (asked.to_string(), rule.to_string());
        let event = Event::Connect { asked: &host, rule: &by };
        self.journal.record(&event).map_err(|_| NoWay::NotRecorded)?;
        Ok(rule.value.protocol_at(asked.port))
    }

    /// Records a refusal.
    pub(super) fn refuse(&self, refused: Refused) -> NoWay {
        let (asked, reason) = (refused.asked().to_string(), refused.to_string());
        let cure = refused.cure();
        let event = Event::Refused { asked: &asked, reason: &reason, cure: cure.as_deref() };
        // What is refused stays refused, recorded or not.
        let _ = self.journal.record(&event);
        NoWay::Refused(refused)
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
