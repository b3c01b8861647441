//! Reading JSON as `JSON.parse` does (ECMA-262, RFC 8259), to a bounded depth.

use std::collections::HashMap;

use super::{Object, Text, Value};

/// How deep lists and objects may lie in each other.
pub const MOST_DEPTH: usize = 128;

/// The error for a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {at}: {why}")]
pub struct InvalidJson {
    at: usize,
    why: &'static str,
}

/// Reads a value.
///
/// # Errors
/// Returns an error for a text that is not one JSON value, or that is too deep.
pub fn read(text: &str) -> Result<Value, InvalidJson> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_spaces();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.error("expected the end")),
    }
}

/// Puts members in JavaScript's order: those whose keys are indices of arrays by number, then the others as they came.
pub(super) fn in_order(members: Vec<(Text, Value)>) -> Vec<(Text, Value)> {
    let mut places: HashMap<Text, usize> = HashMap::with_capacity(members.len());
    let mut unique: Vec<(Text, Value)> = Vec::with_capacity(members.len());
    for (key, value) in members {
        match places.get(&key) {
            Some(place) => unique[*place].1 = value,
            None => {
                places.insert(key.clone(), unique.len());
                unique.push((key, value));
            }
        }
    }
    // The sort is stable: those without a number stay in their order.
    unique.sort_by_key(|(key, _)| index(key.escaped()).unwrap_or(u64::MAX));
    unique
}

/// Returns the number of a key that is the index of an array: below 2^32 - 1, without a leading zero.
fn index(key: &str) -> Option<u64> {
    let is_plain = key == "0" || !key.starts_with('0');
    let is_number = is_plain && key.len() <= 10 && key.bytes().all(|byte| byte.is_ascii_digit());
    let number = key.parse::<u64>().ok().filter(|_| is_number)?;
    (number < u64::from(u32::MAX)).then_some(number)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, InvalidJson> {
        self.skip_spaces();
        match self.peek() {
            Some(b'{' | b'[') if depth == MOST_DEPTH => Err(self.error("too deep")),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.text().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.error("expected a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, InvalidJson> {
        let mut members = Vec::new();
        self.at += 1;
        self.skip_spaces();
        if self.takes(b'}') {
            return Ok(Value::Object(Object::default()));
        }
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key"));
            }
            let key = self.text()?;
            self.skip_spaces();
            if !self.takes(b':') {
                return Err(self.error("expected ':'"));
            }
            members.push((key, self.value(depth)?));
            self.skip_spaces();
            if self.takes(b'}') {
                return Ok(Value::Object(Object::new(members)));
            }
            if !self.takes(b',') {
                return Err(self.error("expected ',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, InvalidJson> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_spaces();
        if self.takes(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.skip_spaces();
            if self.takes(b']') {
                return Ok(Value::Array(items));
            }
            if !self.takes(b',') {
                return Err(self.error("expected ',' or ']'"));
            }
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, InvalidJson> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, InvalidJson> {
        let begin = self.at;
        self.takes(b'-');
        if !self.takes(b'0') && self.digits() == 0 {
            return Err(self.error("expected a digit"));
        }
        if self.takes(b'.') && self.digits() == 0 {
            return Err(self.error("expected a digit"));
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _sign = self.takes(b'+') || self.takes(b'-');
            if self.digits() == 0 {
                return Err(self.error("expected a digit"));
            }
        }
        let number = self.text[begin..self.at].parse::<f64>();
        number.map(Value::Number).map_err(|_| self.error("expected a number"))
    }

    fn digits(&mut self) -> usize {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - begin
    }

    fn text(&mut self) -> Result<Text, InvalidJson> {
        let mut text = Text::default();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
            let plain = rest.bytes().position(special).unwrap_or(rest.len());
            text.push_plain(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => self.escape(&mut text)?,
                Some(_) => return Err(self.error("a control character in a text")),
                None => return Err(self.error("a text without an end")),
            }
        }
    }

    fn escape(&mut self, text: &mut Text) -> Result<(), InvalidJson> {
        self.at += 1;
        let letter = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unit(text);
            }
            _ => return Err(self.error("an unknown escape")),
        };
        self.at += 1;
        text.push(letter);
        Ok(())
    }

    /// Reads the digits of a code unit, and of the second half of its character if that follows.
    fn unit(&mut self, text: &mut Text) -> Result<(), InvalidJson> {
        let first = self.digits_of_unit()?;
        let after = self.at;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let second = self.digits_of_unit()?;
            if let Some(Ok(letter)) = char::decode_utf16([first, second]).next() {
                text.push(letter);
                return Ok(());
            }
            self.at = after;
        }
        match char::from_u32(first.into()) {
            Some(letter) => text.push(letter),
            None => text.push_unit(first),
        }
        Ok(())
    }

    fn digits_of_unit(&mut self) -> Result<u16, InvalidJson> {
        let digits = self
            .text
            .as_bytes()
            .get(self.at..self.at + 4)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    fn skip_spaces(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn error(&self, why: &'static str) -> InvalidJson {
        InvalidJson { at: self.at, why }
    }
}
