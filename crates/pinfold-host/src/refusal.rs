//! A refusal that the user can act on.

use std::error::Error;
use std::fmt;
use std::io;

use rustix::io::Errno;

/// An error that says what was refused, why, and what the user can do about it.
#[derive(Debug)]
pub struct Refusal(Box<Parts>);

#[derive(Debug)]
struct Parts {
    /// Missing where the source says all.
    what: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

impl Refusal {
    /// Refuses something; `what` says what, and why if there is no source.
    #[must_use]
    pub fn new(what: impl ToString) -> Self {
        Self(Box::new(Parts { what: Some(what.to_string()), source: None, hint: None }))
    }

    /// Refuses because of an error that says all.
    #[must_use]
    pub fn of(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Box::new(Parts { what: None, source: Some(source.into()), hint: None }))
    }

    /// Returns what makes a refusal of an error, for `map_err`; `what` says what could not be done, or to what.
    pub fn about<E: Into<Box<dyn Error + Send + Sync>>>(
        what: impl ToString,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::new(what).because(source)
    }

    /// Adds the error that is the reason. It is shown after what was refused.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.what, &self.0.source) {
            (Some(what), Some(source)) => write!(f, "{what}: {source}"),
            (Some(what), None) => f.write_str(what),
            (None, Some(source)) => source.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::of(error)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::of(errno)
    }
}

impl From<String> for Refusal {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl From<&str> for Refusal {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::Refusal;

    #[test]
    fn refusal_shows_its_reason_and_keeps_it_as_source() {
        let refusal = Refusal::new("cannot read /x").because(io::Error::other("no disk"));
        assert_eq!(refusal.to_string(), "cannot read /x: no disk");
        let source = refusal.source().unwrap();
        assert!(source.is::<io::Error>());
    }

    #[test]
    fn refusal_of_an_error_shows_that_alone() {
        let failed: Result<(), io::Error> = Err(io::Error::other("no disk"));
        let refusal = failed.map_err(Refusal::about("the copy")).unwrap_err();
        assert_eq!(refusal.to_string(), "the copy: no disk");
        let refusal = Refusal::from(io::Error::other("no disk"));
        assert!(refusal.to_string() == "no disk" && refusal.source().is_some());
    }

    #[test]
    fn refusal_without_a_reason_has_no_source() {
        let refusal = Refusal::new("no").with_hint("try again".to_owned());
        assert_eq!((refusal.to_string().as_str(), refusal.hint()), ("no", Some("try again")));
        assert!(refusal.source().is_none());
    }
}
