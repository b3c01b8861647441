//! Taking secrets out of what an upstream says.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};

use super::patterns::{Patterns, Piece};
use super::vault::Watch;

/// Replaces patterns in a stream, also across the borders of its chunks. No more is held back
/// than may be the beginning of a pattern.
pub(super) struct Scrubber {
    patterns: Patterns,
    /// Where the patterns come from, and new ones.
    watch: Watch,
    held: Piece,
}

impl Scrubber {
    pub(super) fn new(mut watch: Watch) -> Self {
        Self { patterns: watch.patterns(), watch, held: Piece::default() }
    }

    /// Returns one that looks for these alone.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(patterns: Patterns) -> Self {
        Self { patterns, ..Self::new(Watch::default()) }
    }

    fn refresh(&mut self) {
        if let Some(patterns) = self.watch.changed() {
            self.patterns = patterns;
        }
    }

    /// Returns what of the stream can go on, now that this chunk is there.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.refresh();
        self.held.bytes.extend_from_slice(chunk);
        self.patterns.pass(&mut self.held, false)
    }

    /// Returns what is left at the end.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.refresh();
        self.patterns.pass(&mut self.held, true)
    }
}

/// How a body is encoded (RFC 9110, 8.4).
enum Coding {
    Identity,
    Gzip(Box<MultiGzDecoder<Decoded>>),
    Brotli(Box<DecompressorWriter<Decoded>>),
}

/// Bytes of an encoded body that are decoded at once.
const PIECE: usize = 4 * 1024;
/// What these may become. More is no text but a bomb.
const MOST_DECODED: usize = 16 * 1024 * 1024;

/// Where a decoder writes to.
#[derive(Default)]
struct Decoded(Vec<u8>);

impl Write for Decoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_DECODED {
            return Err(io::Error::other("an encoded body grows beyond all measure"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encodings that can be looked into, for `Accept-Encoding`.
pub(super) const READABLE: HeaderValue = HeaderValue::from_static("gzip, br");

/// A body in an encoding that cannot be looked into.
#[derive(Debug)]
pub(super) struct Unreadable;

impl Coding {
    const BUFFER: usize = 16 * 1024;

    /// Returns the encoding that headers tell; it is removed from them, since what passes on is decoded.
    fn of(headers: &mut HeaderMap) -> Result<Self, Unreadable> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let value = values.next().map(|value| value.to_str().unwrap_or("?").trim());
        let coding = match value.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Self::Identity,
            Some("gzip" | "x-gzip") => {
                Self::Gzip(Box::new(MultiGzDecoder::new(Decoded::default())))
            }
            Some("br") => {
                Self::Brotli(Box::new(DecompressorWriter::new(Decoded::default(), Self::BUFFER)))
            }
            Some(_) => return Err(Unreadable),
        };
        if values.next().is_some() {
            return Err(Unreadable);
        }
        headers.remove(CONTENT_ENCODING);
        Ok(coding)
    }

    /// Decodes a chunk.
    fn push(&mut self, chunk: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(chunk.to_vec()),
            Self::Gzip(decoder) => {
                decoder.write_all(chunk)?;
                Ok(std::mem::take(&mut decoder.get_mut().0))
            }
            Self::Brotli(decoder) => {
                decoder.write_all(chunk)?;
                Ok(std::mem::take(&mut decoder.get_mut().0))
            }
        }
    }

    /// Decodes what is left at the end.
    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(Vec::new()),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(&mut decoder.get_mut().0))
            }
            Self::Brotli(decoder) => {
                decoder.close()?;
                Ok(std::mem::take(&mut decoder.get_mut().0))
            }
        }
    }
}

/// A body from which secrets are taken as it passes.
pub(super) struct Scrubbed<B> {
    inner: B,
    coding: Coding,
    scrubber: Scrubber,
    /// What of the last chunk is still to be decoded.
    pending: Bytes,
    /// Trailers that wait for the end of the body.
    trailers: Option<HeaderMap>,
    begun: bool,
    ended: bool,
}

impl<B> Scrubbed<B> {
    /// Wraps the body of a message with these headers, and scrubs these; the encoding is taken off
    /// both.
    pub(super) fn new(inner: B, headers: &mut HeaderMap, watch: Watch) -> Result<Self, Unreadable> {
        let scrubber = Scrubber::new(watch);
        scrubber.patterns.scrub_headers(headers);
        let coding = Coding::of(headers)?;
        let (pending, trailers) = (Bytes::new(), None);
        Ok(Self { inner, coding, scrubber, pending, trailers, begun: false, ended: false })
    }

    fn data(&mut self, chunk: &[u8]) -> io::Result<Vec<u8>> {
        self.begun = true;
        let decoded = self.coding.push(chunk)?;
        Ok(self.scrubber.push(&decoded))
    }

    fn last(&mut self) -> io::Result<Vec<u8>> {
        self.ended = true;
        // An answer without a body (to HEAD, or 304) names the encoding that its body would have.
        let decoded = if self.begun { self.coding.finish()? } else { Vec::new() };
        let mut rest = self.scrubber.push(&decoded);
        rest.extend(self.scrubber.finish());
        Ok(rest)
    }
}

/// What can break a body on its way.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

impl<B> Body for Scrubbed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            while !self.pending.is_empty() {
                let length = self.pending.len().min(PIECE);
                let piece = self.pending.split_to(length);
                let clean = self.data(&piece)?;
                if !clean.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(clean.into()))));
                }
            }
            if self.ended {
                return Poll::Ready(self.trailers.take().map(|last| Ok(Frame::trailers(last))));
            }
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(frame) => frame.map_err(Into::into)?,
                None => Frame::trailers(HeaderMap::new()),
            };
            match frame.into_data() {
                Ok(chunk) => self.pending = chunk,
                Err(frame) => {
                    // Trailers end the message.
                    let rest = self.last()?;
                    self.trailers = frame.into_trailers().ok().filter(|last| !last.is_empty());
                    let Self { scrubber, trailers, .. } = &mut *self;
                    if let Some(trailers) = trailers {
                        scrubber.patterns.scrub_headers(trailers);
                    }
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                    }
                }
            }
        }
    }

    /// Returns whether the head is the end, as of an answer without a body: gRPC reports errors that way, and takes an empty
    /// body after the head for a broken stream.
    fn is_end_stream(&self) -> bool {
        let nothing_left = self.pending.is_empty() && self.trailers.is_none();
        nothing_left && (self.ended || !self.begun && self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber() -> Scrubber {
        let mut patterns = Patterns::default();
        patterns.add_secret("s3cr3t-s3cr3t-value", "placeholder");
        Scrubber::of(patterns)
    }

    #[test]
    fn no_more_is_held_back_than_may_be_a_beginning() {
        let mut scrubber = scrubber();
        assert_eq!(scrubber.push(b"data: hello\n\n"), b"data: hello\n\n");
        assert_eq!(scrubber.push(b"echo none"), b"echo none");
        assert_eq!(scrubber.push(b"100%"), b"100%");
        assert_eq!(scrubber.push(b"x s3c"), b"x ");
        assert_eq!(scrubber.push(b"ond\n"), b"s3cond\n");
    }
}
