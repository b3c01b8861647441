//! Urgent notices over the screen of a program that owns it: shown for a few seconds, then the program's screen is
//! as it was.
//!
//! A line in between would be lost in the program's next drawing, or spoil it. Keys reach the program all the time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinfold_host::io::{lock, small_thread};
use pinfold_policy::path::{cut, plain_line};

use crate::page::{at_the_top, wrap};
use crate::prompt_overlay::{Held, Keys, Passage, Typed};

/// How long a notice is shown if no key is pressed.
const SHOWN: Duration = Duration::from_secs(8);

/// How long a notice is shown at least: a key that was meant for the program must not take it away unread.
const AT_LEAST: Duration = Duration::from_secs(2);

/// How often the size of the window is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Notices that one session shows: a sandbox can cause them, and each takes the screen.
const MOST: usize = 3;

/// Longest notice, in bytes.
const LONGEST: usize = 1024;

/// What is said below.
const HINT: &str = "The sandbox goes on; its screen is back in a few seconds, or after a key.";

/// The urgent notices of one session.
#[derive(Debug)]
pub struct Notices {
    passage: Arc<Passage>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those on the screen, or waiting for it.
    lines: Vec<String>,
    shown: usize,
    /// Whether a thread shows them.
    has_thread: bool,
}

impl Notices {
    /// Shows notices on this terminal.
    pub fn new(passage: Arc<Passage>) -> Self {
        Self { passage, state: Mutex::default() }
    }

    /// Shows one line over the screen, without waiting for it. Nothing is shown while another job has the terminal, nor
    /// after the third notice.
    pub fn show(self: &Arc<Self>, words: &str) {
        if !self.passage.is_foreground() {
            return;
        }
        let mut state = lock(&self.state);
        if state.shown == MOST {
            return;
        }
        state.shown += 1;
        state.lines.push(cut(&plain_line(words), LONGEST).into_owned());
        if state.has_thread {
            return;
        }
        let notices = Arc::clone(self);
        // Without a thread, the end of the run says it.
        state.has_thread = small_thread("notices", move || notices.run()).is_ok();
    }

    /// Shows all that wait, and what comes while they are shown.
    fn run(&self) {
        loop {
            let held = self.passage.hold(Keys::ToSandbox);
            let seen = held.as_ref().map(|held| {
                held.open();
                self.on_screen(held)
            });
            drop(held);
            let mut state = lock(&self.state);
            // Nothing is shown after the end of the session.
            let seen = seen.unwrap_or(state.lines.len());
            state.lines.drain(..seen);
            if state.lines.is_empty() {
                state.has_thread = false;
                return;
            }
        }
    }

    /// Returns how many of the lines are done with.
    fn on_screen(&self, held: &Held<'_>) -> usize {
        let mut since = Instant::now();
        let (mut drawn, mut rung) = (None, 0);
        loop {
            let lines = lock(&self.state).lines.clone();
            if held.is_recalled() || !self.passage.is_foreground() {
                return lines.len();
            }
            let is_new = lines.len() > rung;
            let look = (held.size(), lines.len());
            if drawn != Some(look) {
                let bell = if is_new { "\x07" } else { "" };
                held.draw(format!("{}{bell}", page(&lines, look.0)).as_bytes());
                (drawn, rung) = (Some(look), lines.len());
            }
            if is_new {
                since = Instant::now();
            }
            let typed = held.typed(LOOK);
            let shown = since.elapsed();
            if shown >= SHOWN || shown >= AT_LEAST && typed.as_ref().is_some_and(is_key) {
                return lines.len();
            }
        }
    }
}

/// Returns whether somebody pressed a key: terminals also answer and report by sequences, which begin
/// with ESC.
fn is_key(typed: &Typed) -> bool {
    typed.bytes.len() == 1 || typed.bytes.first().is_some_and(|first| *first != 0x1b)
}

fn page(notices: &[String], (rows, columns): (usize, usize)) -> String {
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
