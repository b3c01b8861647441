//! An answer on its way in, counted as it passes and ended where a budget does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::budget::{Budget, Over};
use super::charge::Charge;
use super::form::Dialect;
use super::refusal::Refusal;
use super::usage::Reader;

/// Tokens that one answer may use before it is written down: sessions of one group see each
/// other's counts that late.
const STEP: u64 = 256;

/// Why no more of an answer may pass.
enum Stop {
    /// A budget ends.
    Over(Over),
    /// The rest cannot be read, so nobody could count it.
    Unreadable,
}

impl Stop {
    fn ending(&self) -> Ending {
        match self {
            Self::Over(_) => Ending::Cut,
            Self::Unreadable => Ending::Broken,
        }
    }

    fn refusal(self) -> Refusal {
        match self {
            Self::Over(over) => over.into(),
            Self::Unreadable => {
                Refusal::NotCountable { what: "an answer whose stream cannot be read".to_owned() }
            }
        }
    }
}

/// What counts an answer.
pub(super) struct Meter {
    pub(super) reader: Reader,
    pub(super) budget: Arc<dyn Budget>,
    pub(super) dialect: Dialect,
    /// Whether a request to a model is answered. What other answers use is counted only where they
    /// say so.
    pub(super) is_model: bool,
    /// Bytes of the request.
    pub(super) sent: Arc<AtomicU64>,
    pub(super) charge: Charge,
}

impl Meter {
    /// Reads a piece; what of it may pass, and why no more may.
    fn push(&mut self, piece: &Bytes) -> Result<(), (usize, Stop)> {
        let Self { reader, budget, charge, is_model, .. } = self;
        if !budget.limits_answers() || !*is_model {
            return reader.push(piece, |_, _| Ok(()));
        }
        reader.push(piece, |reader, end| {
            if reader.is_broken() {
                return Err((end, Stop::Unreadable));
            }
            let now = reader.so_far();
            if now.sum().abs_diff(charge.counted().sum()) < STEP {
                return Ok(());
            }
            charge.spend(reader.model(), now).map_err(|over| (end, Stop::Over(over)))
        })
    }

    /// Counts the whole, and records it.
    fn end(self, ending: Ending) {
        let Self { mut reader, charge, is_model, sent, .. } = self;
        let sent = sent.load(Ordering::Relaxed);
        let used = reader.end(sent, ending == Ending::Whole, is_model);
        let model = reader.model();
        match (used, ending) {
            (Some((tokens, _)), Ending::Broken) if reader.is_stream() => {
                let tokens = charge.broken_off(tokens);
                charge.settle(model, tokens, true);
            }
            (used, Ending::Broken) if is_model => {
                let tokens = charge.at_least_reserved(used.unwrap_or_default().0);
                charge.settle(model, tokens, true);
            }
            // Its usage may have been in what could not be read.
            (Some((tokens, true)), _) if !reader.is_stream() || reader.has_lost() => {
                let tokens = charge.at_least_reserved(tokens);
                charge.settle(model, tokens, true);
            }
            (Some((tokens, estimated)), _) => charge.settle(model, tokens, estimated),
            // What was reserved stays charged.
            (None, _) if is_model && charge.model().is_some() => drop(charge),
            (None, _) => charge.refund(),
        }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// At its own end.
    Whole,
    /// Where a budget does.
    Cut,
    /// The client or the upstream broke off.
    Broken,
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

    /// Returns the early end of a stream: what may pass, and an error in its own form.
    fn cut(&mut self, piece: &Bytes, end: usize, stop: Stop) -> Bytes {
        let mut last = BytesMut::from(&piece[..end]);
        if let Some(meter) = self.meter.take() {
            let (dialect, ending) = (meter.dialect, stop.ending());
            last.extend_from_slice(&stop.refusal().event(dialect));
            meter.end(ending);
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
                let Err((end, stop)) = meter.push(piece) else {
                    if this.body.is_end_stream() {
                        this.finish(Ending::Whole);
                    }
                    return polled;
                };
                let piece = piece.clone();
                Poll::Ready(Some(Ok(Frame::data(this.cut(&piece, end, stop)))))
            }
            Poll::Ready(end) => {
                this.finish(if end.is_none() { Ending::Whole } else { Ending::Broken });
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
    fn finish(&mut self, ending: Ending) {
        if let Some(meter) = self.meter.take() {
            meter.end(ending);
        }
    }
}

impl Drop for Passed {
    /// Counts what was used until now if the client is gone before the end.
    fn drop(&mut self) {
        let ending = if self.body.is_end_stream() { Ending::Whole } else { Ending::Broken };
        self.finish(ending);
    }
}
