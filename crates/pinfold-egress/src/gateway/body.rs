//! The body of a request on its way out.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// A body that passes as it comes, one that is whole, or none.
pub(super) struct Outbound {
    whole: Option<Bytes>,
    rest: Option<Incoming>,
    /// Bytes that went out.
    sent: Arc<AtomicU64>,
}

impl Outbound {
    /// Returns a body that passes as it comes.
    pub(super) fn passing(rest: Incoming) -> Self {
        Self { rest: Some(rest), ..Self::empty() }
    }

    /// Returns a body that was read and rewritten.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { whole: Some(bytes), ..Self::empty() }
    }

    /// Returns no body.
    pub(super) fn empty() -> Self {
        Self { whole: None, rest: None, sent: Arc::default() }
    }

    /// Returns the whole body, if it is held; none if it passes as it comes.
    pub(super) fn held(&self) -> Option<Bytes> {
        match (&self.whole, &self.rest) {
            (Some(whole), _) => Some(whole.clone()),
            (None, None) => Some(Bytes::new()),
            (None, Some(_)) => None,
        }
    }

    /// Returns bytes that went out so far.
    pub(super) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if let Some(whole) = this.whole.take() {
            this.sent.fetch_add(whole.len() as u64, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(Frame::data(whole))));
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        let polled = Pin::new(rest).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            this.sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.whole, &self.rest) {
            (Some(whole), _) => SizeHint::with_exact(whole.len() as u64),
            (None, Some(rest)) => rest.size_hint(),
            (None, None) => SizeHint::with_exact(0),
        }
    }
}
