//! Entries as one page of Markdown, for readers and for `import`.
//!
//! A heading of the first level begins an entry. A text cannot forge one: lines of a content that would be headings get a
//! backslash, which Markdown shows as nothing (CommonMark 0.31, section 2.4), and reading takes it away again.

use pinfold_content::times;
use pinfold_policy::path::plain_line;

use crate::entry::{Entry, NewEntry};
use crate::{EntryType, MemoryError};

const ID: &str = "- Entry ID: ";
const TYPE: &str = "- Type: ";
const IMPORTANCE: &str = "- Importance: ";
const CREATED: &str = "- Created: ";
const SIGNED: &str = "- Signed by: ";
const TAGS: &str = "- Tags: ";

/// Returns an entry as Markdown.
#[must_use]
pub fn entry_to_markdown(entry: &Entry) -> String {
    let Entry { id, entry_type, importance, .. } = entry;
    let title = match &entry.title {
        Some(title) => plain_line(title).into_owned(),
        None => untitled(&id.to_string()),
    };
    let created = times::write(entry.created_at);
    let mut page = format!(
        "# {title}\n\n{ID}`{id}`\n{TYPE}{entry_type}\n{IMPORTANCE}{importance}\n{CREATED}{created}\n"
    );
    if let Some(signature) = &entry.signature {
        page.push_str(&format!("{SIGNED}{}\n", signature.fingerprint()));
    }
    if !entry.tags.is_empty() {
        let tag = |tag: &String| format!("`{}`", plain_line(tag).replace('`', "\\u{60}"));
        let tags: Vec<String> = entry.tags.iter().map(tag).collect();
        page.push_str(&format!("{TAGS}{}\n", tags.join(", ")));
    }
    page.push('\n');
    for line in entry.content.split('\n') {
        let (indent, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        let escape = if is_heading(rest) { "\\" } else { "" };
        page.push_str(&format!("{indent}{escape}{rest}\n"));
    }
    page.push('\n');
    page
}

/// Reads entries from a page of Markdown, each with the number of its first line. Text without a heading before it is an
/// entry without a title, and what an entry says of itself below its heading is taken where it is said.
///
/// # Errors
/// Returns an error with the number of a line that says what no entry can have.
pub fn entries_from_markdown(page: &str) -> Result<Vec<(usize, NewEntry)>, (usize, MemoryError)> {
    let mut all: Vec<Reading> = Vec::new();
    for (line, number) in page.split('\n').zip(1..) {
        if let Some(title) = line.strip_prefix("# ") {
            all.push(Reading::begin(number, Some(title.trim())));
            continue;
        }
        match all.last_mut() {
            Some(reading) => reading.take(line).map_err(|error| (number, error))?,
            None if line.trim().is_empty() => {}
            None => {
                let mut reading = Reading::begin(number, None);
                reading.take(line).map_err(|error| (number, error))?;
                all.push(reading);
            }
        }
    }
    Ok(all.into_iter().map(Reading::end).collect())
}

/// An entry that is being read.
struct Reading {
    number: usize,
    new: NewEntry,
    id: Option<String>,
    lines: Vec<String>,
    /// Whether the next line may say something of the entry.
    is_head: bool,
}

impl Reading {
    fn begin(number: usize, title: Option<&str>) -> Self {
        let new = NewEntry { title: title.map(str::to_owned), ..NewEntry::new(String::new()) };
        Self { number, new, id: None, lines: Vec::new(), is_head: title.is_some() }
    }

    fn take(&mut self, line: &str) -> Result<(), MemoryError> {
        if self.is_head && self.head(line)? {
            return Ok(());
        }
        self.is_head = self.is_head && line.is_empty() && self.id.is_none();
        let (indent, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        let rest = rest.strip_prefix('\\').filter(|bare| is_heading(bare)).unwrap_or(rest);
        self.lines.push(format!("{indent}{rest}"));
        Ok(())
    }

    /// Takes a line of what an entry says of itself. Returns whether it is one.
    fn head(&mut self, line: &str) -> Result<bool, MemoryError> {
        if let Some(id) = line.strip_prefix(ID) {
            self.id = Some(id.trim_matches('`').to_owned());
        } else if let Some(kind) = line.strip_prefix(TYPE) {
            let kind = kind.parse::<EntryType>();
            self.new.entry_type =
                kind.map_err(|error| MemoryError::invalid("/entryType", error))?;
        } else if let Some(importance) = line.strip_prefix(IMPORTANCE) {
            let importance = importance.parse();
            let wrong = |_| MemoryError::invalid("/importance", "must be from 1 to 10");
            self.new.importance = importance.map_err(wrong)?;
        } else if let Some(created) = line.strip_prefix(CREATED) {
            let created = times::read(created);
            let wrong = || MemoryError::invalid("/createdAt", "must be a time");
            self.new.created_at = Some(created.ok_or_else(wrong)?);
        } else if let Some(tags) = line.strip_prefix(TAGS) {
            let tags = tags.split('`').skip(1).step_by(2);
            self.new.tags = tags.map(|tag| tag.replace("\\u{60}", "`")).collect();
        } else {
            return Ok(line.starts_with(SIGNED));
        }
        Ok(true)
    }

    fn end(self) -> (usize, NewEntry) {
        let untitled = self.id.as_deref().map(untitled);
        let title = self.new.title.filter(|title| Some(title) != untitled.as_ref());
        let content = self.lines.join("\n");
        let content = content.trim_matches('\n').to_owned();
        (self.number, NewEntry { title, content, ..self.new })
    }
}

fn untitled(id: &str) -> String {
    format!("Entry {id}")
}

/// Returns whether a line without its indent is a heading, or would be one without backslashes before it: of the kind with
/// `#`, or the underline of one.
fn is_heading(line: &str) -> bool {
    let bare = line.trim_start_matches('\\');
    let underline = bare.trim_end();
    let is_line_of = |mark: char| !underline.is_empty() && underline.chars().all(|one| one == mark);
    bare.starts_with('#') || is_line_of('=') || is_line_of('-')
}

#[cfg(test)]
mod tests;
