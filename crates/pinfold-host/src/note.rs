//! What a user reads at the end of a session, in a few lines.

use std::borrow::Cow;

use pinfold_policy::path::cut;

/// Lines that are shown.
const FEW: usize = 5;
/// Things of one topic that are named on its line.
const MOST_NAMED: usize = 16;
/// Bytes of a name or a reason on such a line.
const LONGEST_WORDS: usize = 400;
/// Bytes of names and reasons on such a line. Reasons are left out first.
const LONGEST_LINE: usize = 1200;

/// What a note is about. Notes are summarized by topic, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Something the user has to look at.
    Warning,
    /// What changed on the host.
    Changed,
    /// What the host did not take, or what waits for a decision.
    Waiting,
    /// What the sandbox asked for and did not get.
    Refused,
    /// What the session used of models.
    Usage,
}

/// One thing that the user should know at the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub topic: Topic,
    /// The words, on one line.
    pub text: String,
    /// The same among others on one line.
    brief: Option<Brief>,
}

/// A note in few words, which others with the same verdict and reason are joined to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Brief {
    verdict: &'static str,
    name: String,
    reason: String,
    /// What the user can do about it, said once for all that have the same.
    hints: Vec<String>,
}

impl Note {
    /// Makes a note about a topic.
    pub fn new(topic: Topic, text: impl Into<String>) -> Self {
        Self { topic, text: text.into(), brief: None }
    }

    /// Makes a note about something that the user has to look at.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Topic::Warning, text)
    }

    /// Makes a note about a thing by name: `verdict: name: reason`, or `verdict: name`.
    pub fn named(
        topic: Topic,
        verdict: &'static str,
        name: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let (name, reason) = (name.into(), reason.into());
        let text = match reason.as_str() {
            "" => format!("{verdict}: {name}"),
            reason => format!("{verdict}: {name}: {reason}"),
        };
        Self { topic, text, brief: Some(Brief { verdict, name, reason, hints: Vec::new() }) }
    }

    /// Has it say other words among others on one line, and the hints once at the end of the line.
    #[must_use]
    pub fn in_brief(mut self, name: String, reason: String, hints: Vec<String>) -> Self {
        if let Some(brief) = self.brief.take() {
            self.brief = Some(Brief { name, reason, hints, ..brief });
        }
        self
    }
}

/// Returns at most five lines to show for these notes: all of them if they are so few. Else each topic has a line, on
/// which things are named up to a bound, and warnings have the lines that are left, the last for all that have none of their
/// own. `details` is the command that shows the rest.
pub fn summary<'n>(notes: &'n [Note], details: &str) -> Vec<Cow<'n, str>> {
    if notes.len() <= FEW {
        return notes.iter().map(|note| note.text.as_str().into()).collect();
    }
    let about =
        |topic| -> Vec<&'n Note> { notes.iter().filter(|note| note.topic == topic).collect() };
    let topics = [Topic::Changed, Topic::Waiting, Topic::Refused, Topic::Usage];
    let others: Vec<Cow<'n, str>> = topics
        .into_iter()
        .filter_map(|topic| match about(topic).as_slice() {
            // A sandbox can ask for anything.
            [first, more @ ..] if topic == Topic::Refused && !more.is_empty() => {
                let more = more.len();
                Some(format!("{} (and {more} more: `{details}` lists them)", first.text).into())
            }
            notes => one_line(notes, details),
        })
        .collect();
    let warnings = about(Topic::Warning);
    let room = FEW - others.len();
    let own = if warnings.len() <= room { warnings.len() } else { room - 1 };
    let (own, together) = warnings.split_at(own);
    let own = own.iter().map(|note| note.text.as_str().into());
    own.chain(one_line(together, details)).chain(others).collect()
}

/// Returns the line for notes of one topic, or none if there are no notes.
fn one_line<'n>(notes: &[&'n Note], details: &str) -> Option<Cow<'n, str>> {
    match notes {
        [] => None,
        [one] => Some(one.text.as_str().into()),
        several => Some(joined(several, details).into()),
    }
}

/// Returns one line for all notes of a topic: with their reasons, or without if that would be too long.
fn joined(notes: &[&Note], details: &str) -> String {
    let whole = Line::of(notes, Reasons::Shown);
    let line = if whole.left == 0 { whole } else { Line::of(notes, Reasons::LeftOut) };
    let mut text = line.text();
    match line.left {
        0 if line.has_reasons => {}
        0 => text.push_str(&format!("; `{details}` says why")),
        more => text.push_str(&format!("; and {more} more: `{details}` has what was recorded")),
    }
    let mut hints: Vec<&String> = Vec::new();
    for hint in notes.iter().filter_map(|note| note.brief.as_ref()).flat_map(|brief| &brief.hints) {
        if !hints.contains(&hint) {
            hints.push(hint);
            text.push_str("; ");
            text.push_str(hint);
        }
    }
    text
}

/// Whether a line has the reasons of what it names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reasons {
    Shown,
    LeftOut,
}

/// One line for several notes.
struct Line<'n> {
    groups: Vec<Group<'n>>,
    has_reasons: bool,
    /// Notes for which there was no room.
    left: usize,
}

/// Names with the reason that they have in common.
struct Group<'n> {
    /// The words in front, or all words of a note that has no name.
    verdict: &'n str,
    names: Vec<Cow<'n, str>>,
    reason: Cow<'n, str>,
}

