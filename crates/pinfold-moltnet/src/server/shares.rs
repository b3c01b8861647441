//! Who gets a connection and the memory for a body when there are not enough: nobody takes all of them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Bytes of all requests and answers together, in KiB,
const BODIES: u32 = 256 << 10;
/// and of those of one agent: two of the largest artifacts at once.
const BODIES_OF_ONE: u32 = 64 << 10;

/// Connections of one agent at once: a quarter of all.
const CONNECTIONS_OF_ONE: usize = 64;

/// Open connections.
#[derive(Clone, Default)]
pub(super) struct Visitors(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    /// Those that have not shown a valid key yet, the oldest first.
    strangers: Vec<Arc<Notify>>,
    /// How many each agent has.
    known: HashMap<String, usize>,
}

/// A connection, which is a stranger's until it is said otherwise.
pub(super) struct Visitor {
    ended: Arc<Notify>,
    /// The agent whose key came last.
    agent: Mutex<Option<String>>,
    visitors: Visitors,
}

impl Visitors {
    /// Takes in a connection.
    pub(super) fn enter(&self) -> Visitor {
        let ended = Arc::new(Notify::new());
        self.0.lock().strangers.push(Arc::clone(&ended));
        Visitor { ended, agent: Mutex::default(), visitors: self.clone() }
    }

    /// Ends the oldest connection of a stranger, for a new one to take its place. A client with a key shows it at once.
    pub(super) fn end_oldest_stranger(&self) {
        let strangers = &mut self.0.lock().strangers;
        if !strangers.is_empty() {
            strangers.remove(0).notify_one();
        }
    }
}

impl Open {
    fn leave(&mut self, agent: &str) {
        if let Some(count) = self.known.get_mut(agent) {
            *count -= 1;
            if *count == 0 {
                self.known.remove(agent);
            }
        }
    }
}

impl Visitor {
    /// Notes that the key of an agent came. Returns whether the agent may have one more connection.
    pub(super) fn is_of(&self, agent: &str) -> bool {
        let mut its = self.agent.lock();
        if its.as_deref() == Some(agent) {
            return true;
        }
        let mut open = self.visitors.0.lock();
        if open.known.get(agent).is_some_and(|count| *count >= CONNECTIONS_OF_ONE) {
            return false;
        }
        match its.take() {
            Some(before) => open.leave(&before),
            None => open.strangers.retain(|other| !Arc::ptr_eq(other, &self.ended)),
        }
        *open.known.entry(agent.to_owned()).or_default() += 1;
        *its = Some(agent.to_owned());
        true
    }

    /// Waits until the connection is to end.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let agent = self.agent.lock().take();
        let mut open = self.visitors.0.lock();
        match agent {
            Some(agent) => open.leave(&agent),
            None => open.strangers.retain(|other| !Arc::ptr_eq(other, &self.ended)),
        }
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
            let mut all = self.by_agent.lock();
            let new = || Arc::new(Semaphore::new(BODIES_OF_ONE as usize));
            Arc::clone(all.entry(agent.to_owned()).or_insert_with(new))
        };
        // No semaphore is ever closed.
        let own = own.acquire_many_owned(kib.min(BODIES_OF_ONE)).await.ok();
        [own, Arc::clone(&self.all).acquire_many_owned(kib.min(BODIES)).await.ok()]
    }
}
