//! Progress of what a user waits for: one line on standard error that is written over, with a bar where
//! it is known how much there is. If standard error is not a terminal, each step is a line of its own.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use crate::notify;

/// The least time between two drawings of the same step.
const PAUSE: Duration = Duration::from_millis(50);
/// Columns of a terminal that does not say how many it has.
const USUAL_COLUMNS: usize = 80;
/// Columns of a bar between its brackets.
const WIDEST_BAR: usize = 30;
const NARROWEST_BAR: usize = 5;

/// How much of something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How much is done, in any unit.
    pub done: u64,
    /// How much there is, in the same unit.
    pub of: u64,
}

impl Share {
    /// Returns the share as so many of these columns, never more.
    fn of_columns(self, columns: usize) -> usize {
        let filled = self.done.min(self.of) as u128 * columns as u128;
        filled.checked_div(self.of.into()).map_or(0, |filled| filled as usize)
    }
}

/// The line. Its end removes it from a terminal.
#[derive(Debug, Default)]
pub struct ProgressLine {
    shown: RefCell<Option<Shown>>,
}

/// The step that was shown last.
#[derive(Debug)]
struct Shown {
    words: String,
    at: Instant,
}

impl ProgressLine {
    /// Shows a step of unknown length.
    pub fn step(&self, words: &str) {
        if !self.begins(words) {
            return;
        }
        if is_drawn() {
            draw(&format!("pinfold: {words}"));
        } else {
            notify!("pinfold: {words}");
        }
    }

    /// Shows how far a step has come: `detail` in words, and its share as a bar. If standard error is
    /// not a terminal, only the beginning of the step is shown.
    pub fn share(&self, words: &str, detail: &str, share: Share) {
        let is_over = share.done >= share.of;
        let is_new = self.begins(words);
        if is_drawn() {
            if is_new || is_over || self.is_due() {
                draw(&with_bar(words, detail, share, columns()));
            }
        } else if is_new {
            notify!("pinfold: {words}: {detail}");
        }
    }

    /// Removes the line from a terminal.
    pub fn end(&self) {
        if self.shown.take().is_some() && is_drawn() {
            notify::put(format_args!("\r\x1b[K"));
        }
    }

    /// Returns whether this step is another one than was shown last.
    fn begins(&self, words: &str) -> bool {
        let mut shown = self.shown.borrow_mut();
        if shown.as_ref().is_some_and(|shown| shown.words == words) {
            return false;
        }
        *shown = Some(Shown { words: words.to_owned(), at: Instant::now() });
        true
    }

    /// Returns whether the same step was drawn long enough ago.
    fn is_due(&self) -> bool {
        let mut shown = self.shown.borrow_mut();
        let Some(shown) = shown.as_mut().filter(|shown| shown.at.elapsed() >= PAUSE) else {
            return false;
        };
        shown.at = Instant::now();
        true
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns whether a line can be written over.
fn is_drawn() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(USUAL_COLUMNS, |size| match size.ws_col {
        0 => USUAL_COLUMNS,
        columns => columns.into(),
    })
}

/// Draws a line in the place of the last one. A line that is too long is cut, since a terminal that
/// wraps it could not write over it.
fn draw(line: &str) {
    let cut: String = line.chars().take(columns().saturating_sub(1)).collect();
    notify::put(format_args!("\r\x1b[K{cut}"));
}

fn with_bar(words: &str, detail: &str, share: Share, columns: usize) -> String {
    let others = format!("pinfold: {words} [] {detail}").chars().count();
    let room = columns.saturating_sub(others + 1).min(WIDEST_BAR);
    if room < NARROWEST_BAR {
        return format!("pinfold: {words}: {detail}");
    }
    let filled = share.of_columns(room);
    let bar = "#".repeat(filled) + &".".repeat(room - filled);
    format!("pinfold: {words} [{bar}] {detail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_shows_the_share_in_the_room_that_is_left() {
        let line = |done, columns| with_bar("unpacking", "x of y", Share { done, of: 20 }, columns);
        assert_eq!(line(10, 40), "pinfold: unpacking [#####......] x of y");
        assert_eq!(line(10, 200), format!("pinfold: unpacking [{:#>15}{:.>15}] x of y", "", ""));
        assert_eq!(line(10, 30), "pinfold: unpacking: x of y");
        assert!(line(19, 40).chars().count() < 40);
    }

    #[test]
    fn share_of_nothing_or_too_much_fills_no_more_than_the_bar() {
        assert_eq!(Share { done: 3, of: 0 }.of_columns(10), 0);
        assert_eq!(Share { done: 30, of: 20 }.of_columns(10), 10);
        assert_eq!(Share { done: u64::MAX, of: u64::MAX }.of_columns(10), 10);
    }

    #[test]
    fn step_begins_once() {
        let line = ProgressLine::default();
        assert!(line.begins("a") && !line.begins("a") && line.begins("b") && line.begins("a"));
    }
}
