//! What a program has asked of its terminal that lasts.
//!
//! A terminal that is attached later has not heard it, and one that is detached must not keep it: a
//! shell on the alternate screen, with the mouse reported as keys, is of no use. Only sequences that
//! ask for such things are understood (ctlseqs of xterm, and the keyboard protocol of kitty); of
//! everything else the program paints again when its window changes.

/// Ends what a program has begun to tell its terminal and left unfinished, which would swallow what comes next: a
/// sequence (CAN), or a string (ST; ECMA-48, 8.3.143).
pub(crate) const UNFINISHED: &str = "\x18\x1b\\";

/// The modes that show the alternate screen, in its three forms.
const ALTERNATE: [u16; 3] = [1049, 1047, 47];

/// Private modes (DECSET) that are followed, and whether a terminal begins with them.
const PRIVATE: [(u16, bool); 14] = [
    (ALTERNATE[0], false),
    (ALTERNATE[1], false),
    (ALTERNATE[2], false),
    // Cursor keys for applications; wrapping; the cursor.
    (1, false),
    (7, true),
    (25, true),
    // How the mouse is reported.
    (1000, false),
    (1002, false),
    (1003, false),
    (1005, false),
    (1006, false),
    (1015, false),
    // Focus; brackets around what is pasted.
    (1004, false),
    (2004, false),
];

/// Keyboards that are stacked.
const MOST: usize = 16;
/// Parameters of a sequence that are kept; xterm takes 30.
const MOST_NUMBERS: usize = 32;

/// Follows what a program writes.
#[derive(Debug, Default, Clone)]
pub struct Modes {
    /// Which of [`PRIVATE`] are not as at first.
    changed: [bool; PRIVATE.len()],
    /// Whether the alternate screen is shown, by whichever of its forms was used last.
    is_alternate: bool,
    /// Keypad for applications (DECKPAM).
    keypad: bool,
    /// Kitty's stack of keyboard reporting flags.
    keyboards: Vec<u16>,
    /// How modified keys are reported (modifyOtherKeys).
    modified: Option<u16>,
    /// Whether anything was written that could change how text looks.
    is_touched: bool,
    /// Whether a command for the terminal itself (OSC) was, which may set its colours.
    has_command: bool,
    /// The byte before, outside of sequences.
    last: u8,
    reading: Reading,
}

#[derive(Debug, Default, Clone)]
enum Reading {
    #[default]
    Text,
    Escape,
    Sequence {
        prefix: Option<u8>,
        numbers: Vec<u16>,
    },
}

