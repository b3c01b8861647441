//! Who gets a connection and the memory for a body when there are not enough: nobody takes all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pinfold_host::io::lock;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Bytes of all requests and answers together, in KiB,
const BODIES: u32 = 256 << 10;
/// and of those of one agent: two of the largest artifacts at once.
const BODIES_OF_ONE: u32 = 64 << 10;

/// Connections that have not shown a valid key yet, the oldest first.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<Vec<Arc<Notify>>>>);

/// A connection, which is a stranger's until it is said otherwise.
pub(super) struct Visitor {
    ended: Arc<Notify>,
    strangers: Strangers,
}

impl Strangers {
    /// Takes in a connection.
    pub(super) fn enter(&self) -> Visitor {
        let ended = Arc::new(Notify::new());
        lock(&self.0).push(Arc::clone(&ended));
        Visitor { ended, strangers: self.clone() }
    }

    /// Ends the oldest connection, for a new one to take its place. A client with a key shows it at once.
    pub(super) fn end_oldest(&self) {
        let mut strangers = lock(&self.0);
        if !strangers.is_empty() {
            strangers.remove(0).notify_one();
        }
    }
}

impl Visitor {
    /// Notes that a valid key came.
    pub(super) fn is_known(&self) {
        lock(&self.strangers.0).retain(|other| !Arc::ptr_eq(other, &self.ended));
    }

    /// Waits until the connection is to end.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.is_known();
    }
}

/// What needs no share, in KiB: a heartbeat must not wait behind slow uploads.
const SMALL: u32 = 2 << 10;

/// What of the memory a request and its answer have until they are dropped.
pub(super) type Share = [Option<OwnedSemaphorePermit>; 2];

/// The memory for requests and answers.
pub(super) struct Bodies {
    all: Arc<Semaphore>,
    by_agent: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(BODIES as usize)), by_agent: Mutex::default() }
    }

    /// Waits for the memory for a request of an agent, which is the empty text for those without a key.
    pub(super) async fn reserve(&self, agent: &str, kib: u32) -> Share {
        if kib <= SMALL {
            return [None, None];
        }
        let own = {
            let mut all = lock(&self.by_agent);
            let new = || Arc::new(Semaphore::new(BODIES_OF_ONE as usize));
            Arc::clone(all.entry(agent.to_owned()).or_insert_with(new))
        };
        // No semaphore is ever closed.
        let own = own.acquire_many_owned(kib.min(BODIES_OF_ONE)).await.ok();
        [own, Arc::clone(&self.all).acquire_many_owned(kib.min(BODIES)).await.ok()]
    }
}
