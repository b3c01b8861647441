//! What a request may say.

use pinfold_host::Refusal;
use pinfold_policy::path::is_plain;
use serde::Deserialize;

use crate::schedule::Schedule;

/// The longest file of a request, in bytes.
pub const LONGEST: u64 = 64 << 10;
/// The longest title that is made of a brief, in characters.
const LONGEST_TITLE: usize = 80;

/// Kinds of messages that Pynchy's agents send, and why none is taken here.
const NOT_TAKEN: [(&str, &str); 7] = [
    ("message", "there is no chat to send it to"),
    ("pause_task", "remove the file of the schedule instead"),
    ("resume_task", "write the file of the schedule again instead"),
    ("cancel_task", "remove the file of the schedule instead"),
    ("refresh_groups", "groups are the user's, in config.toml"),
    ("register_group", "groups are the user's, in config.toml"),
    ("deploy", "a sandbox changes nothing of the host"),
];

/// A request for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    title: Option<String>,
    /// What is to be done: Markdown.
    pub brief: String,
    /// How urgent it is, as priorities of tasks.
    pub priority: Option<i32>,
    /// When it is to be done, if not now.
    pub schedule: Option<Schedule>,
}

/// What names the kind of a message.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    #[serde(rename = "type")]
    _kind: Option<String>,
    title: Option<String>,
    brief: String,
    priority: Option<i32>,
}

/// Pynchy's message for a task at a time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduledTask {
    #[serde(rename = "type")]
    _kind: String,
    title: Option<String>,
    prompt: String,
    priority: Option<i32>,
    schedule_type: String,
    schedule_value: String,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let invalid = |error: serde_json::Error| error.to_string();
        let kind = serde_json::from_slice::<Kind>(bytes).map_err(invalid)?.kind;
        let request = match kind.as_deref() {
            None | Some("task") => {
                let Task { title, brief, priority, .. } =
                    serde_json::from_slice(bytes).map_err(invalid)?;
                Self { title, brief, priority, schedule: None }
            }
            Some("schedule_task") => {
                let asked: ScheduledTask = serde_json::from_slice(bytes).map_err(invalid)?;
                let schedule = Schedule::read(&asked.schedule_type, &asked.schedule_value)?;
                let ScheduledTask { title, prompt: brief, priority, .. } = asked;
                Self { title, brief, priority, schedule: Some(schedule) }
            }
            Some(other) => {
                let why = NOT_TAKEN
                    .iter()
                    .find(|(kind, _)| *kind == other)
                    .map(|(_, why)| *why)
                    .unwrap_or("only task and schedule_task are");
                return Err(Refusal::new(format!(
                    "messages of the type {other:?} are not taken: {why}"
                )));
            }
        };
        if request.brief.trim().is_empty() {
            return Err("the brief is empty".into());
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
    use crate::schedule::Schedule;

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
    fn scheduled_request_is_pynchys_and_other_kinds_are_refused_by_name() {
        let read = |text: &str| Request::read(text.as_bytes());
        let scheduled = r#"{"type": "schedule_task", "prompt": "x", "schedule_type": "interval", "schedule_value": "60000"}"#;
        assert_eq!(read(scheduled).unwrap().schedule, Some(Schedule::Every(60)));
        assert!(read(r#"{"type": "task", "brief": "x"}"#).unwrap().schedule.is_none());
        for kind in ["message", "register_group", "cancel_task", "deploy", "\\u001b[31m"] {
            let error =
                read(&format!(r#"{{"type": "{kind}", "folder": "x"}}"#)).unwrap_err().to_string();
            assert!(error.contains("not taken") && !error.contains('\u{1b}'), "{error}");
        }
        for text in [
            r#"{"type": "schedule_task", "prompt": "x"}"#,
            r#"{"type": "schedule_task", "brief": "x", "schedule_type": "once", "schedule_value": "2026-01-01T00:00:00Z"}"#,
            r#"{"type": "schedule_task", "prompt": " ", "schedule_type": "interval", "schedule_value": "60000"}"#,
            r#"{"brief": "x", "schedule_type": "interval", "schedule_value": "60000"}"#,
            r#"{"type": "task", "type": "schedule_task", "brief": "x"}"#,
            r#"{"type": 1, "brief": "x"}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn title_is_the_first_line_without_what_drives_a_terminal() {
        let title = |text: &str| Request::read(text.as_bytes()).unwrap().title();
        assert_eq!(title(r##"{"brief": "\n# Do \u001b[31mit\nnow"}"##), "Do [31mit");
        assert_eq!(title(r#"{"brief": "x", "title": "---"}"#), "---");
        assert_eq!(title(&format!(r#"{{"brief": "{}"}}"#, "ä".repeat(500))).chars().count(), 80);
    }
}
