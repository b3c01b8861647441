//! An answer on its way in, counted as it passes and ended where a budget does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pinfold_policy::prices::Tokens;

use super::budget::{Budget, Over};
use super::config::ProviderId;
use super::journal::{Event, Journal, shortened};
use super::refusal::{Dialect, Refusal};
use super::usage::Reader;

/// Tokens that one answer may use before it is written down: sessions of one group see each
/// other's counts that late.
const STEP: u64 = 256;

/// What counts an answer.
pub(super) struct Meter {
    pub(super) reader: Reader,
    pub(super) budget: Arc<dyn Budget>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) provider: ProviderId,
    pub(super) dialect: Dialect,
    /// The model, as the request names it.
    pub(super) model: Option<String>,
    /// Bytes of the request.
    pub(super) sent: Arc<AtomicU64>,
    /// What is counted already.
    pub(super) counted: Tokens,
}

impl Meter {
    fn model(&self) -> Option<&str> {
        self.model.as_deref().or(self.reader.model())
    }

    /// Reads a piece; what of it may pass, and why no more may.
    fn push(&mut self, piece: &Bytes) -> Result<(), (usize, Over)> {
        let Self { reader, budget, counted, model, .. } = self;
        if !budget.limits_answers() {
            return reader.push(piece, |_, _| Ok(()));
        }
        reader.push(piece, |reader, end| {
            let now = reader.so_far();
            if now.sum().abs_diff(counted.sum()) < STEP {
                return Ok(());
            }
            let before = std::mem::replace(counted, now);
            let model = model.as_deref().or(reader.model());
            budget.spend(model, &before, &now).map_err(|over| (end, over))
        })
    }

    /// Counts the whole, and records it. The answer is there already: what cannot be recorded now
    /// shows as a credential's use without its end.
    fn end(&mut self, whole: bool) {
        let sent = self.sent.load(Ordering::Relaxed);
        let Some((tokens, estimated)) = self.reader.end(sent, whole) else { return };
        let before = std::mem::replace(&mut self.counted, tokens);
        // What is over is refused with the next request.
        let _ = self.budget.spend(self.model(), &before, &tokens);
        let model = shortened(self.model().unwrap_or_default());
        let cost = self.budget.cost(model, &tokens);
        let provider = &self.provider;
        let _ = self.journal.record(&Event::Usage { provider, model, tokens, cost, estimated });
    }
}

/// The body of an answer.
pub(super) struct Passed {
    body: Incoming,
    meter: Option<Box<Meter>>,
    ended: bool,
}

impl Passed {
    pub(super) fn new(body: Incoming, meter: Option<Meter>) -> Self {
        Self { body, meter: meter.map(Box::new), ended: false }
    }

    /// The end of a stream whose budget is spent: what may pass, and an error in its own form.
    fn cut(&mut self, piece: &Bytes, end: usize, over: Over) -> Bytes {
        let mut last = BytesMut::from(&piece[..end]);
        if let Some(mut meter) = self.meter.take() {
            meter.end(false);
            last.extend_from_slice(b"\n");
            last.extend_from_slice(Refusal::from(over).event(meter.dialect).as_bytes());
        }
        self.ended = true;
        last.freeze()
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut this.body).poll_frame(context);
        let Some(meter) = &mut this.meter else { return polled };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let Some(piece) = frame.data_ref() else { return polled };
                let Err((end, over)) = meter.push(piece) else {
                    if this.body.is_end_stream() {
                        this.finish(true);
                    }
                    return polled;
                };
                let piece = piece.clone();
                Poll::Ready(Some(Ok(Frame::data(this.cut(&piece, end, over)))))
            }
            Poll::Ready(end) => {
                this.finish(end.is_none());
                polled
            }
            Poll::Pending => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.meter {
            Some(meter) if meter.reader.is_stream() => SizeHint::default(),
            Some(_) | None => self.body.size_hint(),
        }
    }
}

impl Passed {
    fn finish(&mut self, whole: bool) {
        if let Some(mut meter) = self.meter.take() {
            meter.end(whole);
        }
    }
}

impl Drop for Passed {
    /// The client is gone before the end: what was used until then counts.
    fn drop(&mut self) {
        self.finish(false);
    }
}
