//! Texts that must not pass, and where they stand in what passes.

use http::{HeaderMap, HeaderValue};

use super::spelling::{Ends, PlainEnd, Unit, of_base64, of_text};

/// Bytes of a secret that are looked for in base64. Fewer are found by chance.
const SHORTEST_IN_BASE64: usize = 4;

/// Bytes of a secret that are found in base64 without the first character, too.
const SHORTEST_IN_PART: usize = 8;

/// Stands in base64 for what is taken out, so that what follows keeps its place.
const BLANK: u8 = b'A';

/// What is looked for, and what stands there instead.
#[derive(Clone, Default)]
pub(super) struct Patterns {
    all: Vec<Pattern>,
    pairs: Pairs,
}

/// A text that must not pass, and what stands there instead.
#[derive(Clone, PartialEq, Eq)]
struct Pattern {
    units: Vec<Unit>,
    instead: Vec<u8>,
}

/// Pairs of bytes that some pattern may begin with: a quick look that leaves out nearly every place.
#[derive(Clone)]
struct Pairs(Box<[u64; Pairs::WORDS]>);

/// A piece of a stream that is not decided.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Bytes at its beginning that have gone on already.
    passed: usize,
}

/// What is next in a text.
enum Next<'p> {
    /// A pattern, from and to.
    Found(usize, usize, &'p Pattern),
    /// What may be one, from here, once more is there.
    Open(usize),
    /// No pattern.
    Nothing,
}

impl Patterns {
    /// Adds a secret in every spelling, and within base64.
    pub(super) fn add_secret(&mut self, value: &str, instead: &str) {
        self.add(of_text(value), instead.as_bytes().to_vec());
        if value.len() >= SHORTEST_IN_BASE64 {
            for before in 0..3 {
                let [whole, part] = of_base64(value.as_bytes(), before);
                let part = Some(part).filter(|_| value.len() >= SHORTEST_IN_PART);
                for units in std::iter::once(whole).chain(part) {
                    let blanks = vec![BLANK; units.len()];
                    self.add(units, blanks);
                }
            }
        }
    }

    fn add(&mut self, units: Vec<Unit>, instead: Vec<u8>) {
        let pattern = Pattern { units, instead };
        if !pattern.units.is_empty() && !self.all.contains(&pattern) {
            self.pairs.add(&pattern.units);
            self.all.push(pattern);
        }
    }

    /// Returns what begins first at or after `from`; of several, the longest. `is_whole` when nothing
    /// comes after the text.
    fn next(&self, text: &[u8], from: usize, is_whole: bool) -> Next<'_> {
        if self.all.is_empty() {
            return Next::Nothing;
        }
        let mut from = from;
        while let Some(at) = self.pairs.find(text, from) {
            from = at + 1;
            let mut longest = None;
            for pattern in &self.all {
                let (end, is_open) = pattern.end(text, at);
                if is_open && !is_whole {
                    return Next::Open(at);
                }
                if let Some(end) = end.filter(|end| longest.is_none_or(|(other, _)| other < *end)) {
                    longest = Some((end, pattern));
                }
            }
            if let Some((end, pattern)) = longest {
                return Next::Found(at, end, pattern);
            }
        }
        Next::Nothing
    }

    /// Replaces every occurrence in a piece of a stream; gives what can go on. What may be the beginning
    /// of a pattern stays in the piece.
    pub(super) fn pass(&self, piece: &mut Piece, is_whole: bool) -> Vec<u8> {
        let text = piece.bytes.as_slice();
        let mut clean = Vec::with_capacity(text.len());
        let mut from = piece.passed;
        let mut next = self.next(text, 0, is_whole);
        while let Next::Found(at, end, pattern) = next {
            clean.extend_from_slice(text.get(from..at).unwrap_or_default());
            let passed = if pattern.is_base64() { from.saturating_sub(at) } else { 0 };
            clean.extend_from_slice(pattern.instead.get(passed..).unwrap_or_default());
            from = end;
            next = self.next(text, end, is_whole);
        }
        let at = match next {
            Next::Open(at) => at,
            Next::Found(..) | Next::Nothing => text.len(),
        };
        clean.extend_from_slice(text.get(from..at).unwrap_or_default());
        piece.passed = from.saturating_sub(at);
        piece.bytes.drain(..at);
        if let [byte] = piece.bytes.as_slice()
            && piece.passed == 0
            && !self.is_plain_beginning(*byte)
        {
            clean.push(*byte);
            piece.passed = 1;
        }
        clean
    }

    /// Returns whether a byte is the first one of a secret as it is. What else begins a pattern says
    /// nothing of it, or some bits: it is not held back, because many messages end with such a byte.
    fn is_plain_beginning(&self, byte: u8) -> bool {
        self.all.iter().any(|pattern| match pattern.units.first() {
            Some(Unit::Char(first)) => first.encode_utf8(&mut [0; 4]).as_bytes()[0] == byte,
            Some(Unit::Sextet { .. }) | None => false,
        })
    }

    /// Replaces every occurrence in a text that is whole.
    pub(super) fn scrub(&self, text: &[u8]) -> Vec<u8> {
        self.pass(&mut Piece { bytes: text.to_vec(), passed: 0 }, true)
    }

    /// Replaces every occurrence in the values of headers.
    pub(super) fn scrub_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let bytes = value.as_bytes();
            if !matches!(self.next(bytes, 0, true), Next::Nothing) {
                let clean = HeaderValue::from_bytes(&self.scrub(bytes));
                *value = clean.unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
    }
}

