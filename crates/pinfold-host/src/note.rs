//! What a user reads at the end of a session, in a few lines.

use std::borrow::Cow;

use pinfold_policy::path::cut;

/// Lines that are shown as they are.
const FEW: usize = 5;
/// Warnings that are shown.
const MOST_WARNINGS: usize = 64;
/// Things of one topic that are named on its line.
const MOST_NAMED: usize = 12;
/// Bytes of a name or a reason on such a line.
const LONGEST_WORDS: usize = 120;
/// Bytes of such a line, after which only the next name is shown.
const LONGEST_LINE: usize = 800;

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
    /// What the user can do about it, said once.
    hint: Option<&'static str>,
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

    /// Makes a note about a thing by name: `verdict: name: reason`, without the reason if there is none.
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
        Self { topic, text, brief: Some(Brief { verdict, name, reason, hint: None }) }
    }

    /// Has it say `name` among others on one line, and `hint` once at the end of the line.
    #[must_use]
    pub fn in_brief(mut self, name: String, hint: &'static str) -> Self {
        if let Some(brief) = &mut self.brief {
            (brief.name, brief.hint) = (name, Some(hint));
        }
        self
    }
}

/// Returns the lines to show for these notes: all of them if they are few. Else each warning has its line, and each
/// other topic has one, on which things are named up to a bound. `details` is the command that shows the rest.
pub fn summary<'n>(notes: &'n [Note], details: &str) -> Vec<Cow<'n, str>> {
    if notes.len() <= FEW {
        return notes.iter().map(|note| note.text.as_str().into()).collect();
    }
    let about = |topic| notes.iter().filter(move |note| note.topic == topic);
    let warnings = about(Topic::Warning).take(MOST_WARNINGS);
    let mut lines: Vec<Cow<'n, str>> = warnings.map(|note| note.text.as_str().into()).collect();
    let more = about(Topic::Warning).count().saturating_sub(MOST_WARNINGS);
    if more > 0 {
        lines.push(format!("{more} more warnings: `{details}` has what was recorded").into());
    }
    for topic in [Topic::Changed, Topic::Waiting, Topic::Refused, Topic::Usage] {
        let about: Vec<&Note> = about(topic).collect();
        lines.extend(match about.as_slice() {
            [] => None,
            [one] => Some(one.text.as_str().into()),
            // A sandbox can ask for anything.
            [first, more @ ..] if topic == Topic::Refused => {
                let more = more.len();
                Some(format!("{} (and {more} more: `{details}` lists them)", first.text).into())
            }
            several => Some(joined(several, details).into()),
        });
    }
    lines
}

/// Names with the reason that they have in common.
struct Group<'n> {
    /// The words in front, or all words of a note that has no name.
    verdict: &'n str,
    names: Vec<Cow<'n, str>>,
    reason: &'n str,
}

/// Returns one line for all notes of a topic.
fn joined(notes: &[&Note], details: &str) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let (mut shown, mut length, mut hint) = (0, 0, None);
    for note in notes.iter().take(MOST_NAMED) {
        if length > LONGEST_LINE {
            break;
        }
        shown += 1;
        let Some(Brief { verdict, name, reason, .. }) = &note.brief else {
            length += note.text.len();
            groups.push(Group { verdict: &note.text, names: Vec::new(), reason: "" });
            continue;
        };
        hint = hint.or(note.brief.as_ref().and_then(|brief| brief.hint));
        let name = cut(name, LONGEST_WORDS);
        length += name.len();
        match groups.iter_mut().find(|group| group.verdict == *verdict && group.reason == reason) {
            Some(group) => group.names.push(name),
            None => {
                length += verdict.len() + reason.len().min(LONGEST_WORDS);
                groups.push(Group { verdict, names: vec![name], reason });
            }
        }
    }
    let mut line = String::new();
    let mut before = None;
    for Group { verdict, names, reason } in groups {
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
            line.push_str(&cut(reason, LONGEST_WORDS));
        }
        before = Some(verdict);
    }
    let more = notes.len() - shown;
    if more > 0 {
        line.push_str(&format!("; and {more} more: `{details}` has what was recorded"));
    }
    if let Some(hint) = hint {
        line.push_str(&format!(" ({hint})"));
    }
    line
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
        notes.push(kept("d", "").in_brief("d (set aside)".to_owned(), "`adopt` puts it back"));
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
                 d (set aside) (`adopt` puts it back)",
                "refused: 0 (and 8 more: `pinfold audit` lists them)",
                "used 1 model request",
            ]
        );
    }

    #[test]
    fn every_warning_has_its_line() {
        let notes: Vec<Note> = (0..70).map(|number| Note::warning(number.to_string())).collect();
        let shown = lines(&notes);
        assert_eq!(shown.len(), MOST_WARNINGS + 1);
        assert_eq!(shown[MOST_WARNINGS], "6 more warnings: `pinfold audit` has what was recorded");
    }

    #[test]
    fn a_flood_of_names_or_a_long_one_hides_no_count() {
        let notes: Vec<Note> = (0..72).map(|number| kept(&number.to_string(), "it runs")).collect();
        let line = lines(&notes).concat();
        assert!(
            line.contains("0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: it runs; and 60 more: `"),
            "{line}"
        );
        let long = |number: u32| kept(&format!("{number}{}", "x".repeat(4000)), &"y".repeat(500));
        let notes: Vec<Note> = (0..8).map(long).collect();
        let line = lines(&notes).concat();
        assert!(line.len() < 1024 && line.contains("more: `pinfold audit` has"), "{line}");
    }
}
