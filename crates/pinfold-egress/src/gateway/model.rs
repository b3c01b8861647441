//! Which model a request asks for, read as its body passes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use memchr::memchr2;

use super::config::Api;
use super::headers::percent_decoded;

/// Bytes of a body that are held back until its model is known. What comes after is not held.
const MAX_HELD: usize = 1024 * 1024;

/// Longest name of a model, and of a key beside it, in bytes.
const MAX_NAME: usize = 512;

/// Why a body tells no model that can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsound {
    #[error("its body is no JSON object")]
    NotJson,
    #[error("its model is no text, or a text that is too long")]
    NotText,
    #[error("it names two models")]
    Two,
    #[error("its body is compressed; send it as it is")]
    Compressed,
    #[error("it names no model within the first {MAX_HELD} bytes of its body")]
    Late,
}

/// Looks for the `model` of a JSON object in the pieces of its text. Servers differ in whether a
/// key's case counts and in which of two equal keys does, so every one is looked at.
#[derive(Default)]
pub(super) struct Scan {
    depth: usize,
    /// Whether the object has been there as a whole.
    ended: bool,
    in_string: bool,
    escaped: bool,
    /// The next text at the top is a key.
    at_key: bool,
    /// The value at the top is the model.
    is_model: bool,
    /// The text that is being read, with its quotation marks.
    capture: Option<Vec<u8>>,
    found: Option<String>,
}

