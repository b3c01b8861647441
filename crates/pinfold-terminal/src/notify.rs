//! Notices for the user: on standard error, next to what a program shows.
//!
//! All words pass here. Names and messages of others are in them, so what would drive a terminal, is
//! not seen, or begins a line is escaped, and the terminal is first given back what a command that ran
//! on it has changed.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;

use parking_lot::Mutex;
use pinfold_host::note::{Note, summary};
use pinfold_host::session_id::SessionId;
use pinfold_policy::path::{cut, is_plain, plain_line};

use crate::screen::Modes;

/// Bytes of a note at the end of a session.
const LONGEST_NOTE: usize = 2048;

/// What a command has asked of the terminal that standard error is, if one has run there.
static COMMAND: Mutex<Option<Modes>> = Mutex::new(None);

/// Tells a user something, on one line of standard error.
#[macro_export]
macro_rules! notify {
    ($($words:tt)*) => { $crate::notify::line(&format!($($words)*)) };
}

/// Tells a user something on one line.
pub fn line(words: &str) {
    put(format_args!("{}\n", plain_line(words)));
}

/// Tells a user something that may have several lines. All but the first are indented, so that none
/// can be taken for the beginning of another message.
pub fn lines(words: &str) {
    put(format_args!("{}\n", Indented(words)));
}

/// Does the same after a word that stands out.
pub fn marked(mark: fmt::Arguments<'_>, words: &str) {
    put(format_args!("{mark} {}\n", Indented(words)));
}

/// Prints what the user should know at the end of a session, in a few lines.
pub fn notes(notes: &[Note], session: Option<&SessionId>) {
    let details = match session {
        Some(session) => format!("pinfold audit --session {session}"),
        None => "pinfold audit".to_owned(),
    };
    for note in summary(notes, &details) {
        line(&format!("pinfold: {}", cut(&plain_line(&note), LONGEST_NOTE)));
    }
}

/// Shows what a program has written, without what would drive a terminal or is not seen.
pub fn output(written: &[u8]) {
    let text = String::from_utf8_lossy(written);
    let shown = text.chars().filter(|c| is_plain(*c) || matches!(c, '\n' | '\t'));
    put(format_args!("{}", shown.collect::<String>()));
}

/// Writes pinfold's own words as they are, without the end of the line. That nobody can hear it (a
/// closed pipe, a full disk) is no failure of what it is about.
pub fn put(words: fmt::Arguments<'_>) {
    let left = COMMAND.lock().take().filter(|_| rustix::termios::isatty(rustix::stdio::stderr()));
    let mut bytes = left.map_or_else(Vec::new, |modes| modes.leave_if_touched());
    bytes.extend_from_slice(words.to_string().as_bytes());
    // In one write(2), so that nothing of somebody else's comes between.
    let _ = io::stderr().lock().write_all(&bytes);
}

/// Takes back what a command that has ended left on the caller's terminal, if this job still has it.
pub fn give_back(terminal: BorrowedFd<'_>) {
    let own = rustix::process::getpgrp();
    if rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == own) {
        let left = COMMAND.lock().take();
        // A terminal that is gone has nothing left on it.
        let _ =
            rustix::io::write(terminal, &left.map_or_else(Vec::new, |it| it.leave_if_touched()));
    }
}

/// Follows what a command writes to the caller's terminal.
pub fn follow(bytes: &[u8]) {
    let mut command = COMMAND.lock();
    command.get_or_insert_default().follow(bytes);
}

struct Indented<'a>(&'a str);

impl fmt::Display for Indented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.lines().enumerate() {
            if index > 0 {
                f.write_str("\n  ")?;
            }
            for (index, part) in line.split('\t').enumerate() {
                if index > 0 {
                    f.write_char('\t')?;
                }
                f.write_str(&plain_line(part))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Indented;

    #[test]
    fn further_lines_are_indented_and_drive_no_terminal() {
        let words = "a\n\tb\u{1b}[8m\npinfold: all is well\r\n\u{200b}c\r";
        let shown = Indented(words).to_string();
        assert_eq!(shown, "a\n  \tb\\u{1b}[8m\n  pinfold: all is well\n  \\u{200b}c\\r");
    }
}
