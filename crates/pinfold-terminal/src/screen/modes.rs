//! What a program has asked of its terminal that lasts.
//!
//! A terminal that is attached later has not heard it, and one that is detached must not keep it: a
//! shell on the alternate screen, with the mouse reported as keys, is of no use. Only sequences that
//! ask for such things are understood (ctlseqs of xterm, and the keyboard protocol of kitty); of
//! everything else the program paints again when its window changes.

use vte::{Params, Perform};

use crate::sequences::Sequences;

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

/// Follows what a program writes.
#[derive(Debug, Default)]
pub struct Modes {
    sequences: Sequences,
    asked: Asked,
    /// Whether the next byte follows an ESC.
    is_escaped: bool,
    /// Whether anything was written that could change how text looks.
    is_touched: bool,
    /// Whether a command for the terminal itself (OSC) was begun, which may set its colours.
    has_command: bool,
    /// The byte before.
    last: u8,
}

/// What was asked for and holds.
#[derive(Debug, Default)]
struct Asked {
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
}

impl Modes {
    /// Goes on with what was written; sequences may be cut anywhere.
    pub fn follow(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.note(*byte);
        }
        self.sequences.read(bytes, &mut self.asked);
    }

    /// Notes what has an effect before it ends: a terminal may carry out a command that is broken off.
    fn note(&mut self, byte: u8) {
        let last = std::mem::replace(&mut self.last, byte);
        let is_upper = last == 0xc2 && (0x80..0xa0).contains(&byte);
        if self.is_escaped || is_upper {
            // Controls are carried out within a sequence, and it goes on.
            self.is_escaped = self.is_escaped && byte < 0x20 && !matches!(byte, 0x18 | 0x1a);
            self.has_command |= matches!(byte, b']' | 0x9d);
        }
        self.is_escaped |= byte == 0x1b;
        self.is_touched |= is_upper || matches!(byte, 0x1b | 0x0e | 0x0f);
    }

    /// Returns whether the program shows the alternate screen.
    pub(crate) fn is_alternate(&self) -> bool {
        self.asked.is_alternate
    }

    /// What tells a terminal that has heard nothing.
    pub fn enter(&self) -> Vec<u8> {
        let mut set = self.private(true);
        if self.asked.keypad {
            set.push_str("\x1b=");
        }
        for how in &self.asked.keyboards {
            set.push_str(&format!("\x1b[>{how}u"));
        }
        if let Some(how) = self.asked.modified {
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
        if self.asked.modified.is_some() {
            reset.push_str("\x1b[>4m");
        }
        if !self.asked.keyboards.is_empty() {
            reset.push_str(&format!("\x1b[<{}u", self.asked.keyboards.len()));
        }
        if self.asked.keypad {
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
        let changed = self.asked.changed.iter().zip(PRIVATE).filter(|(changed, _)| **changed);
        let letter = |at_first: bool| if at_first == as_now { 'l' } else { 'h' };
        let sequence = |(mode, at_first)| format!("\x1b[?{mode}{}", letter(at_first));
        changed.map(|(_, mode)| sequence(mode)).collect()
    }
}

impl Perform for Asked {
    fn esc_dispatch(&mut self, between: &[u8], _is_cut: bool, last: u8) {
        match (between, last) {
            ([], b'=') => self.keypad = true,
            ([], b'>') => self.keypad = false,
            ([], b'c') => *self = Self::default(),
            _ => {}
        }
    }

    /// A terminal takes as many parameters as it has room for, so a sequence that is cut counts.
    fn csi_dispatch(&mut self, numbers: &Params, between: &[u8], _is_cut: bool, last: char) {
        let [prefix] = *between else { return };
        let mut numbers = numbers.iter().filter_map(|parts| parts.first().copied());
        match (prefix, last) {
            (b'?', 'h') => numbers.for_each(|mode| self.set(mode, true)),
            (b'?', 'l') => numbers.for_each(|mode| self.set(mode, false)),
            // Modes that were saved come back, whichever they were.
            (b'?', 'r') => {
                numbers.for_each(|mode| self.changed_of(mode, |changed, _| *changed = true))
            }
            (b'>', 'u') if self.keyboards.len() < MOST => {
                self.keyboards.push(numbers.next().unwrap_or_default());
            }
            (b'<', 'u') => {
                let count = numbers.next().unwrap_or_default().max(1);
                self.keyboards.truncate(self.keyboards.len().saturating_sub(count.into()));
            }
            (b'>', 'm') if numbers.next() == Some(4) => {
                self.modified = numbers.next().filter(|how| *how > 0);
            }
            _ => {}
        }
    }
}

impl Asked {
    fn set(&mut self, mode: u16, on: bool) {
        if ALTERNATE.contains(&mode) {
            self.is_alternate = on;
        }
        self.changed_of(mode, |changed, at_first| *changed = on != at_first);
    }

    fn changed_of(&mut self, mode: u16, change: impl Fn(&mut bool, bool)) {
        let found = PRIVATE.iter().position(|(known, _)| *known == mode);
        if let Some(at) = found {
            change(&mut self.changed[at], PRIVATE[at].1);
        }
    }
}

#[cfg(test)]
mod tests;
