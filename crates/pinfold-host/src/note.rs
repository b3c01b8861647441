//! What a user reads at the end of a session, in a few lines.

use std::borrow::Cow;

/// Lines that are shown as they are.
const FEW: usize = 5;
/// Notes of one topic that are shown.
const MOST: usize = 64;

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
}

impl Note {
    /// Makes a note about a topic.
    pub fn new(topic: Topic, text: impl Into<String>) -> Self {
        Self { topic, text: text.into() }
    }

    /// Makes a note about something that the user has to look at.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Topic::Warning, text)
    }
}

/// Returns the lines to show for these notes: all of them if they are few. Else one line says what was refused, since
/// a sandbox can ask for anything. What the user has to decide about is always named, up to a bound. `details` is the
/// command that shows the rest.
pub fn summary<'n>(notes: &'n [Note], details: &str) -> Vec<Cow<'n, str>> {
    if notes.len() <= FEW {
        return notes.iter().map(|note| note.text.as_str().into()).collect();
    }
    let about = |topic| notes.iter().filter(move |note| note.topic == topic);
    let mut lines: Vec<Cow<'n, str>> = Vec::new();
    for topic in [Topic::Warning, Topic::Changed, Topic::Waiting] {
        lines.extend(about(topic).take(MOST).map(|note| Cow::from(note.text.as_str())));
        let more = about(topic).count().saturating_sub(MOST);
        if more > 0 {
            lines.push(format!("{more} more notes: `{details}` has what was recorded").into());
        }
    }
    for topic in [Topic::Refused, Topic::Usage] {
        let mut about = about(topic);
        let Some(first) = about.next() else { continue };
        lines.push(match about.count() {
            0 => first.text.as_str().into(),
            more => format!("{} (and {more} more: `{details}` lists them)", first.text).into(),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(notes: &[Note]) -> Vec<String> {
        summary(notes, "pinfold audit").into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn few_notes_are_shown_in_their_order() {
        let notes = [Note::new(Topic::Refused, "one"), Note::warning("two")];
        assert_eq!(lines(&notes), ["one", "two"]);
    }

    #[test]
    fn refusals_take_one_line_and_nothing_to_decide_on_is_lost() {
        let refused = (0..9).map(|number| Note::new(Topic::Refused, format!("refused: {number}")));
        let mut notes: Vec<Note> = refused.collect();
        notes.extend(["set aside a", "set aside b"].map(|text| Note::new(Topic::Waiting, text)));
        notes.push(Note::new(Topic::Changed, "applied 2 paths"));
        notes.extend(["rotate a", "rotate b"].map(Note::warning));
        assert_eq!(
            lines(&notes),
            [
                "rotate a",
                "rotate b",
                "applied 2 paths",
                "set aside a",
                "set aside b",
                "refused: 0 (and 8 more: `pinfold audit` lists them)",
            ]
        );
    }

    #[test]
    fn very_many_notes_are_counted() {
        let note = |number: u32| Note::new(Topic::Waiting, number.to_string());
        let notes: Vec<Note> = (0..72).map(note).collect();
        let shown = lines(&notes);
        assert_eq!(shown.len(), MOST + 1);
        assert_eq!(shown[MOST], "8 more notes: `pinfold audit` has what was recorded");
    }
}
