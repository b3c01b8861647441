//! Connections to upstreams, kept between requests.
//!
//! hyper-util's client does this for every protocol at the price of a task and several
//! allocations for each request; HTTP/1.1 alone needs a list.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use tower_service::Service as _;

use super::body::Outbound;
use crate::upstream::{Connector, Failure, copy_of, is_silence};

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(90);

/// Connections kept for one upstream.
const MAX_KEPT: usize = 32;

/// Bytes read from an upstream at once, at most. More is not faster, only larger than the
/// processor's cache and than a session's share of memory. It also bounds the head of an answer.
const MAX_BUFFER: usize = 128 * 1024;

/// The connections to one upstream.
pub(super) struct Pool {
    to: Uri,
    connector: Connector,
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    sender: SendRequest<Outbound>,
    used: Instant,
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// There was no connection to send it on.
    #[error(transparent)]
    NoConnection(#[from] Failure),
    /// It was sent, and the connection broke before an answer came.
    #[error("the connection broke: {}", Failure::innermost(.0))]
    Broke(hyper::Error),
}

impl Pool {
    /// Opens nothing yet. Of `to`, scheme, host and port count.
    pub(super) fn new(to: Uri, connector: Connector) -> Self {
        Self { to, connector, kept: Mutex::default() }
    }

    /// Sends a request whose target is a path alone. A kept connection that turns out to be closed
    /// is replaced by another, if nothing was sent or the request may be sent twice.
    pub(super) async fn send(
        &self,
        mut request: Request<Outbound>,
    ) -> Result<Response<Incoming>, SendError> {
        while let Some(mut sender) = self.take() {
            let copy = copy_of(&request, Outbound::empty());
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(sender);
                    return Ok(response);
                }
                Err(mut error) => {
                    let copy = copy.filter(|_| is_silence(error.error()));
                    match error.take_message().or(copy) {
                        Some(unanswered) => request = unanswered,
                        None => return Err(SendError::Broke(error.into_error())),
                    }
                }
            }
        }
        let mut sender = self.open().await?;
        let response = sender.send_request(request).await.map_err(SendError::Broke)?;
        self.keep(sender);
        Ok(response)
    }

    /// Returns a connection that waits for a request. One that is still busy with the last answer stays,
    /// one that was closed or not used for long goes.
    fn take(&self) -> Option<SendRequest<Outbound>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| !kept.sender.is_closed() && kept.used.elapsed() < IDLE);
        let ready = kept.iter().rposition(|kept| kept.sender.is_ready())?;
        Some(kept.swap_remove(ready).sender)
    }

    /// Keeps a connection from when its answer begins: it is ready again when that has ended.
    fn keep(&self, sender: SendRequest<Outbound>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT {
            kept.push(Kept { sender, used: Instant::now() });
        }
    }

    async fn open(&self) -> Result<SendRequest<Outbound>, SendError> {
        let stream = self.connector.clone().call(self.to.clone()).await?;
        let mut protocol = http1::Builder::new();
        protocol.max_buf_size(MAX_BUFFER);
        let (sender, connection) = protocol.handshake(stream).await.map_err(SendError::Broke)?;
        // Ends with the connection; the request on it gets the error that breaks it.
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }
}
