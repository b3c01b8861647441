//! Quoting what somebody else wrote.

use std::fmt::{self, Display, Write as _};

/// Shows a value on one line, control characters and those that reorder text (UAX #9) as escapes:
/// a recipe or a tarball must not drive the terminal of who reads the error.
pub(crate) struct Plain<'a, T: Display>(pub(crate) &'a T);

impl<T: Display> Display for Plain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape(f), "{}", self.0)
    }
}

struct Escape<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escape<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                write!(self.0, "{}", character.escape_unicode())
            }
            control if control.is_control() => write!(self.0, "{}", control.escape_default()),
            plain => self.0.write_char(plain),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Plain;

    #[test]
    fn terminal_controls_are_escaped() {
        let text = Plain(&"ü \u{1b}[2J\n\u{202e}x").to_string();
        assert_eq!(text, "ü \\u{1b}[2J\\n\\u{202e}x");
    }
}
