//! Texts with `{names}` that are filled in when a session starts.

use std::fmt;
use std::str::FromStr;

/// The names a template may use.
const NAMES: &[&str] =
    &["gateway", "home", "key", "model", "model_id", "project", "provider", "region", "workspace"];

/// A text with `{gateway}`, `{key}`, `{model}`, `{home}`, `{workspace}` and the like in it. A
/// brace that does not enclose a lower-case word is itself, so JSON needs no escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

/// What the names stand for. What is absent cannot be used.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateValues<'a> {
    /// The gateway's URL as the sandbox reaches it, without a final `/` and without `/v1`.
    pub gateway: Option<&'a str>,
    /// The session's own key: a stand-in, never the provider's.
    pub key: Option<&'a str>,
    /// The model as the agent spells it.
    pub model: Option<&'a str>,
    /// The model without the prefix that the agent spells it with.
    pub model_id: Option<&'a str>,
    /// The provider's region.
    pub region: Option<&'a str>,
    /// The provider's project.
    pub project: Option<&'a str>,
    /// The home directory inside.
    pub home: Option<&'a str>,
    /// The workspace inside.
    pub workspace: Option<&'a str>,
    pub provider: Option<&'a str>,
}

/// Why a template cannot be read or filled in. Values are not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A name that nothing stands for.
    #[error("unknown placeholder {{{name}}}; known: {}", NAMES.join(", "))]
    Unknown { name: String },
    /// A name that has no value in this session.
    #[error("placeholder {{{0}}} has no value in this session")]
    NoValue(&'static str),
    /// A value with control characters, which no format carries safely.
    #[error("the value of {{{0}}} contains control characters")]
    Control(&'static str),
}

/// How values are written into the text around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// As they are.
    Plain,
    /// As in the middle of a JSON string (RFC 8259, 7), which a TOML basic string reads alike.
    String,
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

impl Template {
    /// Returns whether the template uses a name.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        pieces(&self.0).any(|piece| matches!(piece, Piece::Name(used) if used == name))
    }

    /// Fills the names in.
    pub(crate) fn expand(
        &self,
        values: &TemplateValues<'_>,
        quoting: Quoting,
    ) -> Result<String, TemplateError> {
        let mut text = String::with_capacity(self.0.len());
        for piece in pieces(&self.0) {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Name(name) => {
                    let value = values.of(name)?;
                    match quoting {
                        Quoting::Plain => text.push_str(value),
                        Quoting::String => text.push_str(&quoted(value)),
                    }
                }
            }
        }
        Ok(text)
    }
}

impl<'a> TemplateValues<'a> {
    fn of(&self, name: &str) -> Result<&'a str, TemplateError> {
        let (name, value) = match name {
            "gateway" => ("gateway", self.gateway),
            "home" => ("home", self.home),
            "key" => ("key", self.key),
            "model" => ("model", self.model),
            "model_id" => ("model_id", self.model_id),
            "project" => ("project", self.project),
            "provider" => ("provider", self.provider),
            "region" => ("region", self.region),
            "workspace" => ("workspace", self.workspace),
            other => return Err(TemplateError::Unknown { name: other.to_owned() }),
        };
        match value {
            None => Err(TemplateError::NoValue(name)),
            Some(value) if value.chars().any(char::is_control) => Err(TemplateError::Control(name)),
            Some(value) => Ok(value),
        }
    }
}

/// Returns the value as it stands between double quotes. Control characters do not occur.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        for piece in pieces(text) {
            match piece {
                Piece::Name(name) if !NAMES.contains(&name) => {
                    return Err(TemplateError::Unknown { name: name.to_owned() });
                }
                Piece::Name(_) | Piece::Text(_) => {}
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the pieces of a text in order. `{word}` is a name; every other brace is text.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(name) = name_at_start(rest) {
            rest = rest.get(name.len() + 2..).unwrap_or_default();
            return Some(Piece::Name(name));
        }
        let braces = rest.char_indices().skip(1).filter(|(_, c)| *c == '{');
        let end = braces
            .map(|(at, _)| at)
            .find(|at| rest.get(*at..).is_some_and(|tail| name_at_start(tail).is_some()))
            .unwrap_or(rest.len());
        let (plain, tail) = rest.split_at(end);
        rest = tail;
        Some(Piece::Text(plain))
    })
}

fn name_at_start(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_word.then_some(name)
}
