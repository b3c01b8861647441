//! The policy of a door, changed while it is served.

use std::sync::Arc;

use pinfold_policy::network::NetworkPolicy;
use tokio::sync::watch;

/// Changes the policy of a door while it is served.
#[derive(Clone)]
pub struct PolicyHandle(Arc<watch::Sender<Arc<NetworkPolicy>>>);

impl PolicyHandle {
    /// Returns a handle, and where its policy is read.
    pub(super) fn new(policy: NetworkPolicy) -> (Self, watch::Receiver<Arc<NetworkPolicy>>) {
        let (sender, receiver) = watch::channel(Arc::new(policy));
        (Self(Arc::new(sender)), receiver)
    }

    /// Returns the policy as it is now.
    #[must_use]
    pub fn current(&self) -> Arc<NetworkPolicy> {
        Arc::clone(&self.0.borrow())
    }

    /// Changes the policy. Connections that it no longer allows are cut.
    pub fn change(&self, change: impl FnOnce(&mut NetworkPolicy)) {
        self.0.send_modify(|policy| change(Arc::make_mut(policy)));
    }
}
