//! What a program has asked of its terminal that lasts.
//!
//! A terminal that is attached later has not heard it, and one that is detached must not keep it: a
//! shell on the alternate screen, with the mouse reported as keys, is of no use. Only sequences that
//! ask for such things are understood (ctlseqs of xterm, and the keyboard protocol of kitty); of
//! everything else the program paints again when its window changes.

mod keyboards;

use vte::{Params, Perform};

use crate::sequences::Sequences;
use keyboards::Keyboards;

/// Ends what a program has begun to tell its terminal and left unfinished, which would swallow what comes next: a
/// sequence (CAN), or a string (ST; ECMA-48, 8.3.143). Ends the emulation of a VT52, too, which knows no sequences.
pub(crate) const UNFINISHED: &str = "\x18\x1b\\\x1b<";

/// The modes that show the alternate screen, in its three forms.
const ALTERNATE: [u16; 3] = [1049, 1047, 47];

/// Private modes (DECSET) that are followed, and whether a terminal begins with them.
const PRIVATE: [(u16, bool); 24] = [
    (ALTERNATE[0], false),
    (ALTERNATE[1], false),
    (ALTERNATE[2], false),
    // Cursor keys for applications; wrapping; the cursor.
    (1, false),
    (7, true),
    (25, true),
    // Reversed colours; an origin that moves with the rows that scroll; the keypad; Backspace.
    (5, false),
    (6, false),
    (66, false),
    (67, false),
    // How the mouse is reported.
    (9, false),
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    // Focus; brackets around what is pasted.
    (1004, false),
    (2004, false),
    // Reports of another colour scheme and of another size, and all keys as Windows has them.
    (2031, false),
    (2048, false),
    (9001, false),
];

/// Takes back colours of text and of what is behind it, the palette, and the palette of Linux's console.
const COLOURS: &str = "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]R\x1b\\";

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
    /// What the string that has not ended begins with, after its ESC.
    string: Option<u8>,
    /// The byte before.
    last: u8,
}

/// What was asked for and holds.
#[derive(Debug, Default)]
struct Asked {
    /// Which of [`PRIVATE`] are not as at first.
    changed: [bool; PRIVATE.len()],
    /// Which of them may not be, once terminals differ in how they read the output.
    perhaps: [bool; PRIVATE.len()],
    is_doubtful: bool,
    /// Whether the terminal may take the output for Latin-1.
    is_latin: bool,
    /// Whether the alternate screen is shown, by whichever of its forms was used last.
    is_alternate: bool,
    /// Keypad for applications (DECKPAM).
    keypad: bool,
    /// Those of the main screen and of the alternate one.
    keyboards: [Keyboards; 2],
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

    /// Notes what has an effect before it ends: a terminal may carry out a command that is broken off. Also
    /// notes what
    /// terminals differ in: some know no control characters U+0080 to U+009F, and GNU screen takes a sequence
    /// within a
    /// string for text of it.
    fn note(&mut self, byte: u8) {
        let last = std::mem::replace(&mut self.last, byte);
        let is_upper = last == 0xc2 && (0x80..0xa0).contains(&byte);
        let cuts_string = self.string.is_some() && self.is_escaped && !matches!(byte, b'\\' | 0x1b);
        if is_upper || cuts_string {
            self.asked.doubt();
        }
        if self.is_escaped && byte >= 0x20 {
            let begins = matches!(byte, b']' | b'P' | b'_' | b'^' | b'X' | b'k' | b'!');
            self.string = begins.then_some(byte);
        }
        if matches!(byte, 0x18 | 0x1a) || byte == 0x07 && self.string == Some(b']') {
            self.string = None;
        }
        if self.is_escaped || is_upper {
            // Controls are carried out within a sequence, and it goes on.
            self.is_escaped = self.is_escaped && byte < 0x20 && !matches!(byte, 0x18 | 0x1a);
            self.has_command |= matches!(byte, b']' | 0x9d);
        }
        self.is_escaped |= byte == 0x1b;
        self.is_touched |= is_upper || matches!(byte, 0x1b | 0x0e | 0x0f);
    }

