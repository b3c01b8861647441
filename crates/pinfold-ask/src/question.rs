//! Asking at the terminal that started the session.

use std::io;

use pinfold_host::io::small_thread;
use pinfold_terminal::page::{at_the_top, wrap};
use pinfold_terminal::prompt_overlay::{Held, Keys, Passage, Typed};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::approvals::{Answer, Approvals, Approver, Pending};
use crate::question_text::{lines_of, title_of};
use parking_lot::Mutex;

/// How long nothing may have been typed before a key answers: who types on is not looking, and what
/// was typed before the question is no answer to it.
const QUIET: Duration = Duration::from_millis(700);
/// How soon it is noticed that somebody else has answered, or that the window has another size.
const LOOK: Duration = Duration::from_millis(100);

/// Who asks at the terminal.
#[derive(Debug)]
pub(crate) struct Question {
    passage: Arc<Passage>,
    /// Held while the terminal is there to be asked at.
    approver: Mutex<Option<Approver>>,
    is_over: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What a user does at a question.
enum Done {
    Answered(Answer),
    /// All that wait are denied.
    DenyAll,
    /// Somebody else has answered, or the time is over.
    Settled,
}

impl Question {
    /// Makes the questions of this terminal.
    pub(crate) fn new(passage: Arc<Passage>) -> Self {
        let (approver, thread) = (Mutex::default(), Mutex::default());
        Self { passage, approver, is_over: AtomicBool::new(false), thread }
    }

    /// Sees whether somebody can be asked here now.
    pub(crate) fn presence(&self, approvals: &Arc<Approvals>) {
        let mut approver = self.approver.lock();
        let is_there = self.passage.is_foreground() && !self.is_over.load(Ordering::Relaxed);
        if is_there && approver.is_none() {
            // A user who cannot be woken cannot be asked.
            *approver = approvals.attend().ok();
        } else if !is_there {
            let gone = approver.take();
            drop(approver);
            drop(gone);
        }
    }

    /// Asks from now on, as requests come.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub(crate) fn start(self: &Arc<Self>, approvals: &Arc<Approvals>) -> io::Result<()> {
        let (question, approvals) = (Arc::clone(self), Arc::clone(approvals));
        let asking = small_thread("ask", move || question.ask_all(&approvals))?;
        *self.thread.lock() = Some(asking);
        Ok(())
    }

    /// Asks no more. The screen is given back when this returns.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.passage.end();
        let asking = self.thread.lock().take();
        if let Some(asking) = asking {
            // A panic in it has been reported by its own thread.
            let _ = asking.join();
        }
    }

    fn ask_all(&self, approvals: &Arc<Approvals>) {
        while !self.is_over.load(Ordering::Relaxed) {
            if !approvals.wait_for_request(LOOK * 10) {
                continue;
            }
            self.presence(approvals);
            if !self.passage.is_foreground() {
                // Another approver may answer; the job may come back.
                approvals.wait(LOOK * 10);
                continue;
            }
            let Some(held) = self.passage.hold(Keys::ToHolder) else { return };
            held.open();
            while let Some(pending) = approvals.pending().into_iter().next() {
                if held.is_recalled() || !self.passage.is_foreground() {
                    break;
                }
                match self.ask(&held, &pending, approvals) {
                    Done::Settled => {}
                    // It may have been answered since, which is fine.
                    Done::Answered(answer) => {
                        drop(approvals.answer(pending.id, answer, "terminal"));
                    }
                    Done::DenyAll => {
                        for pending in approvals.pending() {
                            let deny = Answer::Deny { reason: None };
                            drop(approvals.answer(pending.id, deny, "terminal"));
                        }
                    }
                }
            }
        }
    }

    fn ask(&self, held: &Held<'_>, pending: &Pending, approvals: &Approvals) -> Done {
        let mut page = Page::default();
        let mut drawn = None;
        let mut quiet_since = Instant::now();
        loop {
            let waiting = approvals.pending();
            if held.is_recalled() || !waiting.iter().any(|it| it.id == pending.id) {
                return Done::Settled;
            }
            page.is_ready = quiet_since.elapsed() >= QUIET;
            let room = held.size();
            let look = (room, waiting.len(), page.number, page.is_ready);
            if drawn != Some(look) {
                held.draw(draw(pending, waiting.len(), room, &mut page).as_bytes());
                drawn = Some(look);
            }
            let Some(typed) = held.typed(LOOK) else { continue };
            let is_early = typed.at.duration_since(quiet_since) < QUIET;
            match key(&typed, &page, pending) {
                Key::Answer(done) if !is_early && page.is_ready => return done,
                Key::Turn(number) if !is_early && page.is_ready => page.number = number,
                Key::Answer(_) | Key::Turn(_) | Key::Nothing => quiet_since = typed.at,
            }
        }
    }
}

