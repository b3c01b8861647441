//! What an answer used, read as it passes.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use memchr::memchr;
use memchr::memmem::find;
use pinfold_policy::prices::Tokens;
use serde_json::Value;

use crate::held::{HeldBytes, HeldShare};

/// Bytes of an answer, or of one event of a stream, that are kept to be read. One that is longer
/// is estimated.
const MAX_KEPT: usize = 16 * 1024 * 1024;

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

    /// Whether an answer's usage was not counted before. One without an id is always new.
    fn is_new(&self, id: Option<&str>) -> bool {
        let Some(id) = id else { return true };
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
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
            "application/json" => Some(Self::Whole { pieces: Vec::new(), length: 0 }),
            "application/x-jsonl" | "application/jsonl" | "application/x-ndjson" => {
                Some(Self::Lines(Vec::new()))
            }
            _ => None,
        }
    }
}

impl Reader {
    /// A reader for an answer of this content type; `sealed` when it is compressed.
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

    /// Whether the answer is a stream of events, which can be ended early.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.form, Form::Events(_))
    }

    /// Reads a piece. Of a stream, `after` is called for each line with data and where it ends; it
    /// stops the reading by an error.
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

    fn keep(&mut self, part: &[u8]) {
        let (Form::Events(kept) | Form::Lines(kept)) = &mut self.form else { return };
        if kept.len() + part.len() > MAX_KEPT {
            self.lost = true;
            kept.clear();
        } else {
            kept.extend_from_slice(part);
        }
    }

    /// A line, the end of which came last.
    fn whole_line<'l>(&mut self, end: &'l [u8]) -> std::borrow::Cow<'l, [u8]> {
        let kept = match &mut self.form {
            Form::Events(kept) | Form::Lines(kept) => std::mem::take(kept),
            Form::Whole { .. } | Form::Sealed => Vec::new(),
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

    /// The model, as the answer names it.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What was used so far: as the provider says, and what was said since, by its length.
    pub(super) fn so_far(&self) -> Tokens {
        let seen = self.seen.unwrap_or_default();
        Tokens { output: seen.output.max(self.said / CHARACTERS), ..seen }
    }

    /// What was used in all, and whether that is an estimate; `sent` bytes were asked. `whole` when
    /// the answer came to its end, `is_model` when it answers a request to a model: what others use is
    /// never estimated, and counted once for each id. None for an answer that is not a model's.
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

/// What an object of an answer says that was used.
fn usage_of(object: &Value) -> Option<Tokens> {
    tokens(&object["usage"]).or_else(|| tokens(&object["usageMetadata"]))
}

fn sum_of(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.saturating_add(other.input),
        output: one.output.saturating_add(other.output),
        cache_read: one.cache_read.saturating_add(other.cache_read),
        cache_write: one.cache_write.saturating_add(other.cache_write),
    }
}

/// The numbers of any of the four APIs.
fn tokens(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let detail = |key: &str, inner: &str| usage.get(key).and_then(|v| v[inner].as_u64());
    let sum =
        |[one, other]: [&str; 2]| count(one).unwrap_or(0).saturating_add(count(other).unwrap_or(0));
    // Chat Completions and Responses count what a cache held as input too; so does Gemini.
    let (all, cached, output) = if count("prompt_tokens").is_some() {
        let cached = detail("prompt_tokens_details", "cached_tokens");
        (count("prompt_tokens"), cached, count("completion_tokens").unwrap_or(0))
    } else if count("promptTokenCount").is_some() {
        let output = sum(["candidatesTokenCount", "thoughtsTokenCount"]);
        let all = sum(["promptTokenCount", "toolUsePromptTokenCount"]);
        (Some(all), count("cachedContentTokenCount"), output)
    } else if let Some(cached) = detail("input_tokens_details", "cached_tokens") {
        (count("input_tokens"), Some(cached), count("output_tokens").unwrap_or(0))
    } else {
        let output = count("output_tokens");
        output.or(count("input_tokens"))?;
        return Some(Tokens {
            input: count("input_tokens").unwrap_or(0),
            output: output.unwrap_or(0),
            cache_read: count("cache_read_input_tokens").unwrap_or(0),
            cache_write: count("cache_creation_input_tokens").unwrap_or(0),
        });
    };
    let (all, cache_read) = (all.unwrap_or(0), cached.unwrap_or(0));
    Some(Tokens { input: all.saturating_sub(cache_read), output, cache_read, cache_write: 0 })
}

