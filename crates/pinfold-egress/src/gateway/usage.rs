//! What an answer used, read as it passes.

mod numbers;

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use memchr::memchr;
use memchr::memmem::find;
use parking_lot::Mutex;
use pinfold_policy::prices::Tokens;
use serde_json::Value;

use super::event_stream::{self, Broken, Message, Messages};
use crate::held::{HeldBytes, HeldShare};
use numbers::{said, sum_of, texts, usage_of};

/// Bytes of an answer, or of one event of a stream, that are kept to be read. One that is longer
/// is estimated.
const MAX_KEPT: usize = 16 * 1024 * 1024;

/// Bytes of an unfinished message or line that are kept without a share of the memory for bodies.
const SMALL: usize = 256 * 1024;

/// Characters of a token, where nobody counts (platform.openai.com/tokenizer: "~4 characters").
pub(super) const CHARACTERS: u64 = 4;

/// Answers that are remembered. What is forgotten is counted again when it is fetched again.
const MOST_SEEN: usize = 64 * 1024;

/// What the readers of one gateway share.
#[derive(Default)]
pub(super) struct Readers {
    /// Hashes of the ids of answers whose usage is counted: some can be fetched again.
    counted: Mutex<HashSet<u64>>,
    hasher: RandomState,
    held: HeldBytes,
}

impl Readers {
    /// Readers that keep answers in this memory.
    pub(super) fn new(held: HeldBytes) -> Self {
        Self { held, ..Self::default() }
    }

    /// Returns whether an answer's usage was not counted before. One without an id is always new.
    fn is_new(&self, id: Option<&str>) -> bool {
        let Some(id) = id else { return true };
        let mut counted = self.counted.lock();
        if counted.len() == MOST_SEEN {
            counted.clear();
        }
        counted.insert(self.hasher.hash_one(id))
    }
}

/// Reads one answer.
pub(super) struct Reader {
    form: Form,
    /// Whether what is said is counted before the provider does.
    follows: bool,
    seen: Option<Tokens>,
    /// What is used by further answers that this one lists.
    listed: Option<Tokens>,
    id: Option<String>,
    model: Option<String>,
    /// Characters said so far.
    said: u64,
    /// Something could not be read.
    lost: bool,
    share: HeldShare,
    readers: Arc<Readers>,
}

/// The form of an answer.
enum Form {
    /// Server-sent events: a line that is not whole yet.
    Events(Vec<u8>),
    /// Messages of Amazon's event streams.
    Messages(Messages),
    /// One JSON text to a line, which is not whole yet.
    Lines(Vec<u8>),
    /// One JSON text, in pieces.
    Whole { pieces: Vec<Bytes>, length: usize },
    /// Nothing that can be read; its length.
    Sealed,
}

impl Form {
    fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Some(Self::Events(Vec::new())),
            event_stream::CONTENT_TYPE => Some(Self::Messages(Messages::default())),
            "application/json" => Some(Self::Whole { pieces: Vec::new(), length: 0 }),
            "application/x-jsonl" | "application/jsonl" | "application/x-ndjson" => {
                Some(Self::Lines(Vec::new()))
            }
            _ => None,
        }
    }
}

impl Reader {
    /// Returns a reader for an answer of this content type; `sealed` when it is compressed.
    pub(super) fn new(
        content_type: &str,
        sealed: bool,
        follows: bool,
        readers: Arc<Readers>,
    ) -> Option<Self> {
        let form = Form::of(&content_type.to_ascii_lowercase())?;
        Some(Self {
            form: if sealed { Form::Sealed } else { form },
            follows,
            seen: None,
            listed: None,
            id: None,
            model: None,
            said: 0,
            lost: sealed,
            share: HeldShare::default(),
            readers,
        })
    }

