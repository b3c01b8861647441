//! Calls that a client may take back.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// A call that goes on.
#[derive(Default)]
pub struct Call {
    cancelled: AtomicBool,
    take_back: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Call {
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        if let Some(take_back) = &*self.take_back.lock() {
            take_back();
        }
    }

    /// Returns whether the client wants no answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Has this done when the call is taken back; at once if it was already.
    pub fn can_be_taken_back(&self, take_back: impl Fn() + Send + 'static) {
        let mut place = self.take_back.lock();
        if self.is_cancelled() {
            take_back();
        }
        *place = Some(Box::new(take_back));
    }
}
