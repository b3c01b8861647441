//! The files of the log: the one that is written, and full ones before it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file that is written.
const CURRENT: &str = "audit.jsonl";
/// How many full files are kept, however old.
const KEPT: usize = 4;
/// How many are kept that were written lately. One session's budget fills fewer in that time.
const MOST: usize = 16;
/// What is lately.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The files in a state directory.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(super) fn of(state: &Path) -> Self {
        Self { directory: state.to_owned() }
    }

    pub(super) fn current(&self) -> PathBuf {
        self.directory.join(CURRENT)
    }

    fn full(&self, number: u64) -> PathBuf {
        self.directory.join(format!("audit.{number}.jsonl"))
    }

    /// Opens the file that is written; made if missing, readable by the user alone.
    ///
    /// # Errors
    /// Returns the error of `open(2)`.
    pub(super) fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(self.current())
    }

    /// Returns whether this is the file that has the name now.
    ///
    /// # Errors
    /// Returns the error of `stat(2)`.
    pub(super) fn is_current(&self, file: &File) -> io::Result<bool> {
        match fs::symlink_metadata(self.current()) {
            Ok(named) => Ok(same(&named, &file.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives the file that is written the next number, and removes the oldest of many, if they are old. The caller
    /// holds its lock.
    ///
    /// # Errors
    /// Returns the error of `rename(2)`, and reading the directory.
    pub(super) fn rotate(&self) -> io::Result<()> {
        let numbers = self.numbers()?;
        let next = numbers.last().map_or(Some(1), |last| last.checked_add(1));
        let next = next.ok_or(io::ErrorKind::FileTooLarge)?;
        fs::rename(self.current(), self.full(next))?;
        let many = (numbers.len() + 1).saturating_sub(KEPT);
        for (index, oldest) in numbers[..many].iter().enumerate() {
            let path = self.full(*oldest);
            if numbers.len() + 1 - index > MOST || is_old(&path) {
                // What cannot be removed takes room, and no more.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// Opens the file that was full last; none if none was.
    ///
    /// # Errors
    /// Returns the error of reading the directory and `open(2)`.
    pub(super) fn last_full(&self) -> io::Result<Option<File>> {
        self.numbers()?.last().map(|number| File::open(self.full(*number))).transpose()
    }

    /// Returns whether the oldest file is gone.
    ///
    /// # Errors
    /// Returns the error of reading the directory.
    pub(super) fn begins_late(&self) -> io::Result<bool> {
        Ok(self.numbers()?.first().is_some_and(|first| *first > 1))
    }

    /// Numbers of the full files, the oldest first.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix("audit."))
                .and_then(|rest| rest.strip_suffix(".jsonl"));
            // Another spelling of a number is the name of another file.
            let number = number.and_then(|digits| {
                digits.parse::<u64>().ok().filter(|number| number.to_string() == digits)
            });
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the first file, or the one after this; `None` after the last.
    ///
    /// # Errors
    /// Returns the error of reading the directory and `open(2)`.
    pub(super) fn after(&self, file: Option<&File>) -> io::Result<Option<File>> {
        loop {
            let numbers = self.numbers()?;
            let paths = numbers.iter().map(|number| self.full(*number)).chain([self.current()]);
            let mut files = Vec::new();
            for path in paths {
                match File::open(path) {
                    Ok(file) => files.push(file),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            // A file that is renamed gets its number before another has its name: if the numbers
            // are the same, nothing has moved.
            if self.numbers()? == numbers {
                return Ok(next(files, file));
            }
        }
    }

    /// Returns an error with what it is about.
    pub(super) fn named(&self, what: &str, error: &io::Error) -> io::Error {
        let path = self.current();
        let text = format!("cannot {what} the audit log {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    }
}

/// Returns the file after this one. One that is not there any more was older than all.
fn next(mut files: Vec<File>, file: Option<&File>) -> Option<File> {
    let own = file.and_then(|file| file.metadata().ok());
    let is_own = |other: &File| {
        own.as_ref().is_some_and(|own| other.metadata().is_ok_and(|other| same(own, &other)))
    };
    let at = files.iter().position(is_own).map_or(0, |at| at + 1);
    (at < files.len()).then(|| files.swap_remove(at))
}

/// Returns whether a file was written last before the time of retention. One with a time to come is not
/// old.
fn is_old(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > RETENTION))
}

fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