impl Pattern {
    fn is_base64(&self) -> bool {
        matches!(self.units.first(), Some(Unit::Sextet { .. }))
    }

    /// Returns the furthest end of this pattern, where it begins at `at`, and whether it may end further
    /// on once more is there.
    fn end(&self, text: &[u8], at: usize) -> (Option<usize>, bool) {
        let mut place = at;
        for (index, unit) in self.units.iter().enumerate() {
            place = match text.get(place).map(|byte| unit.plain_end(*byte, place)) {
                Some(PlainEnd::At(end)) => end,
                Some(PlainEnd::Nowhere) => return (None, false),
                Some(PlainEnd::Unknown) => return self.end_in_any_spelling(text, place, index),
                None => return (None, true),
            };
        }
        (Some(place), false)
    }

    /// Returns the same for the units from `index` on, of which the first begins at `at`.
    fn end_in_any_spelling(&self, text: &[u8], at: usize, index: usize) -> (Option<usize>, bool) {
        let mut is_open = false;
        let mut places = vec![at];
        for unit in &self.units[index..] {
            let mut ends = Ends::default();
            for place in places {
                unit.ends(text, place, &mut ends);
            }
            is_open |= ends.is_open;
            places = ends.at;
            if places.is_empty() {
                return (None, is_open);
            }
        }
        (places.into_iter().max(), is_open)
    }
}

impl Default for Pairs {
    fn default() -> Self {
        Self(Box::new([0; Self::WORDS]))
    }
}

impl Pairs {
    /// A bit for each pair of bytes.
    const WORDS: usize = 65536 / 64;

    fn add(&mut self, units: &[Unit]) {
        let Some(first) = units.first() else { return };
        let second = match units.get(1) {
            Some(second) => second.beginnings(),
            None => (0..=255).collect(),
        };
        for byte in first.beginnings() {
            let after = first.second_bytes(byte);
            let is_escape = matches!(byte, b'\\' | b'%' | b'&');
            if after.is_empty() || (is_escape && *first == Unit::Char(char::from(byte))) {
                second.iter().for_each(|after| self.set(byte, *after));
            }
            after.into_iter().for_each(|after| self.set(byte, after));
        }
    }

    fn set(&mut self, first: u8, second: u8) {
        let index = usize::from(first) << 8 | usize::from(second);
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Returns the first place at or after `from` where a pattern may begin.
    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let words = &*self.0;
        let rest = text.get(from..)?;
        let (first, others) = rest.split_first()?;
        let mut before = usize::from(*first);
        for (at, byte) in others.iter().enumerate() {
            let index = before << 8 | usize::from(*byte);
            if words[index / 64] >> (index % 64) & 1 != 0 {
                return Some(from + at);
            }
            before = usize::from(*byte);
        }
        let row = &words[before << 2..(before << 2) + 4];
        row.iter().any(|word| *word != 0).then(|| text.len() - 1)
    }
}

#[cfg(test)]
mod tests;
