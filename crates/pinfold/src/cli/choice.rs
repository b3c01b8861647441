//! Options whose value is one of a few words.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses one of a few words, which help and completions list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<T> {
    words: &'static [&'static str],
    parsed: PhantomData<fn() -> T>,
}

/// Returns a parser for a type that is one of these words. A word of the type that is not among them
/// is accepted and not listed.
pub(crate) fn choice<T>(words: &'static [&'static str]) -> Choice<T> {
    Choice { words, parsed: PhantomData }
}

impl<T: FromStr + Clone + Send + Sync + 'static> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        if let Some(parsed) = value.to_str().and_then(|word| word.parse().ok()) {
            return Ok(parsed);
        }
        // It names the words, and suggests one.
        let error = PossibleValuesParser::new(self.words).parse_ref(command, argument, value);
        Err(error.err().unwrap_or_else(|| clap::Error::new(clap::error::ErrorKind::InvalidValue)))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(PossibleValue::new)))
    }
}
