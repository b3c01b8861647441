//! Texts of UTF-16, which may have halves of characters (lone surrogates).

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text, kept as `JSON.stringify` writes it between quotes. Two texts are equal exactly if these are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(String);

impl Text {
    /// Returns a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut escaped = Self(String::with_capacity(text.len()));
        text.chars().for_each(|letter| escaped.push(letter));
        escaped
    }

    /// Returns the text as it is written between quotes.
    #[must_use]
    pub fn escaped(&self) -> &str {
        &self.0
    }

    /// Returns the text. A half of a character becomes U+FFFD.
    #[must_use]
    pub fn to_str(&self) -> Cow<'_, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(&self.0);
        }
        let mut text = String::with_capacity(self.0.len());
        let mut letters = self.0.chars();
        while let Some(letter) = letters.next() {
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            text.push(match letters.next() {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).collect();
                    let unit = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    unit.unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                Some(other) => other,
                None => char::REPLACEMENT_CHARACTER,
            });
        }
        Cow::Owned(text)
    }

    /// Appends a character.
    pub(super) fn push(&mut self, letter: char) {
        match letter {
            '"' => self.0.push_str("\\\""),
            '\\' => self.0.push_str("\\\\"),
            '\u{8}' => self.0.push_str("\\b"),
            '\u{c}' => self.0.push_str("\\f"),
            '\n' => self.0.push_str("\\n"),
            '\r' => self.0.push_str("\\r"),
            '\t' => self.0.push_str("\\t"),
            control if control < ' ' => self.push_unit(control as u16),
            letter => self.0.push(letter),
        }
    }

    /// Appends characters that need no escape.
    pub(super) fn push_plain(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Appends a code unit by its number.
    pub(super) fn push_unit(&mut self, unit: u16) {
        let _ = write!(self.0, "\\u{unit:04x}");
    }
}
