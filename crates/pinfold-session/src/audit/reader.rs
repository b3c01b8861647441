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
    /// What open(2) says, with the path.
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

    /// The next whole record, `None` at the present end.
    ///
    /// # Errors
    /// What read(2) says, with the path.
    pub fn next_record(&mut self) -> io::Result<Option<Value>> {
        self.next().map_err(|error| self.files.named("read", &error))
    }

    fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            let mut line = Vec::new();
            self.input.read_until(b'\n', &mut line)?;
            if line.last() == Some(&b'\n') {
                self.at += line.len() as u64;
                match serde_json::from_slice(&line) {
                    Ok(value) => return Ok(Some(value)),
                    Err(_) => continue,
                }
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