impl Scan {
    /// Reads on; the model once it is known.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Option<&str>, Unsound> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.in_string && self.capture.is_none() && !self.escaped {
                let Some(at) = memchr2(b'"', b'\\', bytes) else { break };
                self.string_byte(bytes[at])?;
                bytes = &bytes[at + 1..];
                continue;
            }
            if self.in_string {
                self.string_byte(byte)?
            } else {
                self.plain_byte(byte)?
            }
            bytes = rest;
        }
        Ok(self.found.as_deref())
    }

    fn string_byte(&mut self, byte: u8) -> Result<(), Unsound> {
        if let Some(capture) = &mut self.capture {
            if capture.len() < MAX_NAME {
                capture.push(byte);
            } else if !self.at_key {
                return Err(Unsound::NotText);
            }
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                self.in_string = false;
                if let Some(capture) = self.capture.take() {
                    self.captured(&capture)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn captured(&mut self, text: &[u8]) -> Result<(), Unsound> {
        let text: Option<String> = serde_json::from_slice(text).ok();
        if self.at_key {
            self.is_model = text.is_some_and(|key| key.eq_ignore_ascii_case("model"));
            return Ok(());
        }
        let model = text.ok_or(Unsound::NotText)?;
        match &self.found {
            Some(found) if *found != model => Err(Unsound::Two),
            Some(_) => Ok(()),
            None => {
                self.found = Some(model);
                Ok(())
            }
        }
    }

    fn plain_byte(&mut self, byte: u8) -> Result<(), Unsound> {
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        let outside = self.depth == 0;
        if self.ended || (outside && byte != b'{') {
            return Err(Unsound::NotJson);
        }
        let models_value = self.depth == 1 && self.is_model && !self.at_key;
        match byte {
            b'"' => {
                self.in_string = true;
                let counts = self.depth == 1 && (self.at_key || self.is_model);
                self.capture = counts.then(|| vec![b'"']);
            }
            b'{' | b'[' if models_value => return Err(Unsound::NotText),
            b'{' | b'[' => {
                self.at_key |= outside;
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth -= 1;
                self.ended = self.depth == 0;
            }
            b':' if self.depth == 1 => self.at_key = false,
            b',' if self.depth == 1 => (self.at_key, self.is_model) = (true, false),
            _ if models_value => return Err(Unsound::NotText),
            _ => {}
        }
        Ok(())
    }
}

/// The body of a request on its way out: what was held back, then the rest as it comes.
pub(super) struct Outbound {
    held: VecDeque<Bytes>,
    /// None of a request that is sent again.
    rest: Option<Incoming>,
    scan: Option<Scan>,
    /// Why it was cut off.
    cut: Arc<OnceLock<Unsound>>,
    /// Bytes that went out.
    sent: Arc<AtomicU64>,
}

impl Outbound {
    /// A body that passes as it comes.
    pub(super) fn whole(rest: Incoming) -> Self {
        Self { rest: Some(rest), ..Self::empty() }
    }

    /// No body.
    pub(super) fn empty() -> Self {
        let (cut, sent) = (Arc::default(), Arc::default());
        Self { held: VecDeque::new(), rest: None, scan: None, cut, sent }
    }

    /// Where a reason appears when the body is cut off.
    pub(super) fn cut(&self) -> Arc<OnceLock<Unsound>> {
        Arc::clone(&self.cut)
    }

    /// Bytes that went out so far.
    pub(super) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    /// Holds the body back until its model is known. Nothing is known of a body that is empty.
    pub(super) async fn with_model(
        head: &Parts,
        mut body: Incoming,
    ) -> Result<(Self, Option<String>), Unsound> {
        if body.is_end_stream() {
            return Ok((Self::whole(body), None));
        }
        let encoding = head.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return Err(Unsound::Compressed);
        }
        let (mut scan, mut held, mut length) = (Scan::default(), VecDeque::new(), 0);
        // A client that breaks off is heard of again when the rest is sent.
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            length += data.len();
            let model = scan.push(&data)?.map(str::to_owned);
            held.push_back(data);
            if model.is_some() {
                let whole = Self { held, scan: Some(scan), ..Self::whole(body) };
                return Ok((whole, model));
            }
            if length > MAX_HELD {
                return Err(Unsound::Late);
            }
        }
        if length == 0 { Ok((Self::whole(body), None)) } else { Err(Unsound::Late) }
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(held) = self.held.pop_front() {
            self.sent.fetch_add(held.len() as u64, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(Frame::data(held))));
        }
        let this = &mut *self;
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        let polled = Pin::new(rest).poll_frame(context).map_err(Into::into);
        let Poll::Ready(Some(Ok(frame))) = &polled else { return polled };
        let Some(data) = frame.data_ref() else { return polled };
        this.sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        if let Some(scan) = &mut this.scan
            && let Err(unsound) = scan.push(data)
        {
            // The first reason is the one to tell.
            let _ = this.cut.set(unsound);
            return Poll::Ready(Some(Err(unsound.into())));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let held: u64 = self.held.iter().map(|held| held.len() as u64).sum();
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + held);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

/// The model in a path of Gemini's: `/v1beta/models/NAME:generateContent`.
pub(super) fn in_path(api: Api, path: &str) -> Option<String> {
    let decoded = percent_decoded(path);
    let mut segments = decoded.trim_start_matches('/').split('/').skip(1);
    let named = api == Api::Gemini && segments.next() == Some("models");
    let (model, _) = segments.next().filter(|_| named)?.split_once(':')?;
    Some(model.to_owned())
}

/// Whether a list of models has this one. A name that ends in `*` stands for all that begin so.
pub(super) fn lists(models: &[String], model: &str) -> bool {
    let model = model.strip_prefix("models/").unwrap_or(model);
    models.iter().any(|listed| match listed.strip_suffix('*') {
        Some(prefix) => model.starts_with(prefix),
        None => model == listed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a scan finds, however the text is cut in two.
    fn found(text: &str) -> Result<Option<String>, Unsound> {
        let whole = Scan::default().push(text.as_bytes()).map(|model| model.map(str::to_owned));
        for at in 0..=text.len() {
            let mut scan = Scan::default();
            let (first, second) = text.as_bytes().split_at(at);
            let parts = scan.push(first).map(drop).and_then(|()| scan.push(second).map(drop));
            assert_eq!(parts.map(|()| scan.found.clone()), whole, "{text} cut at {at}");
        }
        whole
    }

    #[test]
    fn the_models_name_is_found_wherever_it_is() {
        for text in [
            r#"{"model":"m","a":1}"#,
            r#" { "messages" : [{"model":"x","t":"\"model\":\"y\""}], "model" : "m" } "#,
            r#"{"mod\u0065l":"\u006d"}"#,
            r#"{"MODEL":"m","model":"m"}"#,
            r#"{"a":"model","b":"x","c":{"model":"y"},"model":"m"}"#,
        ] {
            assert_eq!(found(text), Ok(Some("m".to_owned())), "{text}");
        }
        assert_eq!(found(r#"{"a":["model","m"],"b":{"model":"m"}}"#), Ok(None));
    }

    #[test]
    fn what_servers_may_read_in_two_ways_is_refused() {
        for (text, why) in [
            (r#"{"model":"m","model":"n"}"#, Unsound::Two),
            (r#"{"model":"m","x":1,"Model":"n"}"#, Unsound::Two),
            (r#"{"model":["m"]}"#, Unsound::NotText),
            (r#"{"model":null}"#, Unsound::NotText),
            (r#"{"model":"m"}{"model":"n"}"#, Unsound::NotJson),
            (r#"[{"model":"m"}]"#, Unsound::NotJson),
            ("model=m", Unsound::NotJson),
        ] {
            assert_eq!(found(text), Err(why), "{text}");
        }
        let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(1000));
        assert_eq!(found(&long), Err(Unsound::NotText));
        let key = format!(r#"{{"{}":1,"model":"m"}}"#, "k".repeat(1000));
        assert_eq!(found(&key), Ok(Some("m".to_owned())));
    }

    #[test]
    fn a_path_of_geminis_names_its_model() {
        let path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
        assert_eq!(in_path(Api::Gemini, path).as_deref(), Some("gemini-2.5-pro"));
        assert_eq!(in_path(Api::Gemini, "/v1beta/models/a%2Db:x").as_deref(), Some("a-b"));
        assert_eq!(in_path(Api::Gemini, "/v1beta/models"), None);
        assert_eq!(in_path(Api::OpenAi, path), None);
        assert!(lists(&["gpt-5*".to_owned()], "gpt-5.1") && lists(&["m".to_owned()], "models/m"));
        assert!(!lists(&["gpt-5".to_owned()], "gpt-5-pro") && !lists(&[], "m"));
    }
}
