//! The body of an answer, which has its share of the memory until the client has taken it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::server::shares::Share;

/// Bytes that are given to the connection at once. It asks for more when it has written most of them.
const PART: usize = 64 << 10;

/// The body of an answer.
pub(super) struct Sent {
    rest: Bytes,
    _share: Option<Share>,
}

impl Sent {
    pub(super) fn new(body: Vec<u8>, share: Option<Share>) -> Self {
        Self { rest: Bytes::from(body), _share: share }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
