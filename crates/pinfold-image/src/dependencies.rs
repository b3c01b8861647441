//! `.agent-loop/dependencies`: packages of Debian's that a repository needs.

use std::fmt;
use std::str::FromStr;

/// A package as apt-get(8) takes it: `name`, `name:architecture`, `name=version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package(String);

/// A line that names no package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \"{}\" is not the name of a Debian package", .text.escape_debug())]
pub struct DependencyError {
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

impl FromStr for Package {
    type Err = ();

    /// Reads a name by Debian's rules (Policy 5.6.1, 5.6.12), so none is an option, a pattern, a path or a word
    /// of the shell's. A name that ends with a dash would have apt-get remove the package.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, version) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        let (name, architecture) = name.split_once(':').map_or((name, None), |(n, a)| (n, Some(a)));
        let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_name = name.len() > 1
            && name.starts_with(is_lower)
            && !name.ends_with('-')
            && name.chars().all(|c| is_lower(c) || "+-.".contains(c));
        let is_architecture = architecture.is_none_or(|text| {
            text.starts_with(is_lower)
                && !text.ends_with('-')
                && text.chars().all(|c| is_lower(c) || c == '-')
        });
        let is_version = version.is_none_or(|text| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".+-:~".contains(c);
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && !text.ends_with('-')
                && text.chars().all(is_plain)
        });
        if is_name && is_architecture && is_version { Ok(Self(text.to_owned())) } else { Err(()) }
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the packages of a file: one a line, with `#` before what is for people.
///
/// # Errors
/// Returns an error for the first line that names no package.
pub(crate) fn dependencies(text: &str) -> Result<Vec<Package>, DependencyError> {
    let lines = text.lines().enumerate().map(|(at, line)| {
        let name = line.split('#').next().unwrap_or_default().trim();
        (at + 1, name)
    });
    let named = lines.filter(|(_, name)| !name.is_empty());
    let parsed = named.map(|(line, name)| {
        name.parse().map_err(|()| DependencyError { line, text: name.to_owned() })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests;
