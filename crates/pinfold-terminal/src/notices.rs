//! Urgent notices over the screen of a program that owns it: shown for a few seconds, then the program's screen is
//! as it was.
//!
//! A line in between would be lost in the program's next drawing, or spoil it. Keys reach the program all the time.

pub mod attached;
mod page;

use std::sync::Arc;

use parking_lot::Mutex;
use pinfold_host::io::small_thread;
use pinfold_policy::path::{cut, plain_line};

use crate::prompt_overlay::{Held, Keys, Passage};
use page::{LOOK, Page, is_key};

/// Notices that one session shows: a sandbox can cause them, and each takes the screen.
const MOST: usize = 3;

/// Longest notice, in bytes.
const LONGEST: usize = 1024;

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
        let mut state = self.state.lock();
        if state.shown == MOST {
            return;
        }
        state.shown += 1;
        state.lines.push(shown(words));
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
            let mut state = self.state.lock();
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
        let mut page = Page::new(Vec::new());
        loop {
            page.set(self.state.lock().lines.clone());
            if held.is_recalled() || !self.passage.is_foreground() {
                return page.len();
            }
            if let Some(drawing) = page.draw(held.size()) {
                held.draw(drawing.as_bytes());
            }
            let typed = held.typed(LOOK);
            if page.is_over(typed.is_some_and(|typed| is_key(&typed.bytes))) {
                return page.len();
            }
        }
    }
}

/// Returns a notice as it is shown: one line, of bounded length, that drives no terminal.
fn shown(words: &str) -> String {
    cut(&plain_line(words), LONGEST).into_owned()
}

#[cfg(test)]
mod tests;