    /// Returns whether the answer is a stream of events, which can be ended early.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.form, Form::Events(_) | Form::Messages(_))
    }

    /// Returns whether it is one of Amazon's event streams.
    pub(super) fn has_messages(&self) -> bool {
        matches!(self.form, Form::Messages(_))
    }

    /// Returns whether some of it could not be read.
    pub(super) fn has_lost(&self) -> bool {
        self.lost
    }

    /// Returns whether the rest of a stream cannot be read.
    pub(super) fn is_broken(&self) -> bool {
        self.has_messages() && self.lost
    }

    /// Reads a piece. Of a stream, `after` is called for each line with data and where it ends, and where it cannot be
    /// read any further; it stops the reading by an error.
    pub(super) fn push<E>(
        &mut self,
        piece: &Bytes,
        mut after: impl FnMut(&Self, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.form {
            Form::Sealed => self.said += piece.len() as u64,
            Form::Whole { pieces, length } => {
                *length += piece.len();
                self.said += piece.len() as u64;
                // Without room for it, it is estimated.
                let fits = *length <= MAX_KEPT
                    && !self.lost
                    && self.readers.held.try_grow(&mut self.share, piece.len());
                if fits {
                    pieces.push(piece.clone());
                } else {
                    pieces.clear();
                    self.lost = true;
                }
            }
            Form::Messages(_) => {
                let mut at = 0;
                while at < piece.len() {
                    let (taken, message) = self.next_message(&piece[at..]);
                    at += taken;
                    if let Some(message) = message {
                        self.message(&message);
                        after(self, at)?;
                    } else if self.lost {
                        self.said += (piece.len() - at) as u64;
                        return after(self, at);
                    }
                }
            }
            Form::Lines(_) => {
                let mut at = 0;
                while let Some(length) = memchr(b'\n', &piece[at..]) {
                    let line = self.whole_line(&piece[at..at + length]);
                    self.listed_line(&line);
                    at += length + 1;
                }
                self.keep(&piece[at..]);
            }
            Form::Events(_) => {
                let mut at = 0;
                while let Some(length) = memchr(b'\n', &piece[at..]) {
                    if self.line(&piece[at..at + length]) {
                        after(self, at + length + 1)?;
                    }
                    at += length + 1;
                }
                self.keep(&piece[at..]);
            }
        }
        Ok(())
    }

    /// Reads to the end of the next message of a stream. What cannot be read, or has no room, is lost.
    fn next_message(&mut self, bytes: &[u8]) -> (usize, Option<Message>) {
        let Form::Messages(messages) = &mut self.form else { return (bytes.len(), None) };
        let (taken, message) = match messages.next(bytes) {
            Ok(next) => next,
            Err(Broken { kept }) => {
                self.lost = true;
                self.said += kept as u64;
                return (0, None);
            }
        };
        let missing = messages.kept().saturating_sub(SMALL + self.share.size());
        if missing > 0 && !self.readers.held.try_grow(&mut self.share, missing.max(SMALL)) {
            self.said += messages.give_up() as u64;
            self.lost = true;
        }
        (taken, message)
    }

    /// Reads a message: an event of Converse, or one of a model's own in Base64.
    fn message(&mut self, message: &Message) {
        if !message.is_event {
            return;
        }
        let Ok(event) = serde_json::from_slice::<Value>(message.payload()) else {
            self.said += message.payload().len() as u64;
            return;
        };
        let Some(encoded) = event["bytes"].as_str() else {
            self.object(&event);
            self.said += said(&event);
            return;
        };
        let event = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let Some(event) = event else {
            self.said += encoded.len() as u64;
            return;
        };
        self.object(&event);
        // Anthropic's events have a type; what others say is not known one by one.
        self.said += if event["type"].is_string() { said(&event) } else { texts(&event) };
    }

    /// Keeps the beginning of a line. One that has no room is lost.
    fn keep(&mut self, part: &[u8]) {
        let (Form::Events(kept) | Form::Lines(kept)) = &mut self.form else { return };
        let length = kept.len() + part.len();
        let missing = length.saturating_sub(SMALL + self.share.size());
        let held = &self.readers.held;
        if length <= MAX_KEPT
            && (missing == 0 || held.try_grow(&mut self.share, missing.max(SMALL)))
        {
            kept.extend_from_slice(part);
        } else {
            self.lost = true;
            *kept = Vec::new();
        }
    }

    /// Returns a line, the end of which came last.
    fn whole_line<'l>(&mut self, end: &'l [u8]) -> std::borrow::Cow<'l, [u8]> {
        let kept = match &mut self.form {
            Form::Events(kept) | Form::Lines(kept) => std::mem::take(kept),
            Form::Whole { .. } | Form::Messages(_) | Form::Sealed => Vec::new(),
        };
        if kept.is_empty() { end.into() } else { [kept.as_slice(), end].concat().into() }
    }

    /// Reads a line with an answer of its own: a result of a batch (Anthropic, OpenAI).
    fn listed_line(&mut self, line: &[u8]) {
        if find(line, b"\"usage").is_some()
            && let Ok(value) = serde_json::from_slice::<Value>(line)
        {
            self.listed_object(&value);
        }
    }

    fn listed_object(&mut self, value: &Value) {
        let places = [value, &value["result"]["message"], &value["response"]["body"]];
        for object in places {
            let (id, used) = (object["id"].as_str(), usage_of(object));
            if let Some(used) = used
                && self.readers.is_new(id)
            {
                let listed = self.listed.get_or_insert_default();
                *listed = sum_of(*listed, used);
                self.model = object["model"].as_str().map(str::to_owned).or(self.model.take());
            }
        }
    }

    /// Reads the end of a line of events; whether it had data.
    fn line(&mut self, end: &[u8]) -> bool {
        let line = self.whole_line(end);
        let Some(data) = line.strip_prefix(b"data:") else { return false };
        // Only keys look so: within text, quotation marks are escaped.
        let counts = find(data, b"\"usage").is_some();
        if (counts || self.follows)
            && let Ok(value) = serde_json::from_slice::<Value>(data)
        {
            self.object(&value);
            self.said += said(&value);
        }
        true
    }

    fn object(&mut self, value: &Value) {
        for object in [value, &value["message"], &value["response"]] {
            let name = object["model"].as_str().or_else(|| object["modelVersion"].as_str());
            if let Some(name) = name {
                self.model = Some(name.to_owned());
            }
            if let Some(tokens) = usage_of(object) {
                let seen = self.seen.get_or_insert_default();
                seen.input = seen.input.max(tokens.input);
                seen.output = seen.output.max(tokens.output);
                seen.cache_read = seen.cache_read.max(tokens.cache_read);
                seen.cache_write = seen.cache_write.max(tokens.cache_write);
            }
            let id = object["id"].as_str().or_else(|| object["responseId"].as_str());
            if self.id.is_none() {
                self.id = id.map(str::to_owned);
            }
        }
    }

    /// Returns the model, as the answer names it.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns what was used so far: as the provider says, and what was said since, by its length.
    pub(super) fn so_far(&self) -> Tokens {
        let seen = self.seen.unwrap_or_default();
        Tokens { output: seen.output.max(self.said / CHARACTERS), ..seen }
    }

    /// Returns what was used in all, and whether that is an estimate; `sent` bytes were asked. `whole`
    /// when the answer came to its end, `is_model` when it answers a request to a model: what others use
    /// is never estimated, and counted once for each id. None for an answer that is not a model's.
    pub(super) fn end(&mut self, sent: u64, whole: bool, is_model: bool) -> Option<(Tokens, bool)> {
        let line = self.whole_line(b"");
        match &mut self.form {
            Form::Lines(_) => self.listed_line(&line),
            Form::Whole { pieces, .. } => {
                let text = std::mem::take(pieces).concat();
                match serde_json::from_slice::<Value>(&text) {
                    Ok(Value::Array(parts)) => parts.iter().for_each(|part| self.object(part)),
                    Ok(value) => {
                        self.object(&value);
                        let listed = value["data"].as_array();
                        listed.into_iter().flatten().for_each(|value| self.listed_object(value));
                    }
                    Err(_) => self.lost = true,
                }
            }
            Form::Messages(messages) => self.lost |= messages.kept() > 0,
            Form::Events(_) | Form::Sealed => {}
        }
        let is_new = self.seen.is_some() && self.readers.is_new(self.id.as_deref());
        let seen = self.seen.filter(|_| is_new || is_model);
        match (seen, self.listed) {
            (Some(seen), listed) if whole && !self.lost => {
                Some((sum_of(seen, listed.unwrap_or_default()), false))
            }
            (Some(_), _) if is_model => Some((self.so_far(), true)),
            (Some(seen), listed) => Some((sum_of(seen, listed.unwrap_or_default()), true)),
            (None, Some(listed)) => Some((listed, !whole)),
            (None, None) if is_model && (self.lost || self.is_stream()) => {
                let tokens = Tokens { input: sent / CHARACTERS, ..self.so_far() };
                Some((tokens, true))
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests;
