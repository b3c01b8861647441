//! What a user reads at the end of a session, in a few lines.

use std::borrow::Cow;

/// Lines that are shown as they are.
const FEW: usize = 5;
/// Warnings that are shown. All are in the audit log.
const MOST_WARNINGS: usize = 32;

/// What a note is about. Notes are summarized by topic, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Something the user has to look at. It is never summarized.
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

impl Topic {
    /// Returns the topic's name in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Changed => "changed",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
            Self::Usage => "usage",
        }
    }
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

    /// Makes a note that is never summarized.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Topic::Warning, text)
    }
}

/// Returns the lines to show for these notes: all of them if they are few, else each warning and one line
/// for each other topic. `details` is the command that shows the rest.
pub fn summary<'n>(notes: &'n [Note], details: &str) -> Vec<Cow<'n, str>> {
    if notes.len() <= FEW {
        return notes.iter().map(|note| note.text.as_str().into()).collect();
    }
    let about = |topic| notes.iter().filter(move |note| note.topic == topic);
    let warnings = about(Topic::Warning).map(|note| note.text.as_str().into());
    let mut lines: Vec<Cow<'n, str>> = warnings.take(MOST_WARNINGS).collect();
    let more = about(Topic::Warning).count().saturating_sub(MOST_WARNINGS);
    if more > 0 {
        lines.push(format!("{more} more warnings: `{details}` lists them").into());
    }
    for topic in [Topic::Changed, Topic::Waiting, Topic::Refused, Topic::Usage] {
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
    fn many_notes_take_one_line_for_each_topic_and_no_warning_is_lost() {
        let refused = (0..9).map(|number| Note::new(Topic::Refused, format!("refused: {number}")));
        let mut notes: Vec<Note> = refused.collect();
        notes.push(Note::new(Topic::Changed, "applied 2 paths"));
        notes.extend(["rotate a", "rotate b"].map(Note::warning));
        assert_eq!(
            lines(&notes),
            [
                "rotate a",
                "rotate b",
                "applied 2 paths",
                "refused: 0 (and 8 more: `pinfold audit` lists them)",
            ]
        );
    }

    #[test]
    fn very_many_warnings_are_counted() {
        let notes: Vec<Note> = (0..40).map(|number| Note::warning(number.to_string())).collect();
        let shown = lines(&notes);
        assert_eq!(shown.len(), MOST_WARNINGS + 1);
        assert_eq!(
            shown.last().map(String::as_str),
            Some("8 more warnings: `pinfold audit` lists them")
        );
    }
}
