//! Messages as they are written.

use crate::fields::{put_natural, put_string};

/// Writes fields of a message.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    /// Begins a message of a kind.
    pub(crate) fn of(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(crate) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.byte(u8::from(flag))
    }

    pub(crate) fn number(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(crate) fn string(mut self, bytes: &[u8]) -> Self {
        put_string(&mut self.0, bytes);
        self
    }

    /// Writes an unsigned number of many bytes.
    pub(crate) fn natural(mut self, bytes: &[u8]) -> Self {
        put_natural(&mut self.0, bytes);
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}
