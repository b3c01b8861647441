//! What a model reads of a result: bounded, and one entry to a line whatever it is called.

use pinfold_policy::path::plain_line;
use pinfold_tools::Bytes;

/// Bytes of text that a model is given at once.
pub(super) const MOST: usize = 256 * 1024;
/// Characters of a line that shows how far a command has come.
const PROGRESS: usize = 200;

/// Lines, up to [`MOST`] bytes.
#[derive(Default)]
pub(super) struct Lines {
    text: String,
    is_cut: bool,
}

impl Lines {
    pub(super) fn push(&mut self, line: &str) {
        self.is_cut |= self.text.len() + line.len() >= MOST;
        if !self.is_cut {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Returns all of them, and whether there are more.
    pub(super) fn finish(mut self, truncated: bool) -> String {
        if truncated || self.is_cut {
            self.text.push_str("[there are more; ask more narrowly, or for a higher limit]\n");
        }
        self.text
    }
}

/// Returns a name without what would end its line, speak to a terminal or turn the text around: somebody
/// who chooses names could otherwise make one look like several, or like another.
pub(super) fn name(name: &Bytes) -> String {
    escaped(&name.to_text())
}

/// Returns the last line of some output, for a user who waits.
pub(super) fn progress(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let line: String = text.lines().last().unwrap_or_default().chars().take(PROGRESS).collect();
    escaped(&line)
}

fn escaped(text: &str) -> String {
    plain_line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Lines, MOST, name, progress};

    #[test]
    fn a_name_is_one_line_that_says_nothing_to_a_terminal() {
        let hostile = "a\nb\u{1b}[2J\u{202e}txt.exe";
        assert_eq!(name(&hostile.into()), "a\\nb\\u{1b}[2J\\u{202e}txt.exe");
        assert_eq!(name(&"ä ö.txt".into()), "ä ö.txt");
        assert_eq!(progress(b"one\ntwo\x1b]0;title\x07\n"), "two\\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn long_text_is_cut_with_a_note_that_there_is_more() {
        let mut lines = Lines::default();
        for _ in 0..MOST {
            lines.push("x");
        }
        let text = lines.finish(false);
        assert!(text.len() < MOST + 100 && text.ends_with("a higher limit]\n"));
    }
}
