//! A connection with a server, in either version of HTTP.

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::place::RequestBody;

/// Bytes read at once, at most; it also bounds the head of an answer.
pub(super) const MAX_BUFFER: usize = 128 * 1024;

/// A connection with a client or a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Sends requests on one connection.
pub(super) enum Sender {
    One(http1::SendRequest<RequestBody>),
    Two(http2::SendRequest<RequestBody>),
}

impl Sender {
    /// Begins to speak.
    ///
    /// # Errors
    /// Returns what broke the connection.
    pub(super) async fn open(upstream: impl Stream, is_http2: bool) -> hyper::Result<Self> {
        let io = TokioIo::new(upstream);
        // Each connection's task ends with it; the request on it gets the error that breaks it.
        if is_http2 {
            let mut protocol = http2::Builder::new(TokioExecutor::new());
            let (sender, connection) = protocol.timer(TokioTimer::new()).handshake(io).await?;
            tokio::spawn(connection);
            return Ok(Self::Two(sender));
        }
        let mut protocol = http1::Builder::new();
        let (sender, connection) = protocol.max_buf_size(MAX_BUFFER).handshake(io).await?;
        tokio::spawn(connection.with_upgrades());
        Ok(Self::One(sender))
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Two(sender) => sender.is_closed(),
        }
    }
}
