//! A wrapper that is a program: asked by JSON on its standard input, it answers by JSON on its output.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_policy::settings::WrapperSetting;
use serde_json::{Value, json};

use super::Wrong;
use super::bearer::Bearer;
use super::bounds::{LARGEST, PATIENCE};
use super::context::{Answer, Context};
use crate::process::{Bounds, Question};
use crate::search_path::SearchPath;
use crate::within::steps;

/// Characters of what it says that are shown when it fails.
const SHOWN: usize = 400;

#[derive(Debug)]
pub(super) struct Program {
    setting: WrapperSetting,
    patience: Duration,
}

impl Program {
    pub(super) fn of(setting: WrapperSetting) -> Self {
        Self { setting, patience: PATIENCE }
    }

    /// Asks it about a launch. What it starts by name is found on this path.
    pub(super) fn ask(
        &self,
        context: &Context,
        boundary: &str,
        bearer: Option<&Bearer>,
        path: &SearchPath,
    ) -> Result<Context, Wrong> {
        let subject = json!(bearer.map(|bearer| &bearer.subject));
        let mut question = json!(context);
        question["boundary"] = json!(boundary);
        question["subject"] = subject.clone();
        let program = self.trusted(bearer)?;
        let question = question.to_string();
        let more = bearer.and_then(|bearer| path.more(&bearer.writable)).map(SearchPath::without);
        let question = Question {
            interrupt: None,
            file: &program,
            name: self.setting.program.as_path(),
            arguments: &self.setting.arguments,
            input: question.as_bytes(),
            path: more.as_ref().unwrap_or(path),
            bounds: Bounds { patience: self.patience, most: LARGEST },
        };
        let output = question.ask().map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => Wrong::TimedOut,
            std::io::ErrorKind::FileTooLarge => Wrong::TooLarge,
            _ => Wrong::Io(error),
        })?;
        match output.code {
            Some(0) => {}
            Some(status) => {
                let said = String::from_utf8_lossy(&output.stderr)
                    .trim()
                    .escape_debug()
                    .take(SHOWN)
                    .collect();
                return Err(Wrong::Failed { status, said });
            }
            None => return Err(Wrong::Signal),
        }
        let answer: Answer = serde_json::from_slice(&output.stdout)
            .map_err(|error| Wrong::Malformed(error.to_string()))?;
        let is_same =
            |said: &Option<Value>, given: &Value| said.as_ref().is_none_or(|said| said == given);
        if !is_same(&answer.subject, &subject)
            || answer.boundary.as_ref().is_some_and(|said| said != boundary)
        {
            return Err(Wrong::Malformed(
                "another subject or boundary than it was given".to_owned(),
            ));
        }
        Ok(answer.into())
    }

    /// Returns the program's file, if nobody can have changed it whom a wrapper is to keep an eye on:
    /// the sandbox, and other users. Files among its arguments are checked against the sandbox, too: an
    /// interpreter's script is one.
    fn trusted(&self, bearer: Option<&Bearer>) -> Result<PathBuf, Wrong> {
        let named = |path: &Path, what: &str| {
            Wrong::Untrusted(format!("{} {what}", pinfold_policy::path::Escaped(path)))
        };
        let program = self.setting.program.as_path();
        let real = fs::canonicalize(program).map_err(Wrong::Io)?;
        if !fs::metadata(&real).map_err(Wrong::Io)?.is_file() {
            return Err(named(&real, "is no file"));
        }
        let own = rustix::process::geteuid().as_raw();
        for path in real.ancestors() {
            let data = fs::metadata(path).map_err(Wrong::Io)?;
            // In a directory with the sticky bit names belong to their owners.
            let is_shared =
                data.mode() & 0o022 != 0 && !(data.is_dir() && data.mode() & 0o1000 != 0);
            if is_shared || ![0, own].contains(&data.uid()) {
                return Err(named(path, "can be changed by other users"));
            }
        }
        let arguments = self.setting.arguments.iter().map(Path::new);
        let named_files = arguments.filter(|argument| argument.is_absolute()).chain([program]);
        for path in named_files.flat_map(steps) {
            if bearer.is_some_and(|bearer| bearer.may_change(&path)) {
                return Err(named(&path, "can be changed by a session"));
            }
        }
        Ok(real)
    }
}

#[cfg(test)]
mod tests;
