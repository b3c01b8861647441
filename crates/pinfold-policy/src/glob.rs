//! A small glob matcher, by component and on bytes.
//!
//! `*` matches within a component, `?` one byte of it, and `**` as a whole component matches any
//! number of components. There is nothing else: a pattern must mean the same to every reader.
//! (`globset` compiles to regular expressions, which costs a run's start more than all matching.)

use std::borrow::Cow;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::str::FromStr;

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// The pattern has no component.
    #[error("glob \"{0}\" is empty")]
    Empty(String),
    /// The pattern contains `.` or `..` as a component.
    #[error("glob \"{0}\" contains `.` or `..`; name the components it should match")]
    Dots(String),
    /// `**` together with other characters in one component.
    #[error("glob \"{0}\" has `**` next to other characters; write it between slashes")]
    DoubleStar(String),
    /// A character that other matchers give a meaning this one does not have.
    #[error("glob \"{0}\" contains `{1}`, which has no meaning here; only *, ? and ** do")]
    Unsupported(String, char),
}

/// A pattern over the components of a relative path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    text: Cow<'static, str>,
    /// Whether a match may begin at any depth.
    floating: bool,
}

impl Glob {
    /// Reads a pattern. Without a leading `/` it matches at any depth below the root it is
    /// applied to; with one, only from that root.
    ///
    /// # Errors
    /// Returns an error when the pattern is empty, contains `.` or `..` components, or uses other
    /// syntax.
    pub fn new(pattern: &str) -> Result<Self, GlobError> {
        let floating = !pattern.starts_with('/');
        let text = pattern.trim_matches('/').to_owned();
        if text.is_empty() {
            return Err(GlobError::Empty(pattern.to_owned()));
        }
        if let Some(character) = pattern.chars().find(|c| "[]{}\\\0".contains(*c)) {
            return Err(GlobError::Unsupported(pattern.to_owned(), character));
        }
        for component in text.split('/') {
            match component {
                "" | "." | ".." => return Err(GlobError::Dots(pattern.to_owned())),
                "**" => {}
                other if other.contains("**") => {
                    return Err(GlobError::DoubleStar(pattern.to_owned()));
                }
                _ => {}
            }
        }
        Ok(Self { text: text.into(), floating })
    }

    /// Returns a pattern of built-in data, which a test holds to [`Self::new`].
    #[must_use]
    pub const fn built_in(pattern: &'static str) -> Self {
        match pattern.as_bytes() {
            [b'/', ..] => Self { text: Cow::Borrowed(pattern.split_at(1).1), floating: false },
            _ => Self { text: Cow::Borrowed(pattern), floating: true },
        }
    }

    /// Returns the last component, where it has no wildcard: what a path must end in to match.
    #[must_use]
    pub fn literal_name(&self) -> Option<&str> {
        let name = self.text.rsplit('/').next()?;
        (!name.contains(['*', '?'])).then_some(name)
    }

    /// Returns what the last component begins and ends with: a name without them is no match, which is
    /// found faster than by [`Self::matches`].
    #[must_use]
    pub fn ends(&self) -> (&[u8], &[u8]) {
        let name = self.text.rsplit('/').next().unwrap_or_default();
        let wild = ['*', '?'];
        let start = name.find(wild).unwrap_or(name.len());
        let end = name.rfind(wild).map_or(0, |at| at + 1);
        (&name.as_bytes()[..start], &name.as_bytes()[end..])
    }

    /// Returns the one path that matches, for a pattern from the root without wildcards.
    #[must_use]
    pub fn literal_path(&self) -> Option<&Path> {
        let is_literal = !self.floating && !self.text.contains(['*', '?']);
        is_literal.then(|| Path::new(&*self.text))
    }

    /// Returns the globs of the directories in which a match lies that a path that ends in `name` may match, each with the
    /// pattern of the rest.
    pub fn above<'g>(&'g self, name: &[u8]) -> impl Iterator<Item = (Self, &'g str)> {
        let ends = self.text.match_indices('/').map(|(end, _)| self.text.split_at(end));
        let may_match = move |(above, _): &(&str, &str)| {
            let last = above.rsplit('/').next().unwrap_or_default().as_bytes();
            last == b"**" || one(last, name)
        };
        let floating = self.floating;
        ends.filter(may_match).map(move |(above, rest)| {
            (Self { text: above.to_owned().into(), floating }, rest.trim_start_matches('/'))
        })
    }

    /// Returns whether a path that ends in `name` may match.
    #[must_use]
    pub fn may_end_in(&self, name: &[u8]) -> bool {
        let last = self.text.rsplit('/').next().unwrap_or_default().as_bytes();
        last == b"**" || one(last, name)
    }

    /// Returns whether a match may begin at any depth.
    #[must_use]
    pub fn is_floating(&self) -> bool {
        self.floating
    }

    /// Returns whether the pattern matches the whole of `path`, which is relative to the root the
    /// pattern is applied to.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        // Most paths end in another name, which needs no look at the rest.
        let last = self.text.rsplit('/').next().unwrap_or_default().as_bytes();
        let Some(name) = path.file_name() else { return false };
        if last != b"**" && !one(last, name.as_bytes()) {
            return false;
        }
        let names: Vec<&[u8]> = path
            .components()
            .filter_map(|component| match component {
                Component::Normal(name) => Some(name.as_bytes()),
                _ => None,
            })
            .collect();
        let pattern: Vec<&[u8]> = self.text.split('/').map(str::as_bytes).collect();
        let starts = if self.floating { names.len() } else { 1 };
        (0..starts).any(|start| names.get(start..).is_some_and(|rest| all(&pattern, rest)))
    }

    /// Returns whether the pattern matches `path` or a directory it lies in.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        path.ancestors().any(|ancestor| self.matches(ancestor))
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(pattern: &str) -> Result<Self, GlobError> {
        Self::new(pattern)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.floating { "" } else { "/" }, self.text)
    }
}

/// Matches component by component; `**` tries every length, with the classic single fallback
/// point, so the work is bounded by the product of the lengths.
fn all(pattern: &[&[u8]], names: &[&[u8]]) -> bool {
    wild(pattern, names, |token| *token == b"**", |token, name| one(token, name))
}

/// Matches one component.
fn one(pattern: &[u8], name: &[u8]) -> bool {
    wild(pattern, name, |token| *token == b'*', |token, byte| *token == b'?' || token == byte)
}

/// Matches wildcards with one fallback point: only the last wildcard ever needs to be retried.
fn wild<P, T>(
    pattern: &[P],
    text: &[T],
    is_wild: impl Fn(&P) -> bool,
    matches: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut fallback: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(token), _) if is_wild(token) => {
                fallback = Some((p + 1, t));
                p += 1;
            }
            (Some(token), Some(item)) if matches(token, item) => {
                p += 1;
                t += 1;
            }
            _ => match fallback {
                Some((after, from)) if from < text.len() => {
                    fallback = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests;
