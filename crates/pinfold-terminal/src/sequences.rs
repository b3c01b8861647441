//! Reading control sequences of what a program writes to a terminal (ECMA-48), with the parser of Alacritty.

use std::fmt;

use vte::{Parser, Perform};

const ESC: u8 = 0x1b;
/// The first byte of U+0080 to U+00BF (UTF-8, RFC 3629).
const LEAD: u8 = 0xc2;
/// Bytes that are kept of a text for the terminal itself (OSC). Nobody here looks at it.
const KEPT: usize = 16;

/// A reader of a program's output, which may come in any parts.
#[derive(Default)]
pub(crate) struct Sequences {
    parser: Parser<KEPT>,
    /// Whether the last byte was a [`LEAD`], which the parser has not got yet.
    has_lead: bool,
}

impl fmt::Debug for Sequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequences").finish_non_exhaustive()
    }
}

impl Sequences {
    /// Reads what comes next. Control characters U+0080 to U+009F are read as the two characters of seven
    /// bits that mean the same (ECMA-35), as terminals read them.
    pub(crate) fn read(&mut self, bytes: &[u8], performer: &mut impl Perform) {
        let mut rest = bytes;
        if self.has_lead && !rest.is_empty() {
            self.has_lead = false;
            rest = self.second_byte(rest, performer);
        }
        while let Some(at) = rest.iter().position(|byte| *byte == LEAD) {
            self.parser.advance(performer, &rest[..at]);
            rest = &rest[at + 1..];
            if rest.is_empty() {
                self.has_lead = true;
                return;
            }
            rest = self.second_byte(rest, performer);
        }
        self.parser.advance(performer, rest);
    }

    /// Reads the byte after a [`LEAD`], and returns what follows.
    fn second_byte<'b>(&mut self, bytes: &'b [u8], performer: &mut impl Perform) -> &'b [u8] {
        match bytes {
            [second @ 0x80..=0x9f, rest @ ..] => {
                self.parser.advance(performer, &[ESC, second - 0x40]);
                rest
            }
            _ => {
                self.parser.advance(performer, &[LEAD]);
                bytes
            }
        }
    }
}

/// Returns the text of an output without control sequences. Control characters other than line feed and tab are
/// escaped, and carriage returns are left out.
pub fn plain_text(output: &[u8]) -> String {
    let mut text = PlainText(String::with_capacity(output.len()));
    Sequences::default().read(output, &mut text);
    text.0
}

struct PlainText(String);

impl Perform for PlainText {
    fn print(&mut self, character: char) {
        match character {
            '\u{7f}' => self.0.extend(character.escape_default()),
            _ => self.0.push(character),
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\t' => self.0.push(byte.into()),
            b'\r' => {}
            _ => self.0.extend(char::from(byte).escape_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain_text;

    #[test]
    fn text_is_left_without_what_drives_a_terminal() {
        let colours = b"\x1b[31m\x1b[1mInternal Error\x1b[0m: EROFS\r\n";
        assert_eq!(plain_text(colours), "Internal Error: EROFS\n");
        assert_eq!(plain_text(b"a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c"), "abc");
        assert_eq!(plain_text(b"a\x1bc\x08b"), "a\\u{8}b");
        assert_eq!(plain_text("ü\u{9b}31m\u{a0}日".as_bytes()), "ü\u{a0}日");
    }

    #[test]
    fn a_line_feed_within_a_sequence_stays() {
        assert_eq!(plain_text(b"\x1b[31\nnext"), "\next");
    }
}
