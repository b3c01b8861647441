//! `pinfold run --result`: how a run ended, for programs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::path::Escaped;
use pinfold_session::{LimitReached, Outcome, ReturnedSpec, Used};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use crate::exit::Failure;

/// The file, opened before anything runs in the sandbox: what the sandbox puts in its place is not written to.
pub(super) struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// Makes or empties the file.
    ///
    /// # Errors
    /// Returns an error for a link, and for a file that cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
        let failed = |errno| Failure::own(format!("cannot write {}: {errno}", Escaped(path)));
        Ok(Self { path: path.to_owned(), file: opened.map_err(failed)?.into() })
    }

    /// Writes how the run ended, and nothing else, whatever the sandbox wrote into the file.
    ///
    /// # Errors
    /// Returns the error of writing, and an error if another file is in its place: who reads that would believe the
    /// sandbox.
    pub(super) fn write(mut self, outcome: &Outcome) -> Result<(), Failure> {
        self.replace(&format!("{}\n", of(outcome)))
            .map_err(|error| Failure::own(format!("cannot write {}: {error}", Escaped(&self.path))))
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())?;
        let (own, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
            Ok(())
        } else {
            Err(io::Error::other("the file was replaced during the run"))
        }
    }
}

/// Returns what came back of a specification: its text, or what is wrong with it.
fn spec(returned: &ReturnedSpec) -> Value {
    let text = returned.as_ref().map(|bytes| str::from_utf8(bytes));
    match text {
        Ok(Ok(text)) => json!({ "text": text }),
        Ok(Err(_)) => json!({ "problem": "is not UTF-8 text" }),
        Err(why) => json!({ "problem": why.words() }),
    }
}

fn of(outcome: &Outcome) -> Value {
    let Used { answers, tokens, cost, unpriced, is_estimated } = &outcome.used;
    json!({
        "session": outcome.session.as_ref().map(ToString::to_string),
        "status": outcome.status,
        "limit": outcome.limit.map(LimitReached::name),
        "interrupted": outcome.interrupted,
        "usage": {
            "requests": answers,
            "inputTokens": tokens.input,
            "outputTokens": tokens.output,
            "cacheReadTokens": tokens.cache_read,
            "cacheWriteTokens": tokens.cache_write,
            "usd": *cost as f64 / 1e9,
            "unpricedRequests": unpriced,
            "estimated": is_estimated,
        },
        "spec": outcome.spec.as_ref().map(spec),
        "notes": outcome.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
    })
}
