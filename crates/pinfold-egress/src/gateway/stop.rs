//! Ending a gateway from another thread.

use tokio::sync::oneshot;

/// Ends the gateway that holds the matching [`Stop`], when asked to or when dropped.
pub struct StopHandle(oneshot::Sender<()>);

/// What a gateway listens to for its end.
pub struct Stop(oneshot::Receiver<()>);

/// Makes a pair.
#[must_use]
pub fn stop_channel() -> (StopHandle, Stop) {
    let (sender, receiver) = oneshot::channel();
    (StopHandle(sender), Stop(receiver))
}

impl StopHandle {
    /// Ends the gateway: open connections are cut, [`crate::Egress::serve`] returns.
    pub fn stop(self) {
        // Fails only when the gateway has ended already.
        let _ = self.0.send(());
    }
}

impl Stop {
    pub(crate) async fn stopped(self) {
        // A dropped handle is the same order as a used one.
        let _ = self.0.await;
    }
}