    /// Takes back colours that the program may have set. Text and what is behind it may have the same.
    pub(crate) fn usual_colours(&self) -> &'static str {
        if self.has_command || self.asked.is_latin { COLOURS } else { "" }
    }

    /// Returns whether the program shows the alternate screen.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        self.asked.is_alternate
    }

    /// Returns what makes the state known to a terminal that has received nothing.
    pub fn enter(&self) -> Vec<u8> {
        let [main, alternate] = &self.asked.keyboards;
        let mut set = main.enter();
        set.push_str(&self.private(true));
        if self.asked.is_alternate {
            set.push_str(&alternate.enter());
        }
        if self.asked.keypad {
            set.push_str("\x1b=");
        }
        if let Some(how) = self.asked.modified {
            set.push_str(&format!("\x1b[>4;{how}m"));
        }
        set.into_bytes()
    }

    /// Returns the same as [`Self::leave`], or nothing after text alone.
    pub(crate) fn leave_if_touched(&self) -> Vec<u8> {
        if self.is_touched { self.leave() } else { Vec::new() }
    }

    /// Returns what takes all of it back, and the attributes of text with it.
    pub fn leave(&self) -> Vec<u8> {
        let asked = &self.asked;
        let [main, alternate] = asked.keyboards.each_ref().map(Keyboards::leave);
        let mut reset = String::from(UNFINISHED);
        if asked.is_latin {
            reset.push_str("\x1b%G");
        }
        if asked.modified.is_some() || asked.is_doubtful {
            reset.push_str("\x1b[>4m");
        }
        if asked.is_alternate && !asked.is_doubtful {
            reset.push_str(&alternate);
        } else if !alternate.is_empty() {
            reset.push_str(&format!("\x1b[?1049h{alternate}\x1b[?1049l"));
        }
        if asked.keypad || asked.is_doubtful {
            reset.push_str("\x1b>");
        }
        reset.push_str(self.usual_colours());
        // Output to the screen and neither to a printer nor to the line of its state; cells that can be erased; keys
        // that are taken, are not echoed by the terminal, and end a line as usual; text that neither pushes other text
        // away nor waits to be drawn.
        reset.push_str("\x1b[4i\x1b[0\"q\x1b[0$}\x1b[2l\x1b[12h\x1b[20l\x1b[4l\x1b[?2026l");
        // Scrolling of the whole screen, with the cursor where it is; ASCII; no attributes.
        reset.push_str("\x1b7\x1b[?69l\x1b[r\x1b8\x1b(B\x0f\x1b[0m");
        reset.push_str(&self.private(false));
        reset.push_str(&main);
        reset.into_bytes()
    }

    /// Returns the modes that have changed, as they are or as they were at first.
    fn private(&self, as_now: bool) -> String {
        let perhaps = |at: usize| !as_now && self.asked.perhaps[at];
        let changed = self
            .asked
            .changed
            .iter()
            .enumerate()
            .zip(PRIVATE)
            .filter(|((at, changed), _)| **changed || perhaps(*at));
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
            ([], b'c') => {
                let Self { perhaps, is_doubtful, is_latin, .. } = *self;
                let keyboards = std::mem::take(&mut self.keyboards);
                let keyboards = if is_doubtful { keyboards } else { Default::default() };
                *self = Self { perhaps, is_doubtful, is_latin, keyboards, ..Self::default() };
            }
            ([b'%'], b'@') => {
                self.is_latin = true;
                self.doubt_all();
            }
            _ => {}
        }
    }

    /// Handles a control sequence. A terminal takes as many parameters as it has room for, so a sequence that
    /// is cut counts.
    fn csi_dispatch(&mut self, numbers: &Params, between: &[u8], is_cut: bool, last: char) {
        let [prefix] = *between else { return };
        let mut numbers = numbers.iter().filter_map(|parts| parts.first().copied());
        let is_sure = !self.is_doubtful;
        if is_cut && prefix == b'?' {
            self.doubt_all();
        }
        let keyboards = &mut self.keyboards[usize::from(self.is_alternate)];
        match (prefix, last) {
            (b'?', 'h') => numbers.for_each(|mode| self.set(mode, true)),
            (b'?', 'l') => numbers.for_each(|mode| self.set(mode, false)),
            // Modes that were saved come back, whichever they were.
            (b'?', 'r') => {
                numbers.for_each(|mode| self.changed_of(mode, |changed, _| *changed = true))
            }
            (b'>', 'u') => keyboards.push(numbers.next().unwrap_or_default()),
            (b'<', 'u') => keyboards.pop(numbers.next().unwrap_or_default().max(1), is_sure),
            (b'=', 'u') => {
                let (flags, how) = (numbers.next().unwrap_or_default(), numbers.next());
                keyboards.set(flags, how.unwrap_or_default());
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
            self.perhaps[at] |= self.is_doubtful && self.changed[at];
        }
    }

    /// Notes that what a terminal shows may differ from what is followed here, from now on.
    fn doubt(&mut self) {
        if !self.is_doubtful {
            self.is_doubtful = true;
            self.perhaps = self.changed;
        }
    }

    /// Does the same, and modes may have been set that were not seen.
    fn doubt_all(&mut self) {
        self.is_doubtful = true;
        self.perhaps = [true; PRIVATE.len()];
    }
}

#[cfg(test)]
mod tests;