impl Modes {
    /// Goes on with what was written; sequences may be cut anywhere.
    pub fn follow(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if matches!(self.reading, Reading::Text) {
                // ESC, the shifts to other characters, and the second byte of an eight-bit control.
                let begins = |byte: &u8| matches!(byte, 0x1b | 0x0e | 0x0f | 0x80..=0x9f);
                let Some(at) = rest.iter().position(begins) else {
                    self.last = rest[rest.len() - 1];
                    return;
                };
                if at > 0 {
                    self.last = rest[at - 1];
                }
                rest = &rest[at..];
            }
            self.read(rest[0]);
            rest = &rest[1..];
        }
    }

    fn read(&mut self, byte: u8) {
        let last = std::mem::replace(&mut self.last, byte);
        self.is_touched |= matches!(byte, 0x1b | 0x0e | 0x0f) || last == 0xc2 && byte < 0xa0;
        self.reading = match (std::mem::take(&mut self.reading), byte) {
            (_, 0x1b) => Reading::Escape,
            // U+009B is CSI, and U+009D is OSC.
            (Reading::Text, 0x9b) if last == 0xc2 => {
                Reading::Sequence { prefix: None, numbers: vec![0] }
            }
            (Reading::Text, 0x9d) if last == 0xc2 => self.command(),
            (Reading::Escape, b']') => self.command(),
            // These end a sequence; other controls are carried out within it, and it goes on.
            (_, 0x18 | 0x1a) => Reading::Text,
            (reading @ (Reading::Escape | Reading::Sequence { .. }), ..0x20 | 0x7f) => reading,
            (Reading::Escape, b'[') => Reading::Sequence { prefix: None, numbers: vec![0] },
            (Reading::Escape, b'=') => self.set_keypad(true),
            (Reading::Escape, b'>') => self.set_keypad(false),
            (Reading::Escape, b'c') => {
                *self = Self { is_touched: true, has_command: self.has_command, ..Self::default() };
                Reading::Text
            }
            (Reading::Sequence { prefix: None, numbers }, b'<'..=b'?') => {
                Reading::Sequence { prefix: Some(byte), numbers }
            }
            (Reading::Sequence { prefix, mut numbers }, b'0'..=b'9') => {
                if let Some(number) = numbers.last_mut() {
                    *number = number.saturating_mul(10).saturating_add((byte - b'0').into());
                }
                Reading::Sequence { prefix, numbers }
            }
            (Reading::Sequence { prefix, mut numbers }, b';') if numbers.len() < MOST_NUMBERS => {
                numbers.push(0);
                Reading::Sequence { prefix, numbers }
            }
            (Reading::Sequence { prefix: Some(prefix), numbers }, 0x40..=0x7e) => {
                self.ask(prefix, &numbers, byte);
                Reading::Text
            }
            (Reading::Text | Reading::Escape | Reading::Sequence { .. }, _) => Reading::Text,
        };
    }

    fn set_keypad(&mut self, on: bool) -> Reading {
        self.keypad = on;
        Reading::Text
    }

    fn command(&mut self) -> Reading {
        self.has_command = true;
        Reading::Text
    }

    fn ask(&mut self, prefix: u8, numbers: &[u16], last: u8) {
        let first = numbers.first().copied().unwrap_or_default();
        match (prefix, last) {
            (b'?', b'h' | b'l') => {
                if numbers.iter().any(|mode| ALTERNATE.contains(mode)) {
                    self.is_alternate = last == b'h';
                }
                for (changed, (mode, at_first)) in self.changed.iter_mut().zip(PRIVATE) {
                    if numbers.contains(&mode) {
                        *changed = (last == b'h') != at_first;
                    }
                }
            }
            // Modes that were saved come back, whichever they were.
            (b'?', b'r') => {
                for (changed, (mode, _)) in self.changed.iter_mut().zip(PRIVATE) {
                    *changed |= numbers.contains(&mode);
                }
            }
            (b'>', b'u') if self.keyboards.len() < MOST => self.keyboards.push(first),
            (b'<', b'u') => {
                let left = self.keyboards.len().saturating_sub(first.max(1).into());
                self.keyboards.truncate(left);
            }
            (b'>', b'm') if first == 4 => {
                self.modified = numbers.get(1).copied().filter(|how| *how > 0);
            }
            _ => {}
        }
    }

    /// Returns whether the program shows the alternate screen.
    pub(crate) fn is_alternate(&self) -> bool {
        self.is_alternate
    }

    /// What tells a terminal that has heard nothing.
    pub fn enter(&self) -> Vec<u8> {
        let mut set = self.private(true);
        if self.keypad {
            set.push_str("\x1b=");
        }
        for how in &self.keyboards {
            set.push_str(&format!("\x1b[>{how}u"));
        }
        if let Some(how) = self.modified {
            set.push_str(&format!("\x1b[>4;{how}m"));
        }
        set.into_bytes()
    }

    /// The same as [`Self::leave`], or nothing after text alone.
    pub(crate) fn leave_if_touched(&self) -> Vec<u8> {
        if self.is_touched { self.leave() } else { Vec::new() }
    }

    /// What takes all of it back, and the attributes of text with it.
    pub fn leave(&self) -> Vec<u8> {
        let mut reset = String::from(UNFINISHED);
        if self.modified.is_some() {
            reset.push_str("\x1b[>4m");
        }
        if !self.keyboards.is_empty() {
            reset.push_str(&format!("\x1b[<{}u", self.keyboards.len()));
        }
        if self.keypad {
            reset.push_str("\x1b>");
        }
        if self.has_command {
            // The colours of the palette, of text and of what is behind it.
            reset.push_str("\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\");
        }
        // Output to the screen and not to a printer; text that neither pushes other text away nor waits
        // to be drawn.
        reset.push_str("\x1b[4i\x1b[4l\x1b[?2026l");
        // Scrolling of the whole screen, with the cursor where it is; ASCII; no attributes.
        reset.push_str("\x1b7\x1b[?69l\x1b[r\x1b8\x1b(B\x0f\x1b[0m");
        reset.push_str(&self.private(false));
        reset.into_bytes()
    }

    /// The modes that have changed, as they are or as they were at first.
    fn private(&self, as_now: bool) -> String {
        let changed = self.changed.iter().zip(PRIVATE).filter(|(changed, _)| **changed);
        let letter = |at_first: bool| if at_first == as_now { 'l' } else { 'h' };
        let sequence = |(mode, at_first)| format!("\x1b[?{mode}{}", letter(at_first));
        changed.map(|(_, mode)| sequence(mode)).collect()
    }
}

#[cfg(test)]
mod tests;
