//! JSON values as JavaScript has them: with the order of keys, numbers that are 64-bit floats, and texts of UTF-16.
//!
//! Content addresses of tasks are over the bytes of `JSON.stringify`, so a value that was read is written as a
//! JavaScript program would write it: integer-like keys first, then the others in the order in which they came.

mod read;
mod text;
mod write;

use std::borrow::Cow;

pub use read::{InvalidJson, MOST_DEPTH, read};
pub use text::Text;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number. One that is too large is infinite, and written as `null`.
    Number(f64),
    Text(Text),
    Array(Vec<Value>),
    Object(Object),
}

/// An object. Its keys are in JavaScript's order, and each is there once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Vec<(Text, Value)>);

impl Object {
    /// Returns the object that has these members. Of two with one key the place is the first one's and the value the
    /// last one's (`JSON.parse`).
    #[must_use]
    pub fn new(members: Vec<(Text, Value)>) -> Self {
        Self(read::in_order(members))
    }

    /// Returns the value of a key, which is written without escapes.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name.escaped() == key).map(|(_, value)| value)
    }

    /// Returns the members, in JavaScript's order.
    pub fn members(&self) -> impl Iterator<Item = (&Text, &Value)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the object without a member.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        Self(self.0.iter().filter(|(name, _)| name.escaped() != key).cloned().collect())
    }

    /// Returns the object with a member more, at the end.
    #[must_use]
    pub fn with(&self, key: &str, value: impl Into<Value>) -> Self {
        let mut members = self.without(key).0;
        members.push((Text::new(key), value.into()));
        Self::new(members)
    }
}

impl Value {
    /// Returns an object with members in this order.
    #[must_use]
    pub fn object<const N: usize>(members: [(&str, Value); N]) -> Self {
        Self::Object(Object::new(members.map(|(key, value)| (Text::new(key), value)).into()))
    }

    /// Returns a member of an object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// Returns a member of an object that is there and not `null`.
    #[must_use]
    pub fn given(&self, key: &str) -> Option<&Value> {
        self.get(key).filter(|value| **value != Self::Null)
    }

    /// Returns the text of a member.
    #[must_use]
    pub fn text_of(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)?.as_text()
    }

    /// Returns the object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Returns the items of a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Returns the text. A part of a character that is alone in it is replaced.
    #[must_use]
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        if let Self::Text(text) = self { Some(text.to_str()) } else { None }
    }

    /// Returns the number if it is whole and not negative.
    #[must_use]
    pub fn as_count(&self) -> Option<u64> {
        /// The largest whole number that a program can rely on (`Number.MAX_SAFE_INTEGER`).
        const LARGEST: f64 = 9_007_199_254_740_991.0;
        match self {
            Self::Number(number) if number.fract() == 0.0 && (0.0..=LARGEST).contains(number) => {
                Some(*number as u64)
            }
            _ => None,
        }
    }

    /// Returns the boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Text::new(value))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::from(value.as_str())
    }
}

impl From<Object> for Value {
    fn from(value: Object) -> Self {
        Self::Object(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests;
