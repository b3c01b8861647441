//! The steps of a specification, and how far each is.
//!
//! Ralph's form is a heading with a mark at its end: `### Step 2: Run the tests [done]`, or `[blocked: no network]`. In a
//! specification without such headings, the items of task lists (`- [x] …`) are its steps.

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its line, without the mark.
    pub title: String,
    /// How far it is.
    pub mark: Mark,
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something is left to do.
    Open,
    /// Nothing is.
    Done,
    /// It cannot be done, for this reason.
    Blocked(String),
}

/// The steps of a specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// Finds the steps in a body.
    #[must_use]
    pub fn of(body: &str) -> Self {
        let (mut headings, mut items) = (Vec::new(), Vec::new());
        let mut fence: Option<&str> = None;
        for line in body.lines() {
            let line = line.trim();
            if let Some(mark) = fence {
                fence = (!line.starts_with(mark)).then_some(mark);
            } else if let Some(mark) = ["```", "~~~"].into_iter().find(|it| line.starts_with(it)) {
                fence = Some(mark);
            } else if let Some(text) = heading(line) {
                headings.push(step(text, Mark::Open));
            } else if let Some((text, is_checked)) = item(line) {
                items.push(step(text, if is_checked { Mark::Done } else { Mark::Open }));
            }
        }
        Self(if headings.is_empty() { items } else { headings })
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there are steps, and all are done.
    #[must_use]
    pub fn are_done(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|step| step.mark == Mark::Done)
    }

    /// Returns whether something is left that can be done.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.0.iter().any(|step| step.mark == Mark::Open)
    }

    /// Returns how many there are, and how many of them are done.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        (self.0.len(), self.0.iter().filter(|step| step.mark == Mark::Done).count())
    }

    /// Returns those that are blocked, with the reason.
    pub fn blocked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|step| match &step.mark {
            Mark::Blocked(why) => Some((step.title.as_str(), why.as_str())),
            Mark::Open | Mark::Done => None,
        })
    }
}

/// Returns the text of a heading that names a step (CommonMark 0.31, section 4.2).
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let text = text.strip_prefix([' ', '\t'])?.trim();
    let number = text.get(..5).filter(|word| word.eq_ignore_ascii_case("step "))?;
    let is_numbered = text[number.len()..].trim_start().starts_with(|c: char| c.is_ascii_digit());
    ((2..=6).contains(&level) && is_numbered).then_some(text)
}

/// Returns the text of an item of a task list, and whether it is checked (GitHub Flavored Markdown, section 5.3).
fn item(line: &str) -> Option<(&str, bool)> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = if digits.len() == line.len() {
        line.strip_prefix(['-', '*', '+'])?
    } else {
        digits.strip_prefix(['.', ')'])?
    };
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (text, is_checked) = match rest.get(..3)? {
        "[ ]" => (&rest[3..], false),
        "[x]" | "[X]" => (&rest[3..], true),
        _ => return None,
    };
    Some((text.strip_prefix([' ', '\t'])?.trim(), is_checked))
}

/// Returns a step with the mark at the end of its line, if there is one.
fn step(text: &str, otherwise: Mark) -> Step {
    let marked = text.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let Some((title, mark)) = marked else {
        return Step { title: text.to_owned(), mark: otherwise };
    };
    let (word, why) = mark.split_once(':').unwrap_or((mark, ""));
    let mark = match word.trim().to_ascii_lowercase().as_str() {
        "done" => Mark::Done,
        "blocked" => Mark::Blocked(why.trim().to_owned()),
        _ => return Step { title: text.to_owned(), mark: otherwise },
    };
    Step { title: title.trim().to_owned(), mark }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Steps};

    #[test]
    fn steps_are_read_as_ralph_writes_them() {
        let body = "# Spec: Parser [done]\n\n## Plan\n### Step 1: Write code [done]\n- [ ] a detail\n```\n### Step 9: no\n```\n\
                    ### Step 2: Run tests [blocked: pytest: not installed]\n### step 3: More [in progress]\n### Steps [done]\n";
        let steps = Steps::of(body);
        assert_eq!(steps.count(), (3, 1));
        assert!(steps.has_open() && !steps.are_done());
        let blocked: Vec<_> = steps.blocked().collect();
        assert_eq!(blocked, [("Step 2: Run tests", "pytest: not installed")]);
    }

    #[test]
    fn items_of_task_lists_are_steps_where_there_are_no_headings() {
        let body = "- [x] one\n* [X] two\n1. [ ] three [blocked: why]\n- [y] no\n-[ ] no\n- [ ]no\n[ ] no\n";
        let steps = Steps::of(body);
        assert_eq!(steps.count(), (3, 2));
        assert_eq!(steps.0[2].mark, Mark::Blocked("why".to_owned()));
        assert!(!steps.has_open() && !steps.are_done());
        assert!(Steps::of("- [x] one [done]\n").are_done());
        assert!(!Steps::of("All is [done]\n").are_done(), "no step is not all steps");
    }

    #[test]
    fn text_of_any_kind_is_read_without_a_panic() {
        for text in
            ["### Ste", "### Stepö 1", "- [ö]", "1", "#", "- [", "]", "### Step 1: [[done]]"]
        {
            let _ = Steps::of(text);
        }
    }
}
