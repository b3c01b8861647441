//! What a request may say.

use pinfold_policy::path::is_plain;
use serde::Deserialize;

/// The longest file of a request, in bytes.
pub const LONGEST: u64 = 64 << 10;
/// The longest title that is made of a brief, in characters.
const LONGEST_TITLE: usize = 80;

/// A request for a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    title: Option<String>,
    /// What is to be done: Markdown.
    pub brief: String,
    /// How urgent it is, as priorities of tasks.
    pub priority: Option<i32>,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let request: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if request.brief.trim().is_empty() {
            return Err("the brief is empty".to_owned());
        }
        Ok(request)
    }

    /// Returns its title: a line that drives no terminal.
    #[must_use]
    pub fn title(&self) -> String {
        let lines = self.title.iter().map(String::as_str).chain(self.brief.lines());
        let shown = lines.map(|line| line.trim().trim_start_matches('#').trim());
        let line = shown.into_iter().find(|line| line.chars().any(is_plain)).unwrap_or("a request");
        line.chars().filter(|letter| is_plain(*letter)).take(LONGEST_TITLE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn request_says_nothing_but_what_is_to_be_done() {
        let is_read = |text: &str| Request::read(text.as_bytes()).is_ok();
        assert!(is_read(r#"{"brief": "x"}"#));
        assert!(is_read(r#"{"brief": "x", "title": "y", "priority": 3}"#));
        for text in [
            "",
            "null",
            "[]",
            r#"{"brief": ""}"#,
            r#"{"brief": "x", "agent": "y"}"#,
            r#"{"brief": "x", "brief": "y"}"#,
            r#"{"brief": "x"} {"brief": "y"}"#,
            r#"{"brief": ["x"]}"#,
            r#"{"brief": "x", "priority": 1e9}"#,
        ] {
            assert!(!is_read(text), "{text}");
        }
        assert!(Request::read(b"{\"brief\": \"\xff\"}").is_err());
        assert!(Request::read("[".repeat(60_000).as_bytes()).is_err());
    }

    #[test]
    fn title_is_the_first_line_without_what_drives_a_terminal() {
        let title = |text: &str| Request::read(text.as_bytes()).unwrap().title();
        assert_eq!(title(r##"{"brief": "\n# Do \u001b[31mit\nnow"}"##), "Do [31mit");
        assert_eq!(title(r#"{"brief": "x", "title": "---"}"#), "---");
        assert_eq!(title(&format!(r#"{{"brief": "{}"}}"#, "ä".repeat(500))).chars().count(), 80);
    }
}
