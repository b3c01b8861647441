//! What a task says about the entries that are written in it.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_content::{Uuid, Value, read};

use crate::entry::{LONGEST_TAG, MOST_TAGS};

/// The diary and the tags of entries that are written in an attempt at a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskDiary {
    /// The only diary that they may land in; the one of the session if none.
    pub diary: Option<Uuid>,
    /// Tags that each of them has, before others.
    pub tags: Vec<String>,
    /// What answers questions about the task.
    pub socket: Option<TaskSocket>,
}

/// The socket of a task's worker, which answers questions about the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSocket {
    /// The task's id, as the agent knows it.
    pub task: String,
    pub path: PathBuf,
}

impl TaskSocket {
    fn from_json(value: &Value) -> Option<Self> {
        let path: PathBuf = value.text_of("socket")?.into_owned().into();
        let task = value.text_of("id")?.into_owned();
        path.is_absolute().then_some(Self { task, path })
    }

    /// Returns the directory of the socket and its name there.
    ///
    /// # Errors
    /// Returns an error for a path without a name, or with one that is not UTF-8.
    pub fn split(&self) -> io::Result<(&Path, &str)> {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let parts = self.path.parent().zip(name);
        parts.ok_or_else(|| io::ErrorKind::InvalidFilename.into())
    }
}

/// The error for a text that says nothing about a task's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected {{\"diary\": UUID or null, \"tags\": [TEXT…], \"task\": {{\"id\": TEXT, \"socket\": PATH}} or null}}"
)]
pub struct InvalidTaskDiary;

impl TaskDiary {
    /// Reads it from JSON.
    ///
    /// # Errors
    /// Returns an error for another shape, or tags that no entry could have.
    pub fn from_json(text: &str) -> Result<Self, InvalidTaskDiary> {
        let value = read(text).map_err(|_| InvalidTaskDiary)?;
        let diary = match value.get("diary") {
            None | Some(Value::Null) => None,
            Some(id) => {
                let id = id.as_text().and_then(|id| id.parse().ok());
                Some(id.ok_or(InvalidTaskDiary)?)
            }
        };
        let tags = value.get("tags").and_then(Value::as_array).ok_or(InvalidTaskDiary)?;
        let tags = tags.iter().map(|tag| tag.as_text().map(|tag| tag.into_owned()));
        let tags: Vec<String> = tags.collect::<Option<_>>().ok_or(InvalidTaskDiary)?;
        let is_tag = |tag: &String| !tag.is_empty() && tag.len() <= LONGEST_TAG;
        if tags.len() > MOST_TAGS / 2 || !tags.iter().all(is_tag) {
            return Err(InvalidTaskDiary);
        }
        let socket = value.given("task");
        let socket = socket.map(|it| TaskSocket::from_json(it).ok_or(InvalidTaskDiary));
        Ok(Self { diary, tags, socket: socket.transpose()? })
    }

    /// Returns the tags of an entry: the task's first, and each once.
    pub(crate) fn with(&self, others: Vec<String>) -> Vec<String> {
        let mut tags = self.tags.clone();
        for tag in others {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        tags
    }
}

#[cfg(test)]
mod tests {
    use super::TaskDiary;

    #[test]
    fn tags_of_the_task_come_first_and_once() {
        let id = "11111111-2222-4333-8444-555555555555";
        let text = format!(r#"{{"diary":"{id}","tags":["task:id:1","task:attempt:2"]}}"#);
        let task = TaskDiary::from_json(&text).unwrap();
        assert_eq!(task.diary, id.parse().ok());
        let tags = task.with(vec!["x".to_owned(), "task:id:1".to_owned(), "x".to_owned()]);
        assert_eq!(tags, ["task:id:1", "task:attempt:2", "x"]);
        assert_eq!(TaskDiary::from_json(r#"{"tags":[]}"#).unwrap(), TaskDiary::default());
    }

    #[test]
    fn other_shapes_are_refused() {
        let long = format!(r#"{{"tags":["{}"]}}"#, "x".repeat(129));
        let many = format!(r#"{{"tags":[{}"x"]}}"#, r#""x","#.repeat(10));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"tags":[1]}"#,
            r#"{"tags":[""]}"#,
            r#"{"diary":"../x","tags":[]}"#,
            &long,
            &many,
        ] {
            assert!(TaskDiary::from_json(wrong).is_err(), "{wrong}");
        }
    }
}
