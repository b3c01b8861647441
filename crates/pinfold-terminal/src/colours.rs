//! What of a program's output may drive the terminal of a user who only reads it: colours, and nothing
//! else. An agent that nobody watches writes its log. The reader's title, clipboard and screen, and what a
//! terminal answers when it is asked, are none of its business.

use std::fmt::Write as _;
use std::io::{self, Write};

use vte::{Params, Perform};

use crate::sequences::Sequences;

/// A writer that passes on text, line ends, tabs and colours (SGR, ECMA-48 8.3.117), and leaves out every other
/// control character and sequence, also where one comes in parts.
pub struct Colours<W> {
    to: W,
    sequences: Sequences,
    passed: Passed,
}

#[derive(Default)]
struct Passed {
    text: String,
    has_colour: bool,
}

impl<W: Write> Colours<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Self {
        Self { to, sequences: Sequences::default(), passed: Passed::default() }
    }

    /// Takes back what colours are left.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn end(mut self) -> io::Result<()> {
        if self.passed.has_colour {
            self.to.write_all(b"\x1b[0m")?;
        }
        self.to.flush()
    }
}

impl Perform for Passed {
    fn print(&mut self, character: char) {
        if !character.is_control() {
            self.text.push(character);
        }
    }

    fn execute(&mut self, byte: u8) {
        if matches!(byte, b'\n' | b'\r' | b'\t') {
            self.text.push(byte.into());
        }
    }

    fn csi_dispatch(&mut self, numbers: &Params, between: &[u8], is_cut: bool, last: char) {
        if last != 'm' || !between.is_empty() || is_cut {
            return;
        }
        self.has_colour = true;
        self.text.push_str("\x1b[");
        for (index, parts) in numbers.iter().enumerate() {
            for (part, number) in parts.iter().enumerate() {
                let mark = match (index, part) {
                    (0, 0) => "",
                    (_, 0) => ";",
                    _ => ":",
                };
                // Writing to a string does not fail.
                let _ = write!(self.text, "{mark}{number}");
            }
        }
        self.text.push('m');
    }
}

impl<W: Write> Write for Colours<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.passed.text.clear();
        self.sequences.read(bytes, &mut self.passed);
        self.to.write_all(self.passed.text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::Colours;

    fn shown(parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut colours = Colours::new(&mut out);
        parts.iter().for_each(|part| colours.write_all(part).unwrap());
        colours.end().unwrap();
        out
    }

    #[test]
    fn text_and_colours_pass() {
        for text in ["one\ttwo\r\nthree\n", "ünï 日本 🦀\n", "", "\u{a0}\u{bf}"] {
            assert_eq!(shown(&[text.as_bytes()]), text.as_bytes());
        }
        let red = b"\x1b[1;38:2:0:1:2:3mred\x1b[0m";
        assert_eq!(shown(&[red]), [red.as_slice(), b"\x1b[0m"].concat());
        assert_eq!(shown(&[b"\xc2\x9b31mx"]), b"\x1b[31mx\x1b[0m");
    }

    #[test]
    fn nothing_else_reaches_the_terminal_however_it_is_cut() {
        let hostile: [&[u8]; 14] = [
            b"\x1b]0;title\x07",
            b"\x1b]52;c;Y3VybA==\x1b\\",
            b"\xc2\x9d52;c;Y3VybA==\xc2\x9c",
            b"\x1bP$q\"p\x1b\\",
            b"\x1b_apc\x1b\\",
            b"\x1b[2J\x1b[H\x1b[6n\x1b[?1049h\x1b[>c",
            b"\x1b[31;1!m",
            b"\x1b[?1m",
            b"\x1bc\x1b7\x1b#8\x1b(0\x0e\x0f",
            b"\x08\x7f\x07\x0c\x0b\x00",
            b"\x9b2J\x9d\x84",
            b"\xc2\x84\xc2\x9b6n",
            b"\x1b\x1b\x1b[\x1b]x\x1b[c\x07",
            b"\x1b]\xc2\x9c",
        ];
        for bytes in hostile {
            let all = [b"a".as_slice(), bytes, b"b"].concat();
            for at in 0..all.len() {
                let (left, right) = all.split_at(at);
                let out = String::from_utf8(shown(&[left, right])).unwrap();
                // U+FFFD stands for bytes that are no text.
                let is_plain = |one: char| one.is_ascii_graphic() || one == '\u{fffd}';
                assert!(out.chars().all(is_plain), "{bytes:?}: {out:?}");
                assert!(out.starts_with('a'), "{bytes:?}: {out:?}");
            }
        }
        let long = [b"\x1b[".as_slice(), &b"1;".repeat(100), b"mx"].concat();
        assert_eq!(shown(&[&long]), b"x");
    }

    #[test]
    fn sequence_cut_by_a_control_character_swallows_no_text() {
        assert_eq!(shown(&[b"\x1b[31\x18\nnext"]), b"\nnext");
        let cut = "\u{fffd}\n€".as_bytes();
        assert_eq!(shown(&[b"\xe2\x82\n\xe2\x82\xac"]), cut);
        assert_eq!(shown(&[b"\xc2\n"]), "\u{fffd}\n".as_bytes());
    }
}