/// Rows and columns below which no question is put.
const SMALLEST: (usize, usize) = (6, 20);

/// What of a question is seen.
#[derive(Default)]
struct Page {
    number: usize,
    /// Rows and columns of the window.
    room: (usize, usize),
    /// Whether it has room for a question.
    is_shown: bool,
    /// Whether the last page was shown: nothing is approved that was not.
    has_seen_all: bool,
    is_ready: bool,
}

enum Key {
    Answer(Done),
    Turn(usize),
    Nothing,
}

/// Returns what a key means. Only one that came alone is one: a paste or an escape sequence comes whole.
fn key(typed: &Typed, page: &Page, pending: &Pending) -> Key {
    const CTRL_C: u8 = 3;
    let [byte] = typed.bytes[..] else { return Key::Nothing };
    let answer = |answer| Key::Answer(Done::Answered(answer));
    let has_seen_all = page.has_seen_all && page.is_shown;
    match byte {
        b'n' | b'N' | CTRL_C => answer(Answer::Deny { reason: None }),
        b'd' | b'D' => Key::Answer(Done::DenyAll),
        b' ' if page.is_shown && !has_seen_all => Key::Turn(page.number + 1),
        b'b' if page.number > 0 => Key::Turn(page.number - 1),
        b'y' | b'Y' if has_seen_all => answer(Answer::Once),
        b's' | b'S' if has_seen_all => answer(Answer::Session),
        b'a' | b'A' if has_seen_all && pending.rule.is_some() => answer(Answer::Always),
        _ => Key::Nothing,
    }
}

