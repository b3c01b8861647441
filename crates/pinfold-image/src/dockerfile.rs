//! Of a Dockerfile what a tag and a build have to know: what its last stage builds on.

use std::collections::HashMap;
use std::str::FromStr as _;

use crate::tag::{InvalidReference, Reference};

/// The build argument that says what to build on.
pub const BASE_ARGUMENT: &str = "BASE_IMAGE";

/// A larger one is a mistake.
pub(crate) const LARGEST: u64 = 1 << 20;

/// Why a Dockerfile cannot be built from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DockerfileError {
    /// Other bytes than a text's.
    #[error("the Dockerfile is not UTF-8 text")]
    NoText,
    /// No FROM at all.
    #[error("the Dockerfile has no FROM")]
    NoFrom,
    /// A FROM with something else than a name.
    #[error("FROM in the Dockerfile: {0}")]
    Reference(#[from] InvalidReference),
    /// What it builds on is in a variable that nobody has given.
    #[error("the Dockerfile says FROM {}, and nothing says what that is", .from.escape_debug())]
    Unknown {
        /// What stands after FROM.
        from: String,
    },
    /// The engine would skip what was asked for.
    #[error(
        "the Dockerfile says FROM {}, so it cannot be built on another image", .from.escape_debug()
    )]
    Fixed {
        /// What stands after FROM.
        from: String,
    },
    /// The engine gives an argument to a FROM only if it was declared before the first one.
    #[error("the Dockerfile says FROM {} without ARG {BASE_ARGUMENT} before", .from.escape_debug())]
    Undeclared {
        /// What stands after FROM.
        from: String,
    },
}

impl DockerfileError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some("name an image with --base-image".to_owned()),
            Self::Fixed { .. } | Self::Undeclared { .. } => {
                Some(format!("begin it with `ARG {BASE_ARGUMENT}` and `FROM ${{{BASE_ARGUMENT}}}`"))
            }
            Self::NoFrom => Some("begin it with `FROM` and the name of an image".to_owned()),
            Self::NoText | Self::Reference(_) => None,
        }
    }
}

/// What a build begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// An empty image.
    Scratch,
    Image(Reference),
}

/// A Dockerfile, as far as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dockerfile {
    text: String,
    from: String,
    declares_base: bool,
}

impl Dockerfile {
    /// Reads one.
    ///
    /// # Errors
    /// Returns what is no text, or has no FROM.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, DockerfileError> {
        let text = String::from_utf8(bytes).map_err(|_| DockerfileError::NoText)?;
        let mut stages: HashMap<String, String> = HashMap::new();
        let (mut last, mut declares_base) = (None, false);
        for instruction in instructions(&text) {
            let mut words = instruction.split_whitespace();
            let keyword = words.next().unwrap_or_default().to_ascii_uppercase();
            let mut words = words.skip_while(|word| word.starts_with("--"));
            match keyword.as_str() {
                "ARG" if last.is_none() => {
                    let name = |word: &str| word.split('=').next() == Some(BASE_ARGUMENT);
                    declares_base |= words.any(name);
                }
                "FROM" => {
                    let from = words.next().ok_or(DockerfileError::NoFrom)?;
                    // A stage may build on one before it.
                    let from =
                        stages.get(&from.to_lowercase()).map_or(from, |from| from).to_owned();
                    let is_named = words.next().is_some_and(|word| word.eq_ignore_ascii_case("as"));
                    if let Some(name) = words.next().filter(|_| is_named) {
                        stages.insert(name.to_lowercase(), from.clone());
                    }
                    last = Some(from);
                }
                _ => {}
            }
        }
        let from = last.ok_or(DockerfileError::NoFrom)?;
        Ok(Self { text, from, declares_base })
    }

    /// Returns the text as it was read.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Returns whether what it builds on is left to the build argument.
    #[must_use]
    pub fn takes_base(&self) -> bool {
        let argument = self.from.strip_prefix('$');
        argument.is_some_and(|argument| {
            let inner = argument.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            // A default stands after `:-` or `-`.
            inner.unwrap_or(argument).split([':', '-']).next() == Some(BASE_ARGUMENT)
        })
    }

    /// Returns what it builds on, if `given` is the build argument.
    ///
    /// # Errors
    /// Returns an error when that cannot be known, or is something else than what is given.
    pub fn base(&self, given: Option<&Reference>) -> Result<Base, DockerfileError> {
        let from = || self.from.clone();
        match given {
            Some(_) if !self.from.contains('$') => Err(DockerfileError::Fixed { from: from() }),
            Some(_) if self.takes_base() && !self.declares_base => {
                Err(DockerfileError::Undeclared { from: from() })
            }
            Some(given) if self.takes_base() => Ok(Base::Image(given.clone())),
            _ if self.from.contains('$') => Err(DockerfileError::Unknown { from: from() }),
            _ if self.from == "scratch" => Ok(Base::Scratch),
            _ => Ok(Base::Image(Reference::from_str(&self.from)?)),
        }
    }
}

/// Returns its instructions, each on one line: without comments, continued lines and documents in them,
/// whose lines may begin with any word (`from os import path`).
fn instructions(text: &str) -> Vec<String> {
    let escape = match directive(text, "escape") {
        Some("`") => '`',
        _ => '\\',
    };
    let (mut all, mut current, mut ends) = (Vec::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some(end) = ends.first() {
            let (is_indented, word): &(bool, String) = end;
            let line = if *is_indented { line.trim_start_matches('\t') } else { line };
            if line == word {
                ends.remove(0);
            }
            continue;
        }
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        if let Some(begun) = line.strip_suffix(escape) {
            current.push_str(begun);
            current.push(' ');
            continue;
        }
        current.push_str(line);
        ends = documents(&current);
        all.push(std::mem::take(&mut current));
    }
    all.extend(Some(current).filter(|rest| !rest.trim().is_empty()));
    all
}

/// Returns a parser directive: a comment at the very top.
fn directive<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let comments = text.lines().map_while(|line| line.trim().strip_prefix('#'));
    let mut pairs = comments.map_while(|comment| comment.split_once('='));
    let found = pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

/// Returns how the documents end that an instruction begins: `<<WORD`, `<<-WORD` (after tabs), quoted or
/// not.
fn documents(instruction: &str) -> Vec<(bool, String)> {
    let keyword = instruction.split_whitespace().next().unwrap_or_default();
    if !["RUN", "COPY", "ADD"].iter().any(|known| keyword.eq_ignore_ascii_case(known)) {
        return Vec::new();
    }
    let words = instruction.split_whitespace().filter_map(|word| {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix("<<")?;
        let (is_indented, rest) = match rest.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let word = rest.trim_matches(['"', '\'']);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!word.is_empty() && word.chars().all(is_word)).then(|| (is_indented, word.to_owned()))
    });
    words.collect()
}

#[cfg(test)]
mod tests;
