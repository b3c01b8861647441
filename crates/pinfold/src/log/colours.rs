//! What of a program's output may drive the terminal of somebody who only reads it: colours, and nothing
//! else. An agent that nobody watches writes its log; its reader's title, clipboard and screen, and what
//! a terminal answers when it is asked, are none of its business.

use std::io::{self, Write};

const ESCAPE: u8 = 0x1b;
/// Bytes of the longest colour sequence that is let through.
const LONGEST: usize = 64;

/// Writes text, ends of lines, tabs and colours (SGR, ECMA-48 8.3.117), and leaves out every other control
/// character and sequence, also where one comes in parts.
#[derive(Debug)]
pub(super) struct Colours<W> {
    to: W,
    state: State,
    /// Bytes of a character that are still to come (UTF-8, RFC 3629).
    to_come: u8,
    has_colour: bool,
}

#[derive(Debug)]
enum State {
    Text,
    /// The first byte of a character that may be a control character (C1, U+0080 to U+009F).
    Doubtful,
    Escape,
    /// A sequence, with its parameters as long as they can be those of a colour.
    Sequence(Option<Vec<u8>>),
    /// A text for the terminal itself (OSC, DCS and their like).
    ControlString,
}

impl<W: Write> Colours<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, state: State::Text, to_come: 0, has_colour: false }
    }

    /// Takes back what colours are left.
    pub(super) fn end(mut self) -> io::Result<()> {
        if self.has_colour {
            self.to.write_all(b"\x1b[0m")?;
        }
        self.to.flush()
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.state = match (std::mem::replace(&mut self.state, State::Text), byte) {
            (State::Doubtful, 0x80..=0x9f) => control(byte),
            (State::Doubtful, _) => {
                out.push(0xc2);
                self.to_come = 1;
                self.text(byte, out)
            }
            (State::ControlString, 0x07 | 0x9c) => State::Text,
            // What ends it is ESC \, of which the rest does nothing by itself.
            (_, ESCAPE) => {
                self.to_come = 0;
                State::Escape
            }
            (State::ControlString, _) => State::ControlString,
            (State::Escape, 0x20..=0x2f) => State::Escape,
            // Seven bits for the same controls (ECMA-35).
            (State::Escape, 0x40..=0x5f) => control(byte + 0x40),
            (State::Escape, 0x30..=0x3f | 0x60..=0x7e) => State::Text,
            (State::Sequence(parameters), 0x20..=0x3f) => {
                let mut parameters = parameters.filter(|held| {
                    held.len() < LONGEST && matches!(byte, b'0'..=b'9' | b';' | b':')
                });
                parameters.iter_mut().for_each(|held| held.push(byte));
                State::Sequence(parameters)
            }
            (State::Sequence(parameters), 0x40..=0x7e) => {
                if let (Some(parameters), b'm') = (parameters, byte) {
                    out.extend([ESCAPE, b'[']);
                    out.extend(parameters);
                    out.push(b'm');
                    self.has_colour = true;
                }
                State::Text
            }
            (State::Text | State::Escape | State::Sequence(_), _) => self.text(byte, out),
        };
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) -> State {
        match (self.to_come, byte) {
            (1.., 0x80..=0xbf) => {
                self.to_come -= 1;
                out.push(byte);
                return State::Text;
            }
            (_, 0xc2) => return State::Doubtful,
            (_, 0xc3..=0xdf) => self.to_come = 1,
            (_, 0xe0..=0xef) => self.to_come = 2,
            (_, 0xf0..=0xf7) => self.to_come = 3,
            (_, b'\n' | b'\r' | b'\t' | 0x20..=0x7e) => self.to_come = 0,
            // Control characters, and bytes that begin nothing.
            _ => {
                self.to_come = 0;
                return State::Text;
            }
        }
        out.push(byte);
        State::Text
    }
}

/// What a control character of the upper ones begins.
fn control(byte: u8) -> State {
    match byte {
        0x9b => State::Sequence(Some(Vec::new())),
        0x90 | 0x98 | 0x9d..=0x9f => State::ControlString,
        _ => State::Text,
    }
}

impl<W: Write> Write for Colours<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = Vec::with_capacity(bytes.len());
        bytes.iter().for_each(|byte| self.take(*byte, &mut out));
        self.to.write_all(&out)?;
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
        let red = b"\x1b[1;38:2::1:2:3mred\x1b[m";
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
                let out = shown(&[left, right]);
                let is_plain = |byte: &u8| byte.is_ascii_graphic();
                assert!(out.iter().all(is_plain), "{bytes:?}: {out:?}");
                assert!(out.starts_with(b"a"), "{bytes:?}: {out:?}");
            }
        }
        let long = [b"\x1b[".as_slice(), &b"1;".repeat(100), b"mx"].concat();
        assert_eq!(shown(&[&long]), b"x");
    }

    #[test]
    fn sequence_cut_by_a_control_character_swallows_no_text() {
        assert_eq!(shown(&[b"\x1b[31\nnext"]), b"\nnext");
        let cut = b"\xe2\x82\n\xe2\x82\xac";
        assert_eq!(shown(&[cut]), cut);
        assert_eq!(shown(&[b"\xc2\n"]), b"\xc2\n");
    }
}
