//! Errors that name a path, and what threads and poll(2) take.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::Timespec;

/// Adds to an error what was attempted on which path.
pub trait AtPath<T> {
    /// Returns the value, or an error of the same kind that reads "cannot `attempt` `path`: cause".
    ///
    /// # Errors
    /// Returns the error with the attempt and the path; [`source`](std::error::Error::source) has the cause.
    fn at(self, attempt: &'static str, path: impl AsRef<Path>) -> io::Result<T>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, attempt: &'static str, path: impl AsRef<Path>) -> io::Result<T> {
        self.map_err(|error| {
            let source = error.into();
            let path = path.as_ref().to_owned();
            io::Error::new(source.kind(), PathError { attempt, path, source })
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt} {}: {source}", path.display())]
struct PathError {
    attempt: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Starts a thread with a small stack.
///
/// # Errors
/// Returns an error if the system has no room for another thread.
pub fn small_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    const STACK: usize = 256 * 1024;
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work)
}

/// Returns a duration as poll(2) takes it.
#[must_use]
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::AtPath as _;

    #[test]
    fn error_names_attempt_and_path_and_keeps_its_kind() {
        let failed: io::Result<()> = Err(io::ErrorKind::NotFound.into());
        let error = failed.at("read", "/x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "cannot read /x: entity not found");
        assert!(error.get_ref().is_some_and(|error| error.source().is_some()));
    }
}
