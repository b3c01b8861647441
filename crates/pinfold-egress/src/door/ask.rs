//! Connections that no rule names, about which the user is asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use pinfold_policy::network::{
    AddressClass, Endpoint, Host, HostName, HostPattern, NetworkRule, Ports, Refused,
};
use pinfold_policy::origin::{Origin, Valued};
use tokio::sync::oneshot;

use super::policy_handle::PolicyHandle;

/// Who gave the rules of answers that count once, and of those that count in the session.
pub(super) const ONCE: Origin = Origin::Flag { name: "an answer, once" };
pub(super) const SESSION: Origin = Origin::Flag { name: "an answer, for this session" };

/// Asks the user about connections that no rule names.
pub trait Doorkeeper: Send + Sync {
    /// Returns whether a connection to this name would be asked about now, or has an answer already.
    fn knows(&self, name: &HostName) -> bool;

    /// Asks about a connection. Other connections to the same wait for the same answer.
    fn ask(&self, asked: &Endpoint, reply: oneshot::Sender<DoorAnswer>);

    /// Returns whether answers are given at this address, which no sandbox reaches.
    fn answers_at(&self, address: SocketAddr) -> bool;
}

/// The answer to a question about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoorAnswer {
    /// It is made, and the same as long as one of these is open.
    Once,
    /// It is made, and the same for the rest of the session.
    Session,
    /// It is refused, for this reason.
    No(String),
    /// Nobody can be asked: it is refused as it would be without a question.
    Nobody,
}

/// The rules of answers that count once, each with the number of connections by it.
pub(super) struct Leases {
    pub(super) policy: PolicyHandle,
    open: Mutex<HashMap<NetworkRule, usize>>,
}

/// Keeps the rule of an answer that counts once, until the last connection by it has ended.
pub(super) struct Lease {
    leases: Arc<Leases>,
    rule: NetworkRule,
}

impl Leases {
    pub(super) fn new(policy: PolicyHandle) -> Arc<Self> {
        Arc::new(Self { policy, open: Mutex::default() })
    }

    /// Adds a connection by a rule, and the rule if it is the first.
    pub(super) fn take(self: &Arc<Self>, rule: NetworkRule) -> Lease {
        let mut open = self.open.lock();
        let count = open.entry(rule.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.policy.change(|policy| policy.allow.push(Valued::new(rule.clone(), ONCE)));
        }
        Lease { leases: Arc::clone(self), rule }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut open = self.leases.open.lock();
        let Some(count) = open.get_mut(&self.rule) else { return };
        *count -= 1;
        if *count == 0 {
            open.remove(&self.rule);
            let is_it = |rule: &Valued<NetworkRule>| rule.origin == ONCE && rule.value == self.rule;
            self.leases.policy.change(|policy| policy.allow.retain(|rule| !is_it(rule)));
        }
    }
}

/// Returns the rule that allows a connection and nothing more.
#[must_use]
pub fn smallest_rule(asked: &Endpoint) -> NetworkRule {
    let hosts = HostPattern::Exactly(asked.host.clone());
    NetworkRule { ports: Ports::One(asked.port), ..NetworkRule::web(hosts) }
}

/// Returns whether a user is asked: about a public host that no rule names. What would open this machine or its
/// networks needs a setting.
pub(super) fn may_be_asked_about(refused: &Refused) -> bool {
    match refused {
        Refused::Host(asked) | Refused::Port { asked, .. } => match &asked.host {
            Host::Address(address) => AddressClass::of(*address).is_public(),
            name => !name.is_this_machine(),
        },
        Refused::Address(Endpoint { host: Host::Address(address), .. }) => {
            AddressClass::of(*address).is_public()
        }
        _ => false,
    }
}
