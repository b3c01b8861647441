//! Typed reading of nodes, with errors that name file, line and key.

use std::str::FromStr;
use std::sync::Arc;

use super::keys::nearest;
use super::{Document, Fault, FileError, Key, Member, Node, Value};
use crate::origin::Place;

/// A table that is being read.
#[derive(Debug)]
pub struct Section<'a> {
    file: &'a Arc<str>,
    path: String,
    line: u32,
    members: &'a [Member],
}

/// A value that is being read.
#[derive(Debug)]
pub struct Item<'a> {
    file: &'a Arc<str>,
    /// The dotted key.
    path: String,
    /// The last part of the key.
    name: &'a str,
    line: u32,
    node: &'a Node,
}

impl<'a> Section<'a> {
    /// Returns the table that is the whole file, of which only `known` keys are accepted.
    ///
    /// # Errors
    /// Returns an error for a file that is not a table, or for an unknown key.
    pub fn of_document(document: &'a Document, known: &'static [Key]) -> Result<Self, FileError> {
        Item::of_document(document).table(known)
    }

    /// Returns the value of a key, if it is given.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        Some(self.item(member))
    }

    /// Returns the value of a key that must be given.
    ///
    /// # Errors
    /// Returns an error if the key is absent.
    pub fn require(&self, key: &str) -> Result<Item<'a>, FileError> {
        self.get(key).ok_or_else(|| self.missing(key))
    }

    /// Returns an error about a key that must be given.
    #[must_use]
    pub fn missing(&self, key: &str) -> FileError {
        let place = Place { file: self.file.clone(), line: self.line };
        FileError::new(place, dotted(&self.path, key), Fault::Missing)
    }

    /// Reads a key if it is given.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Item<'a>) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        self.get(key).map(|item| read(&item)).transpose()
    }

    /// Returns every key with its value, in the order of the file.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> {
        self.members.iter().map(|member| self.item(member))
    }

    fn item(&self, member: &'a Member) -> Item<'a> {
        Item {
            file: self.file,
            path: dotted(&self.path, &member.key),
            name: &member.key,
            line: member.line,
            node: &member.node,
        }
    }

    fn refuse_unknown(&self, known: &'static [Key]) -> Result<(), FileError> {
        for item in self.items() {
            if known.iter().any(|key| key.name == item.name) {
                continue;
            }
            let nearest = nearest(item.name, known.iter().map(|key| key.name)).map(str::to_owned);
            return Err(item.fault(Fault::Unknown { nearest }));
        }
        Ok(())
    }
}

/// Returns a dotted key; a part that is no bare TOML key is shown in quotes and escaped.
fn dotted(path: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        format!("\"{}\"", key.escape_debug())
    };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

impl<'a> Item<'a> {
    /// Returns the value that is the whole file.
    #[must_use]
    pub fn of_document(document: &'a Document) -> Self {
        Item {
            file: &document.file,
            path: String::new(),
            name: "",
            line: document.root.line,
            node: &document.root,
        }
    }

    /// Returns the last part of the key.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// File and line.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.line }
    }

    /// Returns an error at this value.
    #[must_use]
    pub fn fault(&self, fault: Fault) -> FileError {
        FileError::new(self.place(), self.path.clone(), fault)
    }

    /// Returns an error that says what this value should be.
    #[must_use]
    pub fn expected(&self, expected: impl Into<String>) -> FileError {
        self.fault(Fault::Expected { expected: expected.into(), found: self.node.value.kind() })
    }

    /// Returns an error about a value of the right type.
    #[must_use]
    pub fn invalid(&self, message: impl ToString) -> FileError {
        self.fault(Fault::Invalid(message.to_string()))
    }

    /// Text, without NUL bytes: all text ends up in paths, arguments or the environment.
    ///
    /// # Errors
    /// Returns an error for another type, or for a NUL byte.
    pub fn text(&self) -> Result<&'a str, FileError> {
        match &self.node.value {
            Value::Text(text) if text.contains('\0') => Err(self.invalid("contains a NUL byte")),
            Value::Text(text) => Ok(text),
            _ => Err(self.expected("text")),
        }
    }

    /// Returns text that a type reads; the error is the type's own.
    ///
    /// # Errors
    /// Returns an error for another type, or the error of the text's own type.
    pub fn parsed<T: FromStr<Err: ToString>>(&self) -> Result<T, FileError> {
        self.text()?.parse().map_err(|error: T::Err| self.invalid(error.to_string()))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// Returns an error for another type.
    pub fn flag(&self) -> Result<bool, FileError> {
        match self.node.value {
            Value::Bool(flag) => Ok(flag),
            _ => Err(self.expected("true or false")),
        }
    }

    /// Returns a whole number, at least 1.
    ///
    /// # Errors
    /// Returns an error for another type, or for less than 1.
    pub fn count(&self) -> Result<u64, FileError> {
        match self.node.value {
            Value::Integer(number) if number >= 1 => Ok(number.unsigned_abs()),
            Value::Integer(_) => Err(self.invalid("expected at least 1")),
            _ => Err(self.expected("a whole number")),
        }
    }

    /// Returns a whole number, at least 0.
    ///
    /// # Errors
    /// Returns an error for another type, or for less than 0.
    pub fn whole(&self) -> Result<u64, FileError> {
        match self.node.value {
            Value::Integer(number) => {
                u64::try_from(number).map_err(|_| self.invalid("expected at least 0"))
            }
            _ => Err(self.expected("a whole number")),
        }
    }

    /// Returns whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Null)
    }

    /// Returns whether the value is a table, for keys that take one or something simpler.
    #[must_use]
    pub fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    /// Returns whether the value is a list, likewise.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.node.value, Value::Array(_))
    }

    /// Any number.
    ///
    /// # Errors
    /// Returns an error for another type.
    pub fn number(&self) -> Result<f64, FileError> {
        match self.node.value {
            #[expect(clippy::cast_precision_loss, reason = "numbers this large are refused later")]
            Value::Integer(number) => Ok(number as f64),
            Value::Float(number) => Ok(number),
            _ => Err(self.expected("a number")),
        }
    }

    /// Returns a list's values.
    ///
    /// # Errors
    /// Returns an error for another type.
    pub fn list(&self) -> Result<Vec<Item<'a>>, FileError> {
        let Value::Array(nodes) = &self.node.value else { return Err(self.expected("a list")) };
        let item = |(position, node): (usize, &'a Node)| Item {
            file: self.file,
            path: format!("{}[{position}]", self.path),
            name: self.name,
            line: node.line,
            node,
        };
        Ok(nodes.iter().enumerate().map(item).collect())
    }

    /// Returns a list of text.
    ///
    /// # Errors
    /// Returns an error for another type, or for an item that is not text.
    pub fn texts(&self) -> Result<Vec<String>, FileError> {
        self.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    /// Returns a table of which only `known` keys are accepted.
    ///
    /// # Errors
    /// Returns an error for another type, or for an unknown key.
    pub fn table(&self, known: &'static [Key]) -> Result<Section<'a>, FileError> {
        let section = self.map()?;
        section.refuse_unknown(known)?;
        Ok(section)
    }

    /// Returns a table whose keys are free.
    ///
    /// # Errors
    /// Returns an error for another type.
    pub fn map(&self) -> Result<Section<'a>, FileError> {
        let Value::Table(members) = &self.node.value else { return Err(self.expected("a table")) };
        Ok(Section { file: self.file, path: self.path.clone(), line: self.line, members })
    }
}
