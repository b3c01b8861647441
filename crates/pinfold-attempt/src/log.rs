//! The log of an attempt: what ran, and what it printed.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The most that a log keeps, in bytes. What comes after it is dropped.
const MOST: usize = 64 << 20;
/// The last bytes of a program's output, which the agent gets if the program fails.
const TAIL: usize = 8 << 10;

/// The log of an attempt.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    left: usize,
}

/// The end of what one program printed.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Log {
    /// Makes the log. What another attempt with the same number wrote stays in front of it.
    ///
    /// # Errors
    /// Returns the error of open(2).
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { file: file.into(), left: MOST })
    }

    /// Writes a heading.
    pub(crate) fn heading(&mut self, text: &str) {
        self.write(format!("== {text}\n").as_bytes());
    }

    /// Writes what a program printed. A log that cannot be written does not end an attempt.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.left)];
        self.left -= bytes.len();
        let _ = self.file.write_all(bytes);
        if self.left == 0 && !bytes.is_empty() {
            let _ = self.file.write_all(b"\n== more output was dropped\n");
        }
    }
}

impl Tail {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let surplus = self.0.len().saturating_sub(TAIL);
        self.0.drain(..surplus);
    }

    /// Returns the last lines, without what drives a terminal.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let shows = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
        text.chars().filter(shows).collect::<String>().trim().to_owned()
    }

    /// Returns the same without notes of pinfold's.
    pub(crate) fn output(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("pinfold: ")).collect();
        lines.join("\n")
    }

    /// Returns the notes of pinfold's.
    pub(crate) fn notes(&self) -> Vec<String> {
        let text = self.text();
        text.lines().filter_map(|line| line.strip_prefix("pinfold: ")).map(str::to_owned).collect()
    }

    /// Returns the output as one line, of its last lines.
    pub(crate) fn lines(&self, most: usize) -> String {
        let text = self.output();
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].join(" ").chars().take(500).collect()
    }

    /// Returns the last line that says something, or pinfold's own error.
    pub(crate) fn reason(&self) -> String {
        let text = self.output();
        let error = text.lines().rev().find_map(|line| line.strip_prefix("error: "));
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        error.or(last).unwrap_or("it printed nothing").chars().take(500).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{TAIL, Tail};

    #[test]
    fn tail_is_the_end_and_shows_as_it_is() {
        let mut tail = Tail::default();
        tail.add(&[b'a'; 3 * TAIL]);
        tail.add(b"\x1b[31mred\x07\nlast\n");
        assert_eq!(tail.0.len(), TAIL);
        assert!(tail.text().ends_with("[31mred\nlast"));
    }

    #[test]
    fn reason_is_the_error_before_what_pinfold_notes() {
        let mut tail = Tail::default();
        tail.add(b"error: no key\nhint: set one\npinfold: note: x\n");
        assert_eq!(tail.reason(), "no key");
    }
}
