//! A refusal that the user can act on.

use std::error::Error;
use std::fmt;

/// An error that says what was refused, why, and what the user can do about it.
#[derive(Debug)]
pub struct Refusal {
    what: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

impl Refusal {
    /// Refuses something; `what` says what, and why if there is no source.
    #[must_use]
    pub fn new(what: impl ToString) -> Self {
        Self { what: what.to_string(), source: None, hint: None }
    }

    /// Adds the error that is the reason. It is shown after what was refused.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
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
    fn refusal_without_a_reason_has_no_source() {
        let refusal = Refusal::new("no").with_hint("try again".to_owned());
        assert_eq!((refusal.to_string().as_str(), refusal.hint()), ("no", Some("try again")));
        assert!(refusal.source().is_none());
    }
}