impl<'n> Line<'n> {
    fn of(notes: &[&'n Note], reasons: Reasons) -> Self {
        let mut groups: Vec<Group<'n>> = Vec::new();
        let (mut left, mut length) = (notes.len(), 0);
        for note in notes.iter().take(MOST_NAMED) {
            let (verdict, name, reason) = match &note.brief {
                Some(Brief { verdict, name, reason, .. }) => {
                    (*verdict, name.as_str(), reason.as_str())
                }
                None => (note.text.as_str(), "", ""),
            };
            let reason = if reasons == Reasons::Shown { reason } else { "" };
            let (name, reason) = (cut(name, LONGEST_WORDS), cut(reason, LONGEST_WORDS));
            let is_like =
                |group: &&mut Group<'_>| group.verdict == verdict && group.reason == reason;
            let group = groups.iter_mut().find(is_like);
            let more = if group.is_some() { 0 } else { verdict.len() + reason.len() };
            length += name.len() + more;
            // There is room for the first one, whatever its length is.
            if length > LONGEST_LINE && left < notes.len() {
                break;
            }
            left -= 1;
            match group {
                Some(group) => group.names.push(name),
                None if name.is_empty() => {
                    groups.push(Group { verdict, names: Vec::new(), reason })
                }
                None => groups.push(Group { verdict, names: vec![name], reason }),
            }
        }
        Self { groups, has_reasons: reasons == Reasons::Shown, left }
    }

    fn text(&self) -> String {
        let mut line = String::new();
        let mut before = None;
        for Group { verdict, names, reason } in &self.groups {
            if before.is_some() {
                line.push_str("; ");
            }
            if before != Some(verdict) {
                line.push_str(verdict);
                line.push_str(if names.is_empty() { "" } else { ": " });
            }
            line.push_str(&names.join(", "));
            if !reason.is_empty() {
                line.push_str(": ");
                line.push_str(reason);
            }
            before = Some(verdict);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(notes: &[Note]) -> Vec<String> {
        summary(notes, "pinfold audit").into_iter().map(Cow::into_owned).collect()
    }

    fn kept(name: &str, why: &str) -> Note {
        Note::named(Topic::Waiting, "not taken over", name, why)
    }

    #[test]
    fn few_notes_are_shown_in_their_order() {
        let notes = [Note::new(Topic::Refused, "one"), Note::warning("two"), kept("a", "it runs")];
        assert_eq!(lines(&notes), ["one", "two", "not taken over: a: it runs"]);
    }

    #[test]
    fn each_topic_takes_one_line_and_names_what_there_is_to_decide_on() {
        let refused = (0..9).map(|number| Note::new(Topic::Refused, format!("refused: {number}")));
        let mut notes: Vec<Note> = refused.collect();
        notes.push(Note::new(Topic::Waiting, "the rest waits: `pinfold diff` shows it"));
        notes.extend([kept("a", "it runs"), kept("b", "it leads out"), kept("c", "it runs")]);
        let hints = vec!["`adopt` puts it back".to_owned()];
        let aside = |name: &str| format!("{name} (set aside)");
        notes.push(kept("d", "e").in_brief(aside("d"), "e".to_owned(), hints.clone()));
        notes.push(kept("f", "e").in_brief(aside("f"), "e".to_owned(), hints));
        notes.push(Note::new(Topic::Changed, "applied 2 paths"));
        notes.push(Note::named(Topic::Changed, "taken over", "new repository e", ""));
        notes.push(Note::warning("rotate a"));
        notes.push(Note::new(Topic::Usage, "used 1 model request"));
        assert_eq!(
            lines(&notes),
            [
                "rotate a",
                "applied 2 paths; taken over: new repository e",
                "the rest waits: `pinfold diff` shows it; not taken over: a, c: it runs; b: it leads out; \
                 d (set aside), f (set aside): e; `adopt` puts it back",
                "refused: 0 (and 8 more: `pinfold audit` lists them)",
                "used 1 model request",
            ]
        );
    }

    #[test]
    fn warnings_have_the_lines_that_are_left_and_share_the_last() {
        let warning = |number: u32| Note::warning(format!("rotate {number}"));
        let mut notes: Vec<Note> = (0..4).map(warning).collect();
        notes.extend([Note::new(Topic::Changed, "applied 2 paths"), kept("a", "it runs")]);
        assert_eq!(
            lines(&notes),
            [
                "rotate 0",
                "rotate 1",
                "rotate 2; rotate 3",
                "applied 2 paths",
                "not taken over: a: it runs"
            ]
        );
        let many: Vec<Note> = (0..70).map(warning).collect();
        let shown = lines(&many);
        assert_eq!((shown.len(), shown[3].as_str()), (FEW, "rotate 3"));
        assert!(shown[4].starts_with("rotate 4; rotate 5; "), "{}", shown[4]);
        assert!(
            shown[4].ends_with("50 more: `pinfold audit` has what was recorded"),
            "{}",
            shown[4]
        );
    }

    #[test]
    fn a_flood_of_names_or_a_long_one_hides_no_count() {
        let notes: Vec<Note> = (0..72).map(|number| kept(&number.to_string(), "it runs")).collect();
        let line = lines(&notes).concat();
        assert!(line.contains("0, 1, 2, 3,") && line.contains("15; and 56 more: `"), "{line}");
        let long = |number: u32| kept(&format!("{number}{}", "x".repeat(4000)), &"y".repeat(500));
        let notes: Vec<Note> = (0..8).map(long).collect();
        let line = lines(&notes).concat();
        assert!(line.len() < 2048 && line.contains("more: `pinfold audit` has"), "{line}");
    }

    #[test]
    fn reasons_are_left_out_before_names_are() {
        let why = |number: u32| format!("{number}{}", "y".repeat(300));
        let notes: Vec<Note> =
            (0..16).map(|number| kept(&format!("n{number}"), &why(number))).collect();
        let line = lines(&notes).concat();
        assert!(
            line.contains("n0, n1, n2,") && line.ends_with("n15; `pinfold audit` says why"),
            "{line}"
        );
    }
}
