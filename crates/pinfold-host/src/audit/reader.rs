//! Reading the log, from its oldest record on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

use super::files::Files;

/// Reads the log, and goes on reading when it is asked again.
pub struct Reader {
    files: Files,
    input: BufReader<File>,
    /// Where the next record begins.
    at: u64,
    /// Whether nobody writes to this file any more.
    full: bool,
}

impl Reader {
    /// Opens the log for reading; `None` when nothing was ever recorded.
    ///
    /// # Errors
    /// Returns the error of `open(2)`, with the path.
    pub fn open(state: &Path) -> io::Result<Option<Self>> {
        let files = Files::of(state);
        match files.after(None) {
            Ok(Some(first)) => {
                Ok(Some(Self { input: BufReader::new(first), files, at: 0, full: false }))
            }
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(files.named("read", &error)),
        }
    }

    /// Returns the next whole record, `None` at the present end.
    ///
    /// # Errors
    /// Returns the error of `read(2)`, with the path.
    pub fn next_record(&mut self) -> io::Result<Option<Value>> {
        self.next().map_err(|error| self.files.named("read", &error))
    }

    /// Returns the next whole record of one of these sessions, `None` at the present end. Others are not
    /// parsed.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next_record`].
    pub fn next_of(&mut self, is_meant: impl Fn(&str) -> bool) -> io::Result<Option<Value>> {
        loop {
            let Some(line) = self.line().map_err(|error| self.files.named("read", &error))? else {
                return Ok(None);
            };
            if session_of(&line).is_some_and(&is_meant)
                && let Ok(record) = serde_json::from_slice(&line)
            {
                return Ok(Some(record));
            }
        }
    }

    /// Returns the next whole record as a line, `None` at the present end.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next_record`].
    pub(super) fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.line().map_err(|error| self.files.named("read", &error))
    }

    /// Skips all records up to the present end.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next_record`].
    pub fn skip_all(&mut self) -> io::Result<()> {
        while self.line().map_err(|error| self.files.named("read", &error))?.is_some() {}
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Value>> {
        while let Some(line) = self.line()? {
            if let Ok(record) = serde_json::from_slice(&line) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Returns the next whole line.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let mut line = Vec::new();
            self.input.read_until(b'\n', &mut line)?;
            if line.last() == Some(&b'\n') {
                self.at += line.len() as u64;
                return Ok(Some(line));
            }
            // What is not whole may be cut off, and written over, by the next writer.
            self.input.seek(SeekFrom::Start(self.at))?;
            let Some(next) = self.files.after(Some(self.input.get_ref()))? else {
                return Ok(None);
            };
            // A record may have been written before the file was full: it is read first.
            if self.full {
                (self.input, self.at) = (BufReader::new(next), 0);
            }
            self.full = !self.full;
        }
    }
}

/// Returns the session of a record, which comes last, before the time. No text in a record looks like
/// it, since quotes in texts are escaped.
fn session_of(line: &[u8]) -> Option<&str> {
    const KEY: &[u8] = b",\"session\":\"";
    let at = line.windows(KEY.len()).rposition(|part| part == KEY)? + KEY.len();
    let end = line[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&line[at..at + end]).ok()
}
