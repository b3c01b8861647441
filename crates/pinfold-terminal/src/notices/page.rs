//! Notices on a screen: what is drawn of them, and how long they stay.

use std::time::{Duration, Instant};

use crate::page::{at_the_top, wrap};

/// How long a notice is shown if no key is pressed.
const SHOWN: Duration = Duration::from_secs(8);

/// How long a notice is shown at least: a key that was meant for the program must not take it away unread.
const AT_LEAST: Duration = Duration::from_secs(2);

/// How often the size of the window is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// What is said below.
const HINT: &str = "The sandbox goes on; its screen is back in a few seconds, or after a key.";

/// The notices that are on a screen now.
#[derive(Debug)]
pub(crate) struct Page {
    lines: Vec<String>,
    since: Instant,
    drawn: Option<Drawn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Drawn {
    /// Rows and columns.
    size: (usize, usize),
    lines: usize,
}

impl Page {
    pub(crate) fn new(lines: Vec<String>) -> Self {
        Self { lines, since: Instant::now(), drawn: None }
    }

    /// Replaces the notices, to which some were added.
    pub(crate) fn set(&mut self, lines: Vec<String>) {
        self.lines = lines;
    }

    pub(crate) fn add(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns what draws the page, if it changed or the window has another size. A new notice rings the bell, and its
    /// time begins.
    pub(crate) fn draw(&mut self, size: (usize, usize)) -> Option<String> {
        let now = Drawn { size, lines: self.lines.len() };
        if self.drawn == Some(now) {
            return None;
        }
        let is_new = self.drawn.is_none_or(|drawn| drawn.lines < now.lines);
        self.drawn = Some(now);
        if is_new {
            self.since = Instant::now();
        }
        let bell = if is_new { "\x07" } else { "" };
        Some(format!("{}{bell}", text(&self.lines, size)))
    }

    /// Returns whether the page was there long enough.
    pub(crate) fn is_over(&self, has_key: bool) -> bool {
        let shown = self.since.elapsed();
        shown >= SHOWN || shown >= AT_LEAST && has_key
    }
}

/// Returns whether somebody pressed a key: terminals also answer and report by sequences, which begin
/// with ESC.
pub(crate) fn is_key(typed: &[u8]) -> bool {
    typed.len() == 1 || typed.first().is_some_and(|first| *first != 0x1b)
}

fn text(notices: &[String], room: (usize, usize)) -> String {
    let (rows, columns) = room;
    let mut lines = Vec::new();
    for notice in notices {
        wrap(&format!("pinfold: {notice}"), "", columns, &mut lines);
        lines.push(String::new());
    }
    wrap(HINT, "", columns, &mut lines);
    at_the_top(&lines, rows)
}

#[cfg(test)]
mod tests;