/// Characters that an event of any of the APIs says.
fn said(event: &Value) -> u64 {
    let delta = &event["delta"];
    let choice = &event["choices"][0]["delta"];
    let texts = [
        delta,
        &delta["text"],
        &delta["thinking"],
        &delta["partial_json"],
        &choice["content"],
        &choice["reasoning_content"],
        &choice["tool_calls"][0]["function"]["arguments"],
        &event["candidates"][0]["content"]["parts"][0]["text"],
    ];
    texts.into_iter().filter_map(Value::as_str).map(|text| text.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(content_type: &str, sealed: bool) -> Reader {
        Reader::new(content_type, sealed, true, Arc::default()).unwrap()
    }

    /// What an answer used, however it is cut.
    fn used(content_type: &str, text: &str) -> Option<(Tokens, bool)> {
        let read = |cut: usize| {
            let mut reader = reader(content_type, false);
            for part in [&text[..cut], &text[cut..]] {
                let piece = Bytes::copy_from_slice(part.as_bytes());
                reader.push(&piece, |_, _| Ok::<_, ()>(())).unwrap();
            }
            reader.end(400, true, true)
        };
        let whole = read(0);
        for cut in 1..text.len() {
            assert_eq!(read(cut), whole, "cut at {cut}");
        }
        whole
    }

    #[test]
    fn usage_is_read_from_the_streams_of_all_apis() {
        let expected = Tokens { input: 60, output: 20, cache_read: 40, cache_write: 0 };
        let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":\
            {\"model\":\"m\",\"usage\":{\"input_tokens\":60,\"cache_read_input_tokens\":40,\
            \"output_tokens\":1}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":\
            {\"output_tokens\":20}}\r\n\r\n";
        let chat = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\
            \"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"prompt_tokens_details\":\
            {\"cached_tokens\":40}}}\n\ndata: [DONE]\n\n";
        let responses = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":\
            {\"input_tokens\":100,\"output_tokens\":20,\"input_tokens_details\":\
            {\"cached_tokens\":40}}}}\n\n";
        let gemini = "data: {\"usageMetadata\":{\"promptTokenCount\":100}}\r\n\r\ndata: \
            {\"modelVersion\":\"m\",\"usageMetadata\":{\"promptTokenCount\":100,\
            \"candidatesTokenCount\":15,\"thoughtsTokenCount\":5,\"cachedContentTokenCount\":40}}\r\n\r\n";
        for stream in [anthropic, chat, responses] {
            assert_eq!(used("text/event-stream", stream), Some((expected, false)), "{stream}");
        }
        let (tokens, _) = used("text/event-stream; charset=utf-8", gemini).unwrap();
        assert_eq!((tokens.output, tokens.cache_read), (20, 40));
    }

    #[test]
    fn usage_is_read_from_whole_answers_and_text_is_none() {
        let text = r#"{"type":"message","content":[{"type":"tool_use","input":
            {"usage":{"input_tokens":9}},"text":"\"usage\":{\"input_tokens\":9}"}],
            "usage":{"input_tokens":7,"output_tokens":3,"cache_creation_input_tokens":2}}"#;
        let expected = Tokens { input: 7, output: 3, cache_read: 0, cache_write: 2 };
        assert_eq!(used("application/json", text), Some((expected, false)));
        assert_eq!(used("application/json", r#"{"data":[]}"#), None);
    }

    #[test]
    fn uncounted_usage_is_estimated() {
        let silent = "data: {\"choices\":[{\"delta\":{\"content\":\"12345678\"}}]}\n\n";
        let expected = Tokens { input: 100, output: 2, ..Tokens::default() };
        assert_eq!(used("text/event-stream", silent), Some((expected, true)));
        let mut sealed = reader("application/json", true);
        sealed.push(&Bytes::from_static(&[0; 80]), |_, _| Ok::<_, ()>(())).unwrap();
        let expected = Tokens { input: 10, output: 20, ..Tokens::default() };
        assert_eq!(sealed.end(40, true, true), Some((expected, true)));
        assert!(Reader::new("text/html", false, false, Arc::default()).is_none());
    }
}