/// Returns the question as bytes for the terminal. Nothing of it scrolls.
fn draw(pending: &Pending, waiting: usize, room: (usize, usize), page: &mut Page) -> String {
    let (rows, columns) = room;
    if page.room != room {
        // Its pages are others: what was seen of the old ones is not all of these.
        let is_ready = page.is_ready;
        *page = Page { room, is_ready, ..Page::default() };
    }
    page.is_shown = rows >= SMALLEST.0 && columns >= SMALLEST.1;
    if !page.is_shown {
        let mut lines = Vec::new();
        wrap("pinfold asks: enlarge the window  [n]o", "", columns, &mut lines);
        return at_the_top(&lines, rows);
    }
    let mut body = Vec::new();
    let mut said = lines_of(pending).into_iter();
    said.next().into_iter().for_each(|first| wrap(&first, "  ", columns, &mut body));
    body.push(String::new());
    said.for_each(|line| wrap(&line, "  ", columns, &mut body));
    let room = rows - 5;
    let pages = body.len().div_ceil(room).max(1);
    page.number = page.number.min(pages - 1);
    page.has_seen_all |= page.number + 1 == pages;
    let more = if waiting > 1 { format!(" ({} more wait)", waiting - 1) } else { String::new() };
    let mut lines = Vec::new();
    wrap(&format!("pinfold: {}{more}", title_of(pending)), "", columns, &mut lines);
    lines.truncate(1);
    lines.push(String::new());
    lines.extend(body.into_iter().skip(page.number * room).take(room));
    let always = if pending.rule.is_some() { "  [a]lways" } else { "" };
    let all = if waiting > 1 { "  [d]eny all" } else { "" };
    let prompt = match (page.is_ready, page.has_seen_all) {
        (false, _) => "…".to_owned(),
        (true, true) => format!("[y]es, once  [s]ession{always}  [n]o{all}"),
        (true, false) => {
            format!("page {} of {pages}: [space] goes on  [n]o{all}", page.number + 1)
        }
    };
    let mut prompts = Vec::new();
    wrap(&prompt, "", columns, &mut prompts);
    lines.push(String::new());
    lines.extend(prompts);
    at_the_top(&lines, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::Subject;

    fn pending(command: &str) -> Pending {
        Pending {
            id: 1,
            subject: Subject::Command {
                executable: "gh".to_owned(),
                command: command.to_owned(),
                cwd: "/ws".to_owned(),
            },
            details: Vec::new(),
            rule: None,
        }
    }

    fn typed(bytes: &[u8]) -> Typed {
        Typed { at: Instant::now(), bytes: bytes.to_vec() }
    }

    #[test]
    fn nothing_is_approved_that_was_not_shown_to_its_end() {
        let long = pending(&"x".repeat(5000));
        let mut page = Page { is_ready: true, ..Page::default() };
        let mut turns = 0;
        loop {
            let shown = draw(&long, 1, (10, 40), &mut page);
            assert!(shown.matches("\x1b[").count() <= 11 && !shown.contains('\n'), "{shown:?}");
            if page.has_seen_all {
                break;
            }
            assert!(matches!(key(&typed(b"y"), &page, &long), Key::Nothing));
            let Key::Turn(next) = key(&typed(b" "), &page, &long) else { panic!("no page") };
            page.number = next;
            turns += 1;
        }
        assert!(turns > 20);
        assert!(matches!(
            key(&typed(b"y"), &page, &long),
            Key::Answer(Done::Answered(Answer::Once))
        ));
    }

    #[test]
    fn a_window_without_room_for_a_question_approves_nothing() {
        let short = pending("gh pr create");
        let mut page = Page { is_ready: true, ..Page::default() };
        for size in [(1, 80), (2, 80), (5, 80), (24, 19), (24, 1)] {
            let shown = draw(&short, 1, size, &mut page);
            assert!(!shown.contains("[y]es"), "{size:?}: {shown:?}");
            for typed_key in [b"y", b"s", b"a", b" "] {
                assert!(matches!(key(&typed(typed_key), &page, &short), Key::Nothing), "{size:?}");
            }
            assert!(matches!(key(&typed(b"n"), &page, &short), Key::Answer(_)), "{size:?}");
        }
        // Every size with room shows the whole of it before it can be approved.
        for size in [(6, 20), (6, 80), (7, 24), (24, 80)] {
            let (mut page, mut seen) = (Page { is_ready: true, ..Page::default() }, String::new());
            while !page.has_seen_all {
                seen.push_str(&draw(&short, 1, size, &mut page));
                page.number += 1;
            }
            assert!(seen.contains("gh pr create") && seen.contains("in /ws"), "{size:?}: {seen:?}");
            draw(&short, 1, (2, 80), &mut page);
            assert!(matches!(key(&typed(b"y"), &page, &short), Key::Nothing));
        }
    }

    #[test]
    fn question_is_drawn_again_when_the_window_size_changes() {
        let long = pending(&"x".repeat(2000));
        let mut page = Page { is_ready: true, ..Page::default() };
        for _ in 0..3 {
            draw(&long, 1, (10, 40), &mut page);
            page.number += 1;
        }
        draw(&long, 1, (30, 40), &mut page);
        assert!(page.number == 0 && !page.has_seen_all);
        // Seen to its end in one size, it is so in another when it was shown there.
        while !page.has_seen_all {
            page.number += 1;
            draw(&long, 1, (30, 40), &mut page);
        }
        draw(&long, 1, (12, 40), &mut page);
        assert!(matches!(key(&typed(b"y"), &page, &long), Key::Nothing));
    }

    #[test]
    fn pastes_and_escape_sequences_are_no_keys() {
        let page = Page { is_shown: true, has_seen_all: true, is_ready: true, ..Page::default() };
        let short = pending("gh");
        for bytes in [&b"yes"[..], b"\x1b[My!!", b"\x1b[200~y\x1b[201~", b"y\r", b"\r", b"a", b""] {
            assert!(matches!(key(&typed(bytes), &page, &short), Key::Nothing), "{bytes:?}");
        }
        let deny = key(&typed(&[3]), &page, &short);
        assert!(matches!(deny, Key::Answer(Done::Answered(Answer::Deny { .. }))));
    }
}
