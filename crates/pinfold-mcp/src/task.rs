//! The tools by which an agent asks about the task that it works on, and keeps files with it: MoltNet's names and parameters.
//!
//! They reach that task alone. The worker of the task answers, and files are read and written as the sandbox sees them.

mod arguments;

use std::io::{self, BufReader};
use std::sync::Arc;
use std::time::Duration;

use pinfold_client::Fault;
use pinfold_content::Cid;
use pinfold_host::audit::Audit;
use pinfold_host::ipc::connect_stream;
use pinfold_memory::{DiaryTools, TaskSocket};
use pinfold_tasks::{Inquiry, LARGEST_ARTIFACT, Reply};
use pinfold_tools::{Range, Read, Tools, Write};
use serde_json::{Value, json};

use crate::memory::record;
use crate::toolset::{Asked, Failure, Toolset, text_result};
use arguments::{Download, ListArtifacts, ListMessages, OfTask, Upload, parsed};

/// How long the worker may take to accept a question.
const PATIENCE: Duration = Duration::from_secs(30);

/// What opens the files of the sandbox.
type OpenFiles = dyn Fn() -> io::Result<Tools> + Send + Sync;

/// The tools of one task.
pub struct TaskTools {
    socket: TaskSocket,
    /// The rules of the session's diary hold for what is uploaded, too.
    diary: Arc<dyn DiaryTools>,
    audit: Arc<Audit>,
    files: Box<OpenFiles>,
}

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    GetTask,
    ListAttempts,
    ListMessages,
    Upload,
    ListArtifacts,
    Download,
}

const TOOLS: [(&str, Tool); 6] = [
    ("moltnet_get_task", Tool::GetTask),
    ("moltnet_list_task_attempts", Tool::ListAttempts),
    ("moltnet_list_task_messages", Tool::ListMessages),
    ("moltnet_upload_task_artifact", Tool::Upload),
    ("moltnet_list_task_artifacts", Tool::ListArtifacts),
    ("moltnet_download_task_artifact", Tool::Download),
];

impl TaskTools {
    /// Offers the tools of the task behind a socket, and records their calls in this log. `files` opens the files of the sandbox.
    #[must_use]
    pub fn new(
        socket: TaskSocket,
        diary: Arc<dyn DiaryTools>,
        audit: Arc<Audit>,
        files: impl Fn() -> io::Result<Tools> + Send + Sync + 'static,
    ) -> Self {
        Self { socket, diary, audit, files: Box::new(files) }
    }

    fn value(&self, name: &str, arguments: Value) -> Result<String, String> {
        let tool = TOOLS.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool);
        let tool = tool.ok_or_else(|| format!("Validation Failed: no tool {name}"))?;
        record(&self.audit, &*self.diary, name)?;
        let inquiry = match tool {
            Tool::GetTask => {
                self.check_task(parsed::<OfTask>(arguments)?.task_id)?;
                Inquiry::Task
            }
            Tool::ListAttempts => {
                self.check_task(parsed::<OfTask>(arguments)?.task_id)?;
                Inquiry::Attempts
            }
            Tool::ListMessages => {
                let asked: ListMessages = parsed(arguments)?;
                self.check_task(asked.task_id.clone())?;
                asked.inquiry()?
            }
            Tool::ListArtifacts => {
                let asked: ListArtifacts = parsed(arguments)?;
                self.check_task(asked.task_id.clone())?;
                asked.inquiry()?
            }
            Tool::Upload => return self.upload(parsed(arguments)?),
            Tool::Download => return self.download(parsed(arguments)?),
        };
        Ok(self.ask(&inquiry, &[])?.value.pretty())
    }

    /// Checks that a question is about the task at hand, as one that names no task is. Others of the same queue may be another
    /// user's.
    fn check_task(&self, id: Option<String>) -> Result<(), String> {
        let is_own = id.is_none_or(|id| id.eq_ignore_ascii_case(&self.socket.task));
        is_own.then_some(()).ok_or_else(|| "Not Found: Task not found".to_owned())
    }

    fn ask(&self, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        let unavailable =
            |error| format!("Service Unavailable: the task's worker cannot be asked: {error}");
        let asked = || -> io::Result<Result<Reply, String>> {
            let (directory, name) = self.socket.split()?;
            let stream = connect_stream(directory, name, PATIENCE)?;
            inquiry.ask(&mut BufReader::new(&stream), &mut &stream, content)
        };
        asked().map_err(unavailable)?
    }

    fn upload(&self, asked: Upload) -> Result<String, String> {
        self.diary.may_write().map_err(|error| error.to_string())?;
        let path = asked.file_path.as_bytes().to_vec().into();
        // One more byte shows that the file is too large.
        let range = Some(Range::Bytes { offset: 0, length: LARGEST_ARTIFACT as u64 + 1 });
        let files = self.files()?;
        let (_, content) = files.read(Read { path, range }).map_err(|error| error.to_string())?;
        if content.len() > LARGEST_ARTIFACT {
            let most = LARGEST_ARTIFACT >> 20;
            return Err(format!("Validation Failed: an artifact has {most} MiB at most"));
        }
        let label = asked.label();
        let texts = [
            ("/content", &*String::from_utf8_lossy(&content)),
            ("/title", &label.title),
            ("/kind", &label.kind),
            ("/contentType", &label.content_type),
            ("/contentEncoding", label.content_encoding.as_deref().unwrap_or_default()),
        ];
        self.diary.check_written(&texts).map_err(|error| error.to_string())?;
        Ok(self.ask(&Inquiry::AddArtifact(label), &content)?.value.pretty())
    }

    fn download(&self, asked: Download) -> Result<String, String> {
        self.check_task(asked.task_id.clone())?;
        let missing = || "Not Found: Task artifact not found".to_owned();
        let cid: Cid = asked.cid.parse().map_err(|_| missing())?;
        let inquiry = Inquiry::Artifact { attempt: asked.attempt_n, cid: asked.cid };
        let Reply { value, content } = self.ask(&inquiry, &[])?;
        if Cid::of_bytes(&content) != cid {
            return Err("the artifact does not have the content of its address".to_owned());
        }
        let path = asked.output_path.as_bytes().to_vec().into();
        let write = Write { path, parents: false, new: true };
        self.files()?.write(write, &content).map_err(|error| error.to_string())?;
        let value = value.as_object().cloned().unwrap_or_default();
        let value = value.with("outputPath", asked.output_path.as_str());
        Ok(pinfold_content::Value::from(value).pretty())
    }

    fn files(&self) -> Result<Tools, String> {
        (self.files)().map_err(|error| format!("the files of the sandbox cannot be used: {error}"))
    }
}

impl std::fmt::Debug for TaskTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskTools").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Toolset for TaskTools {
    fn definitions(&self) -> Vec<Value> {
        // The file is the program's own, and a test reads it.
        serde_json::from_str(include_str!("../data/task-tools.json")).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        TOOLS.iter().any(|(known, _)| *known == name)
    }

    fn call(&self, asked: Asked<'_>) -> Result<Value, Fault> {
        let arguments = if asked.arguments.is_null() { json!({}) } else { asked.arguments };
        Ok(text_result(self.value(asked.name, arguments)))
    }

    // The diary's tools list failures of all tools.
    fn note(&self, _: &Failure<'_>) {}
}

#[cfg(test)]
mod tests;
